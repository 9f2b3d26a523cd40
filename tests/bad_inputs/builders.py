"""Builders of hostile files. Each returns bytes or writes into a folder; nothing here is ever run by the verifier."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.rules import RULES
from contract.findings import Severity, Status

F32_2 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def container(header: bytes | str | Mapping[str, Any], data: bytes = b"") -> bytes:
    """A safetensors file with this header, whatever it is."""
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Sequence[Any] = (2,), begin: Any = 0, end: Any = 8) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def put(folder: Path, data: bytes, name: str = "model.safetensors") -> Path:
    (folder / name).write_bytes(data)
    return folder


def shards(folder: Path, parts: Mapping[str, Mapping[str, int]], index: Mapping[str, Any] | str | None = None) -> Path:
    """Shards of float32 vectors (file to tensor to length) and an index, by default the right one."""
    weight_map = {name: file for file, tensors in parts.items() for name in tensors}
    total = 0
    for file, tensors in parts.items():
        header, at = {}, 0
        for name, length in tensors.items():
            header[name] = entry("F32", [length], at, at + 4 * length)
            at += 4 * length
        total += at
        (folder / file).write_bytes(container(header, bytes(at)))
    right = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = index if isinstance(index, str) else json.dumps(right | dict(index or {}))
    (folder / "model.safetensors.index.json").write_text(text)
    return folder


def rejects(path: Path, rule: str, **options: Any) -> str:
    """Assert that opening fails with this rule; returns the message. Opening without ``strict`` reports the same, with exit 2."""
    assert rule in RULES
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(path, **options)
    assert (caught.value.rule, bool(caught.value.fix)) == (rule, True), caught.value.message
    recorded = [p for p in Checkpoint.open(path, strict=False, **options).problems if p.rejects]
    assert rule in [p.rule.id for p in recorded]
    assert all(p.as_check().rejected for p in recorded)
    return caught.value.message


def finds(path: Path, rule: str, **options: Any) -> list[str]:
    """Assert that opening succeeds and every problem is of this rule (at least one); returns the messages."""
    problems = Checkpoint.open(path, **options).problems
    assert {p.rule.id for p in problems} == {rule}
    status = Status.FAILED if RULES[rule].severity is Severity.ERROR else Status.UNKNOWN
    assert all((p.as_check().status, p.as_check().rejected) == (status, False) for p in problems)
    assert RULES[rule].severity is Severity.ERROR or not any(p.as_check().required for p in problems)
    return [p.message for p in problems]


def accepts(path: Path, **options: Any) -> Checkpoint:
    """Assert that opening finds nothing wrong."""
    checkpoint = Checkpoint.open(path, **options)
    assert checkpoint.problems == ()
    return checkpoint


def torch_zip(path: Path, pickle: bytes, *, root: str = "archive", more: Mapping[str, bytes] | None = None, method: int = 0) -> Path:
    """An archive like torch.save's around any pickle."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {"data.pkl": pickle, "version": b"3\n", "byteorder": b"little", **(more or {})}.items():
            archive.writestr(f"{root}/{name}", data)
    return path


def patched(path: Path, change: Callable[[bytearray], None]) -> Path:
    """The file with some bytes changed."""
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    return path
