"""From the command line with which an engine is served to flags by name, as a reading takes them.

Only names are normalised here (``--speculative-num-steps 5`` becomes ``speculative_num_steps: 5``); what a flag does, and which one beats
which, is in the profiles (``serve``). The source may also be a file: a shell script, or YAML that holds a command or flags.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from contract.errors import InputRejected, UsageError
from contract.files.names import shown
from contract.jsonio import load_json
from eagle3_contract.readings.serve_files import command_of_file

ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "sglang": {
        "speculative_draft_model": "speculative_draft_model_path",
        "speculative_draft": "speculative_draft_model_path",
        "speculative_algo": "speculative_algorithm",
        "model": "model_path",
    },
    "vllm": {"sc": "speculative_config"},
}
"""Other names of flags (SGLang 0.5.23 arg_groups/fields/spec.py:36-42; vLLM 0.32.0 engine/arg_utils.py)."""
SPECULATES: Final[Mapping[str, str]] = {"sglang": "speculative_algorithm", "vllm": "speculative_config"}
"""The flag without which an engine drafts nothing."""
COMMANDS: Final = frozenset({"serve", "launch_server", "sglang.launch_server", "vllm.entrypoints.openai.api_server"})
SWITCHES: Final = frozenset({"trust_remote_code", "enable_metrics", "enforce_eager", "disable_cuda_graph", "enable_return_hidden_states"})
"""Flags that take no value although a word may follow them."""
ENVIRONMENT: Final = "env"
FIX: Final = "Give the arguments as you would type them in a shell, or name a shell script or YAML file that holds them."
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
_REAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", re.ASCII)
_OPERATOR = re.compile(r"\||\|\||&&|;|&|[0-9]*[<>].*")
_MOST_DIGITS: Final = 20
"""Of a whole number, its sign among them: 64 bits."""
_UNIT = {"k": 1000, "K": 1024, "m": 10**6, "M": 1024**2}


def parse_serve_args(engine: str, text: str) -> dict[str, Any]:
    """Flags by name, from arguments as typed in a shell or from a file that holds them.

    Args:
        engine: the engine's reference (``sglang==0.5.23``); only its name counts.
        text: the arguments, with or without the command before them, or the path of a file.

    Returns:
        Flag name (underscores) to value; environment variables set before the command under ``env``; vLLM's speculative_config as a
        mapping. The flag that asks for speculation is None where the command line leaves it out.

    Raises:
        UsageError: rule ``flags.unreadable``: quotes do not match, a value is no JSON where JSON is needed.
        InputRejected: the file cannot be read.
    """
    name = re.split(r"\[|==", engine, maxsplit=1)[0].lower()
    if text.strip() and not any(c.isspace() for c in text.strip()) and _is_file(text.strip()):
        text = command_of_file(text.strip(), name)
    return flags_of(name, _words(text))


def _is_file(text: str) -> bool:
    """Whether a word names a regular file; one that no file can be called (too long, NUL) does not."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise _unreadable(f"the serving arguments cannot be read: {error}") from None


def _unreadable(message: str) -> UsageError:
    return UsageError(message, rule="flags.unreadable", fix=FIX)


def flags_of(engine: str, words: Sequence[str]) -> dict[str, Any]:
    """Flags by name from the words of a command line. Raises like ``parse_serve_args``."""
    flags: dict[str, Any] = {}
    words, environment = _environment(words)
    if environment:
        flags[ENVIRONMENT] = environment
    for flag, value in _pairs(words):
        if flag is None:
            flags.setdefault("model", value)
            continue
        head, *rest = flag.split(".")
        head = ALIASES.get(engine, {}).get(head.replace("-", "_"), head.replace("-", "_"))
        _put(flags, [head, *(r.replace("-", "_") for r in rest)], _value(flag, value))
    return _settled(engine, flags)


def _environment(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """``A=1 B=2 command ...``: the words from the command on, and the variables before it."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        match = _ASSIGNMENT.fullmatch(word)
        if match is None and word not in ("env", "export"):
            return list(words[at:]), found
        if match is not None:
            found[match[1]] = match[2]
    return [], found


def _pairs(words: Sequence[str]) -> Iterator[tuple[str | None, str | bool]]:
    """(flag, value) pairs; (None, word) for a word after the command that belongs to no flag (vLLM's model)."""
    started = not any(w in COMMANDS for w in words)
    at = 0
    while at < len(words):
        word = words[at]
        if _OPERATOR.fullmatch(word):
            return
        at += 1
        if not word.startswith("-") or _WHOLE.fullmatch(word):
            if started and not word.startswith("-"):
                yield None, word
            started = started or word in COMMANDS
            continue
        if not started:
            at += word == "-m" and words[at : at + 1] != [] and words[at] not in COMMANDS
            continue
        flag, equals, value = word.lstrip("-").partition("=")
        if equals:
            yield flag, value
        elif at < len(words) and flag.replace("-", "_") not in SWITCHES and (not words[at].startswith("-") or _WHOLE.fullmatch(words[at])):
            yield flag, words[at]
            at += 1
        else:
            yield flag, True


def _value(flag: str, value: str | bool) -> Any:
    """A flag's value: a whole or real number, JSON, or text."""
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return _whole(flag, value)
    if _REAL.fullmatch(value):
        return _real(flag, value)
    if flag.endswith("max-model-len") and _WHOLE.fullmatch(value[:-1]) and value[-1] in _UNIT:
        return _whole(flag, value[:-1]) * _UNIT[value[-1]]
    if value[:1] in "{[" and value[:1]:
        try:
            return load_json(value.encode(), file=f"--{flag}")
        except InputRejected as error:
            raise _unreadable(f"--{flag} is no JSON: {error.message}") from None
    return value


def _whole(flag: str, value: str) -> int:
    if len(value) > _MOST_DIGITS:
        raise _unreadable(f"--{shown(flag)} {shown(value)}: no engine takes such a number")
    return int(value)


def _real(flag: str, value: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise _unreadable(f"--{shown(flag)} {shown(value)}: no engine takes such a number")
    return number


def _put(flags: dict[str, Any], path: Sequence[str], value: Any) -> None:
    holder = flags
    for part in path[:-1]:
        inner = holder.get(part)
        holder[part] = holder = dict(inner) if isinstance(inner, Mapping) else {}
    if isinstance(value, Mapping) and isinstance(holder.get(path[-1]), Mapping):
        value = {**holder[path[-1]], **value}
    holder[path[-1]] = value


def _settled(engine: str, flags: dict[str, Any]) -> dict[str, Any]:
    """What a command line leaves out: no speculation, or no drafter for it."""
    key = SPECULATES.get(engine)
    if key is not None:
        flags.setdefault(key, None)
    if engine == "sglang" and flags["speculative_algorithm"] is not None:
        flags.setdefault("speculative_draft_model_path", None)
    return flags
