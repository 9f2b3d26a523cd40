"""What a server's command line says: the engine, the target and the drafter that it will serve.

Flags of SGLang 0.5.23 (srt/server_args.py: --model-path/--model, --speculative-draft-model-path/--speculative-draft-model, --config) and
vLLM 0.32.0 (engine/arg_utils.py: the model is the word after ``serve`` or --model, --speculative-config/-sc is JSON or dotted, --config).
Only paths are looked for here; what every other flag does is the kind's business (``--serve-args``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from contract.errors import InputRejected
from contract.findings import Json
from contract.jsonio import load_json

MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {"sglang.launch_server": "sglang", "vllm.entrypoints.openai.api_server": "vllm", "vllm.entrypoints.cli.main": "vllm"}
)
"""After ``python -m``."""
PROGRAMS: Final = frozenset({"sglang", "vllm"})
"""Before ``serve``."""
_TARGET: Final = frozenset({"model-path", "model"})
_DRAFTER: Final = frozenset({"speculative-draft-model-path", "speculative-draft-model"})
_SPECULATIVE: Final = frozenset({"speculative-config", "sc"})
_CONFIG: Final = frozenset({"config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One server command line.

    Attributes:
        engine: ``sglang`` or ``vllm``.
        target: the model to serve, as given; None if the line does not name it.
        drafter: the drafter to serve, as given; None if the line does not name one.
        elsewhere: whether the line names a file with more flags, so that what it leaves out proves nothing.
    """

    engine: str
    target: str | None
    drafter: str | None
    elsewhere: bool


def served(command: Sequence[str]) -> Served | None:
    """What a command serves; None if it is no known server command line (a script, a shell, another program)."""
    for at, word in enumerate(command):
        following = command[at + 1] if at + 1 < len(command) else None
        module = MODULES.get(following or "") if word == "-m" else None
        if module is not None:
            rest = list(command[at + 2 :])
            return _parsed(module, rest[1:] if rest[:1] == ["serve"] else rest)
        name = os.path.basename(word)
        if name in PROGRAMS and following == "serve":
            return _parsed(name, command[at + 2 :])
    return None


def _parsed(engine: str, arguments: Sequence[str]) -> Served:
    target, drafter, elsewhere = None, None, False
    if engine == "vllm" and arguments and not arguments[0].startswith("-"):
        target = arguments[0]
    for flag, value in _flags(arguments):
        if flag in _TARGET:
            target = value
        elif flag in _DRAFTER:
            drafter = value
        elif flag in _SPECULATIVE:
            drafter = _model_of(value)
        elif flag == "speculative-config.model":
            drafter = value
        elif flag in _CONFIG:
            elsewhere = True
    return Served(engine=engine, target=target, drafter=drafter, elsewhere=elsewhere)


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """(name, value); of a repeated flag the last one counts, as argparse has it. Both engines take ``_`` for ``-``."""
    for at, word in enumerate(arguments):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = arguments[at + 1] if at + 1 < len(arguments) else None
        yield name.replace("_", "-"), value if equals else following


def _model_of(value: str | None) -> str | None:
    """The drafter that vLLM's speculative config names."""
    try:
        config: Json = load_json((value or "").encode(), file="--speculative-config")
    except InputRejected:
        return None  # vLLM will refuse it too
    model = config.get("model") if isinstance(config, dict) else None
    return model if isinstance(model, str) else None
