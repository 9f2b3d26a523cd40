"""A parsed contract: the tree and the two look-ups that findings need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source.builder import build
from contract.source.nodes import MappingNode, Mark, Node, Path, child_of, mark_of_child, path_text
from contract.source.text import decode, read_bytes, within_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML file. ``file`` is how it is called in findings, ``root`` its content."""

    file: str
    root: Node

    def node_at(self, path: str | Sequence[str | int]) -> Node | None:
        """The node at a path: a tuple of keys and indices, or text (``wiring.rope.theta``, ``tensors.fc.weight.shape[0]``)."""
        found = self._resolve(path)
        return None if found is None else _walk(self.root, found)

    def mark_of(self, path: str | Sequence[str | int]) -> Mark:
        """Where a path is written: at the key of an entry, at the item of a sequence, else at the nearest existing parent."""
        parts: Path = tuple(path) if not isinstance(path, str) else self._resolve(path) or self._nearest(path)
        mark, node = self.root.mark, self.root
        for part in parts:
            child = child_of(node, part)
            if child is None:
                break
            mark, node = mark_of_child(node, part), child
        return mark

    def where(self, path: str | Sequence[str | int]) -> Where:
        """The place of a path as a finding carries it."""
        mark = self.mark_of(path)
        key = path if isinstance(path, str) else path_text(path)
        return Where(file=self.file, line=mark.line, column=mark.column, key=key)

    def _resolve(self, path: str | Sequence[str | int]) -> Path | None:
        if not isinstance(path, str):
            return tuple(path)
        return next(_readings(self.root, _split(path)), None)

    def _nearest(self, path: str) -> Path:
        parts = _split(path)
        for end in range(len(parts) - 1, 0, -1):
            if (found := next(_readings(self.root, parts[:end]), None)) is not None:
                return found
        return ()


def parse_yaml(source: str | bytes, *, file: str = "<text>", limits: Limits = DEFAULT_LIMITS) -> Document:
    """Parse the text of one strict YAML document.

    Raises:
        InputRejected: a rule of ``contract.source.rules``, with file, line and column.
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    text = decode(within_size(data, len(data), file=file, limits=limits), file=file)
    return Document(file=file, root=build(text, file=file, limits=limits))


def read_yaml(path: str | os.PathLike[str], *, file: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Read and parse one strict YAML file; ``file`` is the name to show, the path as given by default.

    Raises:
        InputRejected: a rule of ``contract.source.rules``, with file, line and column.
    """
    label = file if file is not None else os.fspath(path)
    return parse_yaml(read_bytes(path, file=label, limits=limits), file=label, limits=limits)


def _walk(node: Node, path: Path) -> Node | None:
    current: Node | None = node
    for part in path:
        current = None if current is None else child_of(current, part)
    return current


def _split(path: str) -> list[str | int]:
    parts: list[str | int] = []
    for piece in path.split("."):
        name, *indices = piece.replace("]", "").split("[")
        parts += [*([name] if name else []), *(int(i) if i.isdecimal() else i for i in indices)]
    return parts


def _readings(node: Node, parts: list[str | int]) -> Iterator[Path]:
    """The ways to read the parts as existing keys; a key may itself have dots, so several parts may make one key."""
    if not parts:
        yield ()
        return
    head = parts[0]
    if isinstance(head, int):
        child = child_of(node, head)
        if child is not None:
            yield from ((head, *rest) for rest in _readings(child, parts[1:]))
        return
    for end in range(1, len(parts) + 1 if isinstance(node, MappingNode) else 1):
        if isinstance(parts[end - 1], int):
            return
        key = ".".join(str(p) for p in parts[:end])
        child = child_of(node, key)
        if child is not None:
            yield from ((key, *rest) for rest in _readings(child, parts[end:]))
