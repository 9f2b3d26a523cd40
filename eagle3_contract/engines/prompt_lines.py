"""A file of prompts: a JSON object with token ids on each line. No torch."""

from __future__ import annotations

from pathlib import Path

from contract.errors import InputRejected
from contract.files.paths import open_path
from contract.findings import Where
from contract.jsonio import load_json
from contract.limits import DEFAULT_LIMITS, Limits


def prompt_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, list[int]]]:
    """Id and token ids of every prompt: ``{"id": ..., "input_ids": [...]}`` on each line; other keys are not looked at.

    A line without an id is called after its number.

    Raises:
        InputRejected: ``engine.prompts-file``, with the line: no such object, or an id a second time; or the file cannot be read.
        LimitExceeded: the file, or a line's JSON, is too large.
    """
    with open_path(path) as opened:
        limits.enforce("json_bytes", opened.size, what=opened.name, where=Where(file=opened.name))
        data = opened.read_all()
    found: dict[str, list[int]] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        record = load_json(line, file=f"{path}:{number}", limits=limits)
        id_, ids = (record.get("id", f"prompt-{number:04d}"), record.get("input_ids")) if isinstance(record, dict) else (None, None)
        if not isinstance(id_, str) or not isinstance(ids, list) or not ids or not all(type(i) is int and 0 <= i < 2**31 for i in ids):
            raise _rejected(path, number, "is no prompt")
        if id_ in found:
            raise _rejected(path, number, "has the id of an earlier line")
        found[id_] = ids
    return list(found.items())


def _rejected(path: str | Path, line: int, why: str) -> InputRejected:
    return InputRejected(
        f"{path}:{line} {why}",
        rule="engine.prompts-file",
        fix='Write one JSON object a line: {"id": "p1", "input_ids": [1, 2, 3]}.',
        where=Where(file=str(path), line=line),
    )
