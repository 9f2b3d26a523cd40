"""The fields of the contract file by their dotted paths, from the Structs themselves: which there are, and of what type."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from eagle3_contract.model.spec import Contract, TensorSpec

NOT_ASKED: Final = frozenset({"schema_version", "kind", "tensors", "golden"})
"""Top-level fields that nobody answers: they follow from the files."""
TENSORS: Final = "tensors."
STATED_ONE_BY_ONE: Final = frozenset({"drafter.files", "training.samples.manifest"})
"""Maps from files to digests, which are counted and not asked."""


@lru_cache(maxsize=1)
def field_types() -> dict[str, Any]:
    """Dotted path to annotation of every field below the sections, in the order of the file; ``tensors`` and ``golden`` excepted."""
    return dict(_walk(Contract, ""))


def type_of(path: str) -> Any | None:
    """The annotation of a path, also of ``tensors.<name>.<field>``; None if there is no such field."""
    if path.startswith(TENSORS):
        name, dot, part = path.removeprefix(TENSORS).rpartition(".")
        hints = get_type_hints(TensorSpec, include_extras=True)
        return hints.get(part) if dot and name and part in TensorSpec.__struct_fields__ else None
    return field_types().get(path)


def nearest(path: str) -> list[str]:
    """Paths that were probably meant, nearest first: alike as a whole, or with the same last part."""
    known = list(field_types())
    last = path.rpartition(".")[2]
    same = [p for p in known if p.rpartition(".")[2] == last]
    return list(dict.fromkeys([*same, *get_close_matches(path, known, n=3)]))[:3]


def _walk(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(struct, include_extras=True)
    for name in (field.name for field in msgspec.structs.fields(struct)):
        if not prefix and name in NOT_ASKED:
            continue
        inner = _bare(hints[name])
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _walk(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", hints[name]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
