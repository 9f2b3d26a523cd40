"""Hostile pickle-family files, numbered. None of them may ever run: the canary stays absent."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.npy import load_npy
from contract.files.pickled import PickleLoader
from contract.limits import DEFAULT_LIMITS

from .builders import finds, patched, put, rejects, torch_zip


@pytest.fixture(scope="module")
def loader() -> Iterator[PickleLoader]:
    with PickleLoader(limits=DEFAULT_LIMITS.lowered(pickle_seconds=20, pickle_memory_bytes=2 << 30, pickle_bytes=1 << 30)) as made:
        yield made


class _Touch:
    """Creates the canary when it is unpickled without a guard."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch '{self.canary}'",)


def refuses(loader: PickleLoader, path: Path, rule: str) -> str:
    with pytest.raises(InputRejected) as caught:
        loader.load(path)
    assert caught.value.rule == rule, caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "x.ckpt"])
def test_43_pickles_only(tmp_path: Path, name: str) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / name)
    rejects(tmp_path, "files.pickle-refused")
    rejects(tmp_path / name, "files.pickle-refused")
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(tmp_path)
    assert "--allow-pickle" in caught.value.fix
    assert "safetensors" in caught.value.fix
    checkpoint = Checkpoint.open(tmp_path, allow_pickle=True)
    assert [(n, r.dtype, r.shape) for n, r in checkpoint.tensors.items()] == [("a", "F32", (2,))]
    assert bytes(checkpoint.read_bytes("a")) == bytes(8)


def test_44_reduce_is_never_run(tmp_path: Path, loader: PickleLoader) -> None:
    canary = tmp_path / "canary"
    for payload in (_Touch(canary), {"a": _Touch(canary)}, [torch.zeros(1), _Touch(canary)]):
        torch.save(payload, tmp_path / "x.pt")
        refuses(loader, tmp_path / "x.pt", "files.pickle-blocked")
        torch_zip(tmp_path / "y.pt", pickle.dumps(payload))
        refuses(loader, tmp_path / "y.pt", "files.pickle-blocked")
    rejects(tmp_path / "x.pt", "files.pickle-blocked", allow_pickle=True)
    assert not canary.exists()
    torch.load(tmp_path / "x.pt", weights_only=False)
    assert canary.exists(), "the canary itself must work"


def test_45_raw_pickle_and_legacy_archives(tmp_path: Path, loader: PickleLoader) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(_Touch(canary)))
    torch.save({"a": torch.zeros(2)}, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    with tarfile.open(tmp_path / "tar.pt", "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    (tmp_path / "empty.pt").touch()
    for name in ("raw", "legacy", "tar", "empty"):
        refuses(loader, tmp_path / f"{name}.pt", "files.pickle-format")
    assert not canary.exists()


def test_46_zip_bomb(tmp_path: Path, loader: PickleLoader) -> None:
    bomb = torch_zip(tmp_path / "x.pt", pickle.dumps({}), more={"data/0": bytes(64 << 20)}, method=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1 << 20
    assert "compressed" in refuses(loader, bomb, "files.pickle-compressed")


def test_46_gzip_bomb(tmp_path: Path) -> None:
    (tmp_path / "x.ckpt.gz").write_bytes(gzip.compress(bytes(32 << 20)))
    with PickleLoader(limits=DEFAULT_LIMITS.lowered(pickle_bytes=1 << 20)) as small:
        refuses(small, tmp_path / "x.ckpt.gz", "files.limit-exceeded")


def _clean(path: Path) -> Path:
    torch.save({"a": torch.arange(4.0)}, path)
    return path


def _central(data: bytearray) -> int:
    """Where the first entry of the central directory begins."""
    return data.index(b"PK\x01\x02")


def test_47_encrypted_entry(tmp_path: Path, loader: PickleLoader) -> None:
    def change(data: bytearray) -> None:
        data[_central(data) + 8] |= 1
        data[6] |= 1

    refuses(loader, patched(_clean(tmp_path / "x.pt"), change), "files.pickle-encrypted")


def test_47_bad_checksum(tmp_path: Path, loader: PickleLoader) -> None:
    def change(data: bytearray) -> None:
        data[data.index(np.arange(4, dtype="<f4").tobytes()) + 1] ^= 1

    refuses(loader, patched(_clean(tmp_path / "x.pt"), change), "files.pickle-crc")


def test_47_local_and_central_names_differ(tmp_path: Path, loader: PickleLoader) -> None:
    def change(data: bytearray) -> None:
        at = data.index(b"data.pkl")
        data[at : at + 8] = b"evil.pkl"

    refuses(loader, patched(_clean(tmp_path / "x.pt"), change), "files.pickle-names")


def test_47_local_and_central_flags_differ(tmp_path: Path, loader: PickleLoader) -> None:
    refuses(loader, patched(_clean(tmp_path / "x.pt"), lambda data: data.__setitem__(8, 8)), "files.pickle-names")


@pytest.mark.parametrize("name", ["code/x.py", "constants.pkl", "data/../../x", "data/x", "evil.py", "data/0\0.txt"])
def test_47_entries_that_torch_does_not_write(tmp_path: Path, loader: PickleLoader, name: str) -> None:
    plain = name.replace("\0", "0")
    torch_zip(tmp_path / "x.pt", pickle.dumps({}), more={plain: b"x"})
    if "\0" in name:
        patched(tmp_path / "x.pt", lambda data: data.__setitem__(slice(0, len(data)), data.replace(b"data/00.", b"data/0\0.")))
    refuses(loader, tmp_path / "x.pt", "files.pickle-names")


def test_47_two_roots_or_no_pickle(tmp_path: Path, loader: PickleLoader) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}))
        archive.writestr("b/data.pkl", pickle.dumps({}))
    refuses(loader, tmp_path / "x.pt", "files.pickle-names")
    with zipfile.ZipFile(tmp_path / "y.pt", "w") as archive:
        archive.writestr("a/version", b"3")
    refuses(loader, tmp_path / "y.pt", "files.pickle-names")


