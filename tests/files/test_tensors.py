"""Reading tensors whole, by rows and while hashing; writing them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from contract.errors import InputRejected, InternalError
from contract.files.checkpoint import Checkpoint
from contract.files.paths import OpenedFile
from contract.files.torch_tensors import TORCH_DTYPES, load_rows, load_tensor
from contract.files.writing import tensor_bytes, write_safetensors, write_sparse_safetensors


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    torch.manual_seed(0)
    tensors = {"w": torch.randn(9, 5), "h": torch.randn(9, 2, 3).bfloat16(), "s": torch.tensor(3), "e": torch.empty(0, 4)}
    save_file(tensors | {"q": torch.randn(4).to(torch.float8_e4m3fn), "t2d": torch.tensor([True, False])}, tmp_path / "model.safetensors")
    return Checkpoint.open(tmp_path)


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    def raw(t: torch.Tensor) -> torch.Tensor:
        return t.contiguous().reshape(-1).view(torch.uint8)

    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(raw(left), raw(right))


def test_whole_tensors_are_the_librarys(checkpoint: Checkpoint) -> None:
    theirs = load_file(checkpoint.path / "model.safetensors")
    assert theirs.keys() == set(checkpoint.tensors)
    for name, tensor in theirs.items():
        assert same(load_tensor(checkpoint.tensors[name]), tensor)
        assert len(checkpoint.read_bytes(name)) == checkpoint.tensors[name].nbytes


@given(rows=st.lists(st.integers(0, 8), max_size=12), name=st.sampled_from(["w", "h"]))
def test_rows_come_in_the_order_asked(tmp_path_factory: pytest.TempPathFactory, rows: list[int], name: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    path = folder / "rows.safetensors"
    tensors = {"w": torch.arange(45.0).reshape(9, 5), "h": torch.arange(54).reshape(9, 2, 3).bfloat16()}
    if not path.exists():
        save_file(tensors, path)
    ref = Checkpoint.open(path).tensors[name]
    assert same(load_rows(ref, rows), tensors[name][rows])
    assert len(ref.read_rows(rows)) == len(rows) * ref.row_bytes


def test_only_the_rows_asked_are_read(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []
    plain = OpenedFile.read_into

    def counted(self: OpenedFile, offset: int, buffer: bytearray | memoryview) -> None:
        reads.append((offset, len(buffer)))
        plain(self, offset, buffer)

    monkeypatch.setattr(OpenedFile, "read_into", counted)
    ref = checkpoint.tensors["w"]
    checkpoint.read_rows("w", [7, 2, 3, 4, 0])
    assert reads == [(ref.offset + 7 * 20, 20), (ref.offset + 2 * 20, 60), (ref.offset, 20)]


@pytest.mark.parametrize("rows", [[9], [-1], [0, 99]])
def test_rows_that_do_not_exist(checkpoint: Checkpoint, rows: list[int]) -> None:
    with pytest.raises(InternalError):
        checkpoint.read_rows("w", rows)
    with pytest.raises(InternalError):
        checkpoint.read_rows("s", [0])


@pytest.mark.parametrize("chunk_bytes", [64, 128, 1 << 20])
def test_one_pass_yields_every_byte_and_the_digest(checkpoint: Checkpoint, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = checkpoint.path / "model.safetensors", 0
    plain = OpenedFile.read_into

    def counted(self: OpenedFile, offset: int, buffer: bytearray | memoryview) -> None:
        nonlocal read
        read += len(buffer)
        plain(self, offset, buffer)

    monkeypatch.setattr(OpenedFile, "read_into", counted)
    scan = type(checkpoint.scan(path.name))(checkpoint.shards[0], chunk_bytes=chunk_bytes)
    with pytest.raises(InternalError):
        assert scan.sha256
    got: dict[str, bytes] = {}
    for piece in scan:
        assert piece.start == len(got.get(piece.ref.name, b""))
        got[piece.ref.name] = got.get(piece.ref.name, b"") + bytes(piece.data)
    assert read == path.stat().st_size
    assert scan.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == checkpoint.sha256(path.name)
    assert got == {n: bytes(checkpoint.read_bytes(n)) for n in checkpoint.tensors if checkpoint.tensors[n].nbytes}
    with pytest.raises(KeyError):
        checkpoint.scan("other")


def test_written_files_are_the_librarys(tmp_path: Path) -> None:
    tensors = {f"t.{dtype}": torch.arange(6).reshape(2, 3).to(kind) for dtype, kind in TORCH_DTYPES.items() if dtype != "F8_E8M0"}
    path = tmp_path / "x.safetensors"
    write_safetensors(
        path,
        {n: (n[2:], t.shape, bytes(t.reshape(-1).view(torch.uint8).numpy())) for n, t in tensors.items()},
        {"format": "pt"},
    )
    theirs = load_file(path)
    assert theirs.keys() == tensors.keys()
    assert all(same(theirs[n], t) for n, t in tensors.items())
    checkpoint = Checkpoint.open(path)
    assert checkpoint.shards[0].header.metadata == {"format": "pt"}
    assert checkpoint.cross_check() == []
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_sparse_files(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    size = write_sparse_safetensors(path, {"embed": ("BF16", [163840, 7168]), "b": ("F32", [3])})
    assert size == path.stat().st_size > 163840 * 7168 * 2
    assert path.stat().st_blocks * 512 < 1 << 20
    ref = Checkpoint.open(path).tensors["embed"]
    assert torch.equal(load_rows(ref, [0, 163839]), torch.zeros(2, 7168, dtype=torch.bfloat16))


def test_bytes_that_do_not_fit_are_not_written(tmp_path: Path) -> None:
    for bad in (("F32", [2], b"1234567"), ("F99", [2], b""), ("F4", [3], b"12")):
        with pytest.raises(InternalError):
            write_safetensors(tmp_path / "x", {"a": bad})
    assert os.listdir(tmp_path) == []
    assert tensor_bytes("F4", [4]) == 2


def test_dtypes_that_torch_does_not_have(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", {"a": ("F4", [4], b"ab"), "b": ("BOOL", [2], b"\x01\x02")})
    for ref in Checkpoint.open(tmp_path / "x.safetensors").tensors.values():
        with pytest.raises(InputRejected) as caught:
            load_tensor(ref)
        assert caught.value.rule == "files.unsupported-dtype"


def test_cross_check_names_what_differs(checkpoint: Checkpoint) -> None:
    assert checkpoint.cross_check() == []
    header = checkpoint.shards[0].header
    row = header.row("w")
    header.dims[int(header.ranks[:row].sum())] = 8
    (problem,) = checkpoint.cross_check()
    assert problem.rule.id == "files.view-differs"
    assert problem.where is not None
    assert problem.where.tensor == "w"


def test_cross_check_reports_a_refusal_of_the_library(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", {"a": ("F32", [1], bytes(4))})
    data = (tmp_path / "x.safetensors").read_bytes().replace(b"F32", b"F99")
    (tmp_path / "x.safetensors").write_bytes(data)
    (problem,) = Checkpoint.open(tmp_path / "x.safetensors").cross_check()
    assert problem.rule.id == "files.view-differs"
