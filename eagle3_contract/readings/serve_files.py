"""Files that hold a serving command: shell scripts, docker-compose, Kubernetes manifests, Helm values. Nothing in them is executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contract.errors import UsageError
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source.document import parse_yaml
from contract.source.nodes import to_plain
from contract.source.text import decode, read_bytes

YAML_ENDINGS: Final = (".yaml", ".yml", ".json")
COMMAND_KEYS: Final = ("entrypoint", "command", "args", "extraArgs", "extra_args")
"""Keys whose values make up one command line, in this order (docker-compose, Kubernetes, Helm charts of both engines)."""
MARKS: Final[Mapping[str, tuple[str, ...]]] = {"sglang": ("sglang", "--speculative"), "vllm": ("vllm", "--speculative")}
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)\s*$")
_USED = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]{0,1024}))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_MOST_VARIABLES: Final = 8  # a variable may name another; rounds of replacement


def command_of_file(path: str | Path, engine: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The command line for an engine in a file.

    Raises:
        UsageError: rule ``flags.no-command``: nothing in the file serves that engine, or two commands do.
        InputRejected: the file cannot be read, or is no strict YAML.
        LimitExceeded: ``shell_characters``: its variables grow beyond measure.
    """
    place = Path(path)
    text = decode(read_bytes(place, file=place.name, limits=limits), file=place.name)
    found = list(
        _from_yaml(text, place.name, engine, limits) if place.suffix in YAML_ENDINGS else _from_shell(text, place.name, engine, limits)
    )
    if len(found) != 1:
        what = f"{len(found)} commands serve" if found else "nothing serves"
        raise UsageError(
            f"{place.name}: {what} {engine}",
            rule="flags.no-command",
            fix='Give the arguments themselves: --serve-args ENGINE="--flag value ...".',
        )
    return found[0]


def _serves(text: str, engine: str) -> bool:
    return any(mark in text for mark in MARKS.get(engine, (engine,)))


def _from_shell(text: str, file: str, engine: str, limits: Limits) -> Iterator[str]:
    """Lines that start the engine, continued lines joined, the script's own variables put in."""
    variables = _Variables(file, limits)
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        bare = line.strip()
        assigned = _ASSIGNED.match(line)
        if assigned:
            variables.assign(assigned[1], assigned[2].strip("\"'"))
        elif bare and not bare.startswith("#") and _serves(bare, engine) and " -" in bare:
            yield variables.put_in(bare)


class _Variables:
    """The variables that a script sets. Each may repeat the one before it, so that what they become is counted over the whole script."""

    def __init__(self, file: str, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._values: dict[str, str] = {}
        self._written = 0

    def assign(self, name: str, text: str) -> None:
        """``NAME=text``. Raises LimitExceeded."""
        self._values[name] = self.put_in(text)

    def put_in(self, text: str) -> str:
        """The text with the variables put in that the script sets; others stay as they are written. Raises LimitExceeded."""
        for _ in range(_MOST_VARIABLES):
            new = "".join(self._pieces(text))
            if new == text:
                break
            text = new
        return text

    def _pieces(self, text: str) -> Iterator[str]:
        end = 0
        for used in _USED.finditer(text):
            yield self._counted(text[end : used.start()])
            yield self._counted(self._values.get(used[1] or used[3], used[2] if used[2] is not None else used[0]))
            end = used.end()
        yield self._counted(text[end:])

    def _counted(self, piece: str) -> str:
        self._written += len(piece)
        what = f"{self._file}: the text that its variables become"
        self._limits.enforce("shell_characters", self._written, what=what, where=Where(file=self._file))
        return piece


def _from_yaml(text: str, file: str, engine: str, limits: Limits) -> Iterator[str]:
    for document in re.split(r"(?m)^---[^\n]*\n", text):
        if document.strip():
            yield from _commands(to_plain(parse_yaml(document, file=file, limits=limits).root), engine)


def _commands(node: Any, engine: str) -> Iterator[str]:
    """Every command line under a node that serves the engine: the command keys of one mapping, or flags written as its keys."""
    if isinstance(node, list):
        for item in node:
            yield from _commands(item, engine)
    if not isinstance(node, Mapping):
        return
    line = " ".join(_line(node[k]) for k in COMMAND_KEYS if k in node)
    if line and _serves(f"{line} {node.get('image', '')}", engine):
        yield line
        return
    flags = {str(k): v for k, v in node.items() if str(k).replace("_", "-").startswith("speculative-")}
    if flags:
        yield " ".join(f"--{k.replace('_', '-')} {_line([v])}" for k, v in node.items() if not isinstance(v, Mapping | list))
        return
    for value in node.values():
        yield from _commands(value, engine)


def _line(value: Any) -> str:
    """A command as text: as it stands, or its words quoted for a shell. ``sh -c SCRIPT`` stands for its script."""
    if not isinstance(value, list):
        return str(value)
    words = [str(v) for v in value]
    if words[-2:-1] in (["-c"], ["-lc"], ["-ec"]):
        return words[-1].replace("\\\n", " ").replace("\n", " ")
    return " ".join(map(shlex.quote, words))
