"""Strict JSON: UTF-8 without byte order mark, no duplicate keys, no NaN or Infinity, bounded size and depth.

msgspec decodes (it is strict about syntax, UTF-8 and numbers) but keeps the last of two equal keys. Duplicates are found by
counting: without a backslash in the text every quotation mark delimits a string, so the number of strings in the text is known
without parsing; each duplicate adds a key that the decoded tree does not have. Texts with a backslash are scanned by token.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from contract.errors import InputRejected
from contract.files.paths import open_path
from contract.files.rules import rejected
from contract.findings import Json, Where
from contract.limits import DEFAULT_LIMITS, Limits

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]', re.DOTALL)
_CONSTANT = re.compile(r"(?<![\w\"])-?(?:NaN|Infinity)\b")
_BOM = b"\xef\xbb\xbf"


def load_json(data: bytes, *, file: str = "<json>", limits: Limits = DEFAULT_LIMITS, limit: str = "json_bytes") -> Json:
    """Decode strict JSON.

    Args:
        data: the bytes of the document.
        file: its name, for messages.
        limits: the bounds; ``limit`` names the one for the size.

    Raises:
        InputRejected: not UTF-8, not strict JSON, a duplicate key (both places are named) or too deep.
        LimitExceeded: too many bytes or levels.
    """
    where = Where(file=file)
    limits.enforce(limit, len(data), what=f"{file} ({limit})", where=where, rule="files.json-too-large")
    if data.startswith(_BOM):
        raise rejected("files.json-not-utf8", f"{file} starts with a byte order mark", where=where)
    try:
        tree = msgspec.json.decode(data)
    except RecursionError:
        raise too_deep(file, limits) from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise _syntax_error(data, file, str(error)) from None
    strings, depth = _count(tree)
    if depth > limits.json_depth:
        raise too_deep(file, limits, depth)
    if b"\\" in data or data.count(b'"') != 2 * strings:
        find_duplicate(data.decode(), file)
    return tree


def load_json_file(path: str | Path, *, limits: Limits = DEFAULT_LIMITS, limit: str = "json_bytes") -> Json:
    """``load_json`` of a regular file. Raises the same errors, and those of ``contract.files.paths.open_path``."""
    with open_path(path) as opened:
        limits.enforce(limit, opened.size, what=f"{opened.name} ({limit})", where=Where(file=opened.name), rule="files.json-too-large")
        return load_json(opened.read_all(), file=opened.name, limits=limits, limit=limit)


def too_deep(file: str, limits: Limits, depth: int | None = None) -> InputRejected:
    """The error for nesting beyond ``json_depth``; without ``depth`` it is so deep that nobody counted."""
    how = f"{depth} levels" if depth is not None else "a thousand levels or more"
    return rejected("files.json-too-deep", f"{file} nests {how}; the limit json_depth is {limits.json_depth}", where=Where(file=file))


def _syntax_error(data: bytes, file: str, reason: str) -> InputRejected:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return rejected("files.json-not-utf8", f"{file} is not UTF-8 at byte {error.start}", where=Where(file=file))
    constant = _CONSTANT.search(_blank_strings(text))
    if constant:
        line, column = _position(text, constant.start())
        return rejected(
            "files.json-constant",
            f"{file} holds {constant.group()}, which is no JSON",
            where=Where(file=file, line=line, column=column),
        )
    at = re.search(r"\(byte (\d+)\)", reason)
    if at is None:
        return rejected("files.json-syntax", f"{file}: {reason}", where=Where(file=file))
    line, column = _position(text, len(data[: int(at.group(1))].decode(errors="ignore")))
    return rejected("files.json-syntax", f"{file}: {reason}", where=Where(file=file, line=line, column=column))


def _blank_strings(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', text, flags=re.DOTALL)


def _position(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def count_strings(tree: Json) -> int:
    """How many strings (keys and values) a decoded tree holds."""
    return _count(tree)[0]


def _count(tree: Json) -> tuple[int, int]:
    """Strings (keys and values) in the tree, and its depth; with a stack of its own."""
    strings, depth = 0, 0
    todo: list[tuple[Json, int]] = [(tree, 1)]
    while todo:
        node, level = todo.pop()
        if isinstance(node, str):
            strings += 1
        elif isinstance(node, dict):
            strings += len(node)
            depth = max(depth, level)
            todo.extend((value, level + 1) for value in node.values())
        elif isinstance(node, list):
            depth = max(depth, level)
            todo.extend((value, level + 1) for value in node)
    return strings, depth


def find_duplicate(text: str, file: str) -> None:
    """Raise if an object of this valid JSON text has a key twice; both places are named."""
    stack: list[dict[str, int]] = []
    last: tuple[str, int] = ("", 0)
    for token in _TOKEN.finditer(text):
        kind = token.group()[0]
        if kind == '"':
            last = token.group(), token.start()
        elif kind in "{[":
            stack.append({})
        elif kind in "}]":
            stack.pop()
        elif kind == ":":
            key = str(msgspec.json.decode(last[0]))
            first = stack[-1].setdefault(key, last[1])
            if first != last[1]:
                before, (line, column) = _position(text, first), _position(text, last[1])
                raise rejected(
                    "files.json-duplicate-key",
                    f"{file}: key {last[0][:80]} appears twice, at line {before[0]} column {before[1]} and at line {line} column {column}",
                    where=Where(file=file, line=line, column=column, key=key[:80]),
                )