def test_47_bytes_before_after_and_between(tmp_path: Path, loader: PickleLoader) -> None:
    whole = _clean(tmp_path / "x.pt").read_bytes()
    for odd in (pickle.dumps(1) + whole, whole + b"x", whole[:-1], b"\x80\x02" + whole[2:], whole[:40]):
        (tmp_path / "x.pt").write_bytes(odd)
        refuses(loader, tmp_path / "x.pt", "files.pickle-format")
    torch_zip(tmp_path / "y.pt", pickle.dumps({}))
    data = (tmp_path / "y.pt").read_bytes()
    start = data.index(b"PK\x01\x02")
    end = bytearray(data[start:])
    end[-6:-2] = struct.pack("<I", start + 7)
    (tmp_path / "y.pt").write_bytes(data[:start] + b"smuggle" + bytes(end))
    refuses(loader, tmp_path / "y.pt", "files.pickle-sizes")


def test_47_content_decides_and_not_the_extension(tmp_path: Path, loader: PickleLoader) -> None:
    assert loader.load(_clean(tmp_path / "x.txt")).keys() == {"a"}


def test_48_safetensors_by_name_only(tmp_path: Path) -> None:
    for data in (_clean(tmp_path / "x").read_bytes(), pickle.dumps({"a": 1}), gzip.compress(b"x")):
        folder = tmp_path / "checkpoint"
        folder.mkdir(exist_ok=True)
        rejects(put(folder, data), "files.not-safetensors")


def test_49_storage_that_claims_more_than_there_is(tmp_path: Path, loader: PickleLoader) -> None:
    with zipfile.ZipFile(_clean(tmp_path / "x.pt")) as archive:
        content = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
    # The persistent id ends with the number of elements: BININT1 4 becomes LONG1 2^40.
    honest = content.pop("data.pkl")
    at = honest.index(b"K\x04t")
    huge = honest[:at] + b"\x8a\x06" + (2**40).to_bytes(6, "little") + honest[at + 2 :]
    torch_zip(tmp_path / "x.pt", huge, more=content)
    refuses(loader, tmp_path / "x.pt", "files.pickle-blocked")
    torch_zip(tmp_path / "x.pt", honest, more=content)
    assert loader.load(tmp_path / "x.pt")["a"].shape == (4,)


def test_49_view_that_is_larger_than_the_file(tmp_path: Path, loader: PickleLoader) -> None:
    torch.save({"a": torch.zeros(1).expand(1 << 40)}, tmp_path / "x.pt")
    refuses(loader, tmp_path / "x.pt", "files.pickle-content")


def test_50_npy_with_objects(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    np.save(tmp_path / "x.npy", np.array([_Touch(canary)], dtype=object), allow_pickle=True)
    with pytest.raises(InputRejected) as caught:
        load_npy(tmp_path / "x.npy")
    assert caught.value.rule == "files.npy-format"
    assert not canary.exists()


def test_50_pickles_beside_safetensors_are_only_listed(tmp_path: Path) -> None:
    put(tmp_path, b"\x02\0\0\0\0\0\0\0{}")
    torch.save(_Touch(tmp_path / "canary"), tmp_path / "optimizer.pt")
    finds(tmp_path, "files.no-tensors")
    assert [f.kind for f in Checkpoint.open(tmp_path).files] == ["weights", "pickle"]
    assert not (tmp_path / "canary").exists()
