"""Files that hold a serving command: shell scripts, docker-compose, Kubernetes manifests, Helm values. Nothing in them is executed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contract.errors import UsageError
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source.document import parse_yaml
from contract.source.nodes import to_plain
from contract.source.text import decode, read_bytes

YAML_ENDINGS: Final = (".yaml", ".yml", ".json")
COMMAND_KEYS: Final = ("entrypoint", "command", "args", "extraArgs", "extra_args")
"""Keys whose values make up one command line, in this order (docker-compose, Kubernetes, Helm charts of both engines)."""
MARKS: Final[Mapping[str, tuple[str, ...]]] = {"sglang": ("sglang", "--speculative"), "vllm": ("vllm", "--speculative")}
_ASSIGNED = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)\s*$")
_USED = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_MOST_VARIABLES: Final = 8  # a variable may name another; rounds of replacement


def command_of_file(path: str | Path, engine: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The command line for an engine in a file.

    Raises:
        UsageError: rule ``flags.no-command``: nothing in the file serves that engine, or two commands do.
        InputRejected: the file cannot be read, or is no strict YAML.
    """
    place = Path(path)
    text = decode(read_bytes(place, file=place.name, limits=limits), file=place.name)
    found = list(_from_yaml(text, place.name, engine, limits) if place.suffix in YAML_ENDINGS else _from_shell(text, engine))
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


def _from_shell(text: str, engine: str) -> Iterator[str]:
    """Lines that start the engine, continued lines joined, the script's own variables put in."""
    variables: dict[str, str] = {}
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        bare = line.strip()
        assigned = _ASSIGNED.match(line)
        if assigned:
            variables[assigned[1]] = _expanded(assigned[2].strip("\"'"), variables)
        elif bare and not bare.startswith("#") and _serves(bare, engine) and " -" in bare:
            yield _expanded(bare, variables)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with the variables put in that the script sets; others stay as they are written."""
    for _ in range(_MOST_VARIABLES):
        new = _USED.sub(lambda m: variables.get(m[1] or m[3], m[2] if m[2] is not None else m[0]), text)
        if new == text:
            break
        text = new
    return text


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
