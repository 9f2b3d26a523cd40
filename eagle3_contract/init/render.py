"""A contract tree as YAML that people read: a comment per section, one line per statement where it fits, nothing that needs a legend."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from contract.findings import Json

WIDTH: Final = 140
MODELINE: Final = "# yaml-language-server: $schema=contract.schema.json"
COMMENTS: Final[Mapping[str, str]] = {
    "drafter": "Every file of the drafter's folder. A file that is not listed here is a finding.",
    "target": "The model that the drafter was trained on.",
    "hidden_states": "The states that training concatenated into fc. Boundary n is the stream that enters target layer n: 0 the embedding.",
    "vocab": "Which target token a draft id stands for.",
    "wiring": "Everything else that decides the drafter's arithmetic.",
    "alignment": "Which token goes with which state, and at which rotary position.",
    "tensors": "Every tensor under its canonical name (layers.0.* for midlayer.*), stored or taken from the target.",
    "training": "Who trained it, on what, and what was claimed.",
    "golden": "Inputs and logits of a small forward. Made by the tool they are a regression test, not a proof of the wiring.",
    "serving": "How it is meant to be served.",
    "acceptance": "What counts as accepted, and how much of it is enough.",
    "tolerances": "Bounds that may only be tighter than the built-in ones.",
}
_PLAIN: Final = re.compile(r"[A-Za-z/(][A-Za-z0-9 _./()+=*<>;'^-]*[A-Za-z0-9_./)]|[A-Za-z]", re.ASCII)
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def contract_text(tree: Mapping[str, Json], head: Sequence[str]) -> str:
    """The file's text. ``head`` are comment lines below the modeline."""
    return "\n".join([MODELINE, *(f"# {line}" for line in head), *_sections(tree)]) + "\n"


def _sections(tree: Mapping[str, Json]) -> Iterator[str]:
    for name, value in tree.items():
        if name in COMMENTS:
            yield ""
            yield f"# {COMMENTS[name]}"
        if isinstance(value, Mapping) and value and not _is_statement(value):
            yield f"{name}:"
            yield from _entries(value, 1)
        else:
            yield from _entry(name, value, 0)


def _entries(mapping: Mapping[str, Json], depth: int) -> Iterator[str]:
    for key, value in mapping.items():
        yield from _entry(str(key), value, depth)


def _entry(key: str, value: Json, depth: int) -> Iterator[str]:
    indent = "  " * depth
    line = f"{indent}{scalar(key)}: {flow(value)}"
    section = isinstance(value, Mapping) and value and not _is_statement(value) and not _is_tensor(value)
    if not section and (len(line) <= WIDTH or not isinstance(value, Mapping) or _is_tensor(value) or not value):
        yield line
        return
    yield f"{indent}{scalar(key)}:"
    yield from _entries(value, depth + 1)


def flow(value: Json) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(k))}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    return scalar(value)


def scalar(value: Json) -> str:
    """A scalar that reads back as itself under the core schema of YAML 1.2; quoted wherever a reader might take it for something else."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")
        # With a point, so that readers of YAML 1.1 take 1.0e-05 for a number too.
        return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else repr(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.endswith(":"):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _is_statement(value: Mapping[str, Json]) -> bool:
    return "value" in value or "unknown" in value


def _is_tensor(value: Mapping[str, Json]) -> bool:
    return "stored" in value and "shape" in value
