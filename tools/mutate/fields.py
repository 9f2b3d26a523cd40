"""One change to each value of a contract."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

Path = tuple[str, ...]
OTHER: Final[Mapping[str, str]] = {
    "pre_norm": "post_norm",
    "post_norm": "pre_norm",
    "gqa": "mla",
    "embedding_first": "hidden_first",
    "hidden_first": "embedding_first",
    "own": "target",
    "target": "own",
    "offset": "absolute",
    "absolute": "offset",
    "identity": "offset",
    "advance": "constant",
    "constant": "advance",
    "teacher": "own_argmax",
    "own_argmax": "teacher",
    "input_layernorm": "hidden_norm",
    "none": "hidden_norm",
    "silu": "gelu",
    "bfloat16": "float16",
    "float32": "float16",
    "default": "linear",
    "independent": "target_copy",
    "target_copy": "independent",
    "pooled": "per_sample",
    "residual": "branch",
    "trainer": "tool",
    "llama": "qwen2",
}
"""Another word for words of closed lists; any other text gets a letter more."""


def leaves(tree: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value with its path; a list is one value, and so is a statement of ignorance."""
    if isinstance(tree, dict) and tree and "unknown" not in tree:
        for key, value in tree.items():
            yield from leaves(value, (*at, str(key)))
    else:
        yield at, tree


def other(value: Any) -> Any:
    """A value like this one, and another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2 if value else 1.0
    if isinstance(value, str):
        if value.startswith("sha256:"):
            return value[:-1] + ("0" if value[-1] != "0" else "1")
        return OTHER.get(value, value + "x")
    if isinstance(value, list):
        if len(value) > 1 and value != value[::-1]:
            return value[::-1]
        return [other(v) for v in value] or ["input_norm"]
    if value is None:
        return 7
    return None  # a statement of ignorance


def mutants(contract: Mapping[str, Any]) -> Iterator[tuple[Path, Any, Any, dict[str, Any]]]:
    """(path, before, after, contract) for each value."""
    for path, value in leaves(contract):
        changed = other(value)
        if changed is None:
            continue
        tree = copy.deepcopy(dict(contract))
        at: Any = tree
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = changed
        yield path, value, changed, tree
