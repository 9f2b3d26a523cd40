"""A document or a node as a typed value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as mi

from contract.errors import InternalError
from contract.source.document import Document
from contract.source.nodes import Node, to_plain
from contract.structs.problems import SpecInvalid
from contract.structs.walk import Walker

T = TypeVar("T")


def load_typed(source: Document | Node, type_: type[T], *, file: str = "<text>") -> T:
    """The value of a node as ``type_``: msgspec Structs (all with ``forbid_unknown_fields``) of scalars, Literals, Enums, lists, dicts,
    unions with at most one Struct or dict and at most one list, and ``Meta`` constraints.

    ``file`` names the file in the findings where ``source`` is a bare node.

    Raises:
        SpecInvalid: with every problem of the whole tree.
    """
    schema: Any = type_
    root, name = (source.root, source.file) if isinstance(source, Document) else (source, file)
    walker = Walker(file=name)
    walker.visit(root, _info(schema), (), root.mark)
    if walker.problems:
        raise SpecInvalid(walker.problems)
    try:
        return msgspec.convert(to_plain(root), type_)
    except msgspec.ValidationError as error:
        raise InternalError(f"the walker and msgspec disagree on {name}: {error}") from error


@lru_cache(maxsize=64)
def _info(type_: Any) -> mi.Type:
    return mi.type_info(type_)
