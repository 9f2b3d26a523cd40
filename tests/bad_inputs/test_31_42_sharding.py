"""Hostile and broken folders, numbered; each has one outcome."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.paths import OpenedFile, open_path
from contract.limits import DEFAULT_LIMITS

from .builders import F32_2, accepts, container, finds, put, rejects, shards

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
PARTS = {ONE: {"a": 2, "b": 3}, TWO: {"c": 4}}


def test_31_index_names_a_missing_shard(tmp_path: Path) -> None:
    accepts(shards(tmp_path, PARTS))
    (tmp_path / TWO).unlink()
    rejects(tmp_path, "files.missing-shard")
    assert list(Checkpoint.open(tmp_path, strict=False).tensors) == ["a", "b"]


def test_32_shard_holds_a_tensor_that_the_index_does_not_list(tmp_path: Path) -> None:
    folder = shards(tmp_path, PARTS, {"weight_map": {"a": ONE, "c": TWO}})
    (message,) = finds(folder, "files.orphan-tensor")
    assert "does not list" in message
    assert set(Checkpoint.open(folder).tensors) == {"a", "b", "c"}


def test_32_index_lists_a_tensor_that_its_shard_does_not_hold(tmp_path: Path) -> None:
    folder = shards(tmp_path, PARTS, {"weight_map": {"a": ONE, "b": ONE, "c": TWO, "d": TWO}})
    finds(folder, "files.missing-tensor")


def test_33_tensor_in_two_shards(tmp_path: Path) -> None:
    message = rejects(shards(tmp_path, {ONE: {"a": 2}, TWO: {"a": 2, "c": 4}}), "files.tensor-in-two-files")
    assert ONE in message
    assert TWO in message


def test_33_tensor_in_two_files_without_index(tmp_path: Path) -> None:
    put(tmp_path, container({"a": F32_2}, bytes(8)), "model.safetensors")
    put(tmp_path, container({"b": F32_2}, bytes(8)), "other.safetensors")
    finds(tmp_path, "files.extra-weights")
    accepts(tmp_path, known={"other.safetensors"})
    put(tmp_path, container({"a": F32_2}, bytes(8)), "other.safetensors")
    rejects(tmp_path, "files.tensor-in-two-files")


def test_33_weights_that_the_index_does_not_list(tmp_path: Path) -> None:
    finds(put(shards(tmp_path, PARTS), container({"lm_head": F32_2}, bytes(8)), "extra.safetensors"), "files.unlisted-weights")


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "a\\b.safetensors", "a/../../x", "./a", "", "a//b", "a\nb"])
def test_34_index_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    put(tmp_path, container({"a": F32_2}, bytes(8)), "x.safetensors")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    rejects(shards(folder, PARTS, {"weight_map": {"a": ONE, "b": ONE, "c": name}}), "files.path-escape")


def test_35_shard_is_a_symlink_out_of_the_folder(tmp_path: Path) -> None:
    put(tmp_path, container({"c": F32_2}, bytes(8)), "secret")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    shards(folder, PARTS)
    (folder / TWO).unlink()
    for target in ("../secret", str(tmp_path / "secret")):
        (folder / TWO).symlink_to(target)
        rejects(folder, "files.path-escape")
        (folder / TWO).unlink()
    (folder / TWO).symlink_to(ONE)
    rejects(folder, "files.symlink")


def test_35_subfolder_is_a_symlink(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    put(outside, container({"a": F32_2}, bytes(8)), "x.safetensors")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "sub").symlink_to(outside)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "sub/x.safetensors"}}))
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(folder)
    assert caught.value.rule in ("files.symlink", "files.path-escape")
    (folder / "sub").unlink()
    (folder / "sub").mkdir()
    put(folder / "sub", container({"a": F32_2}, bytes(8)), "x.safetensors")
    accepts(folder)


def _hub_cache(root: Path) -> Path:
    repository = root / "models--org--drafter"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    put(repository / "blobs", container({"a": F32_2}, bytes(8)), "e" * 64)
    return snapshot


def test_35_hub_cache_is_allowed(tmp_path: Path) -> None:
    snapshot = _hub_cache(tmp_path)
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{'e' * 64}")
    assert bytes(accepts(snapshot).read_bytes("a")) == bytes(8)
    reached = tmp_path / "by-another-name"
    reached.symlink_to(snapshot)
    accepts(reached)


@pytest.mark.parametrize(
    "target",
    [
        "../../blobs/../secret",
        "../../../blobs/x",
        "../blobs/x",
        "../../../models--other--x/blobs/" + "e" * 64,
        "../../blobs/..",
        "../../refs/x",
    ],
)
def test_35_hub_cache_does_not_lead_elsewhere(tmp_path: Path, target: str) -> None:
    snapshot = _hub_cache(tmp_path)
    put(snapshot.parent.parent, container({"a": F32_2}, bytes(8)), "secret")
    (snapshot / "model.safetensors").symlink_to(target)
    rejects(snapshot, "files.path-escape")


def test_35_hub_blob_is_a_symlink_itself(tmp_path: Path) -> None:
    snapshot = _hub_cache(tmp_path)
    put(tmp_path, container({"a": F32_2}, bytes(8)), "secret")
    (snapshot.parent.parent / "blobs" / "f").symlink_to(tmp_path / "secret")
    (snapshot / "model.safetensors").symlink_to("../../blobs/f")
    with pytest.raises(InputRejected):
        Checkpoint.open(snapshot)


def test_35_blobs_beside_no_snapshot(tmp_path: Path) -> None:
    folder = tmp_path / "plain" / "checkpoint"
    folder.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    put(tmp_path / "blobs", container({"a": F32_2}, bytes(8)), "e" * 64)
    (folder / "model.safetensors").symlink_to(f"../../blobs/{'e' * 64}")
    rejects(folder, "files.path-escape")


def test_36_hard_link(tmp_path: Path) -> None:
    put(tmp_path, container({"a": F32_2}, bytes(8)), "elsewhere")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    os.link(tmp_path / "elsewhere", folder / "model.safetensors")
    assert finds(folder, "files.hard-link") == ["model.safetensors has 2 hard links"]


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_37_shard_is_no_regular_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "fifo":
        os.mkfifo("model.safetensors")
    elif kind == "directory":
        os.mkdir("model.safetensors")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("model.safetensors")
    rejects(tmp_path, "files.not-regular")
    with pytest.raises(InputRejected) as caught:
        open_path(tmp_path / "model.safetensors")
    assert caught.value.rule == "files.not-regular"


def test_37_device() -> None:
    for path in ("/dev/zero", "/dev/null", "/dev"):
        with pytest.raises(InputRejected) as caught:
            open_path(path)
        assert caught.value.rule == "files.not-regular"


@pytest.mark.parametrize("claim", [0, 37, "36", None, 36.5])
def test_38_total_size_lies(tmp_path: Path, claim: object) -> None:
    folder = shards(tmp_path, PARTS, {"metadata": {"total_size": claim}})
    if claim is None:
        accepts(folder)
    else:
        finds(folder, "files.total-size")


def test_39_duplicate_keys_in_the_index(tmp_path: Path) -> None:
    text = f'{{"weight_map":{{"a":"{ONE}",\n"b":"{ONE}","a":"{TWO}","c":"{TWO}"}}}}'
    message = rejects(shards(tmp_path, PARTS, text), "files.json-duplicate-key")
    assert "line 1" in message
    assert "line 2" in message
    twice = f'{{"weight_map":{{"a":"{ONE}"}},"weight_map":{{"a":"{ONE}","b":"{ONE}","c":"{TWO}"}}}}'
    rejects(shards(tmp_path, PARTS, twice), "files.json-duplicate-key")


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map":[]}', '{"weight_map":{"a":1}}'])
def test_39_index_without_a_map(tmp_path: Path, text: str) -> None:
    rejects(shards(tmp_path, PARTS, text), "files.index-malformed")


def test_40_one_of_many_shards_is_unreadable(tmp_path: Path) -> None:
    names = [f"model-{i:05d}-of-01433.safetensors" for i in range(1, 1434)]
    shards(tmp_path, {name: {f"t{i}": 1} for i, name in enumerate(names)})
    put(tmp_path, b"\x00" * 4, names[700])
    assert names[700] in rejects(tmp_path, "files.header-too-small")
    checkpoint = Checkpoint.open(tmp_path, strict=False)
    assert len(checkpoint.tensors) == 1432
    assert [(p.rule.id, p.where and p.where.file) for p in checkpoint.problems] == [("files.header-too-small", names[700])]


def test_41_file_is_replaced_after_its_header_was_read(tmp_path: Path) -> None:
    checkpoint = accepts(put(tmp_path, container({"a": F32_2}, bytes(8))))
    put(tmp_path, container({"a": F32_2}, b"changed!"), "new")
    os.replace(tmp_path / "new", tmp_path / "model.safetensors")
    for read in (
        lambda: checkpoint.read_bytes("a"),
        lambda: checkpoint.read_rows("a", [1]),
        lambda: list(checkpoint.scan("model.safetensors")),
    ):
        with pytest.raises(InputRejected) as caught:
            read()
        assert caught.value.rule == "files.changed-while-reading"


def test_41_file_is_cut_off_while_it_is_read(tmp_path: Path) -> None:
    put(tmp_path, container({"a": F32_2}, bytes(8)))
    with open_path(tmp_path / "model.safetensors") as opened:
        os.truncate(tmp_path / "model.safetensors", 20)
        for read in (lambda: opened.read(0, opened.size), opened.sha256, opened.verify_unchanged):
            with pytest.raises(InputRejected) as caught:
                read()
            assert caught.value.rule == "files.changed-while-reading"


def test_41_file_is_written_to_between_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = accepts(put(tmp_path, container({"a": F32_2}, bytes(8))))
    plain = OpenedFile.read_into

    def meanwhile(self: OpenedFile, offset: int, buffer: bytearray | memoryview) -> None:
        plain(self, offset, buffer)
        put(tmp_path, container({"a": F32_2}, b"changed!"))
        os.utime(tmp_path / "model.safetensors", ns=(1, 1))

    monkeypatch.setattr(OpenedFile, "read_into", meanwhile)
    with pytest.raises(InputRejected) as caught:
        checkpoint.read_bytes("a")
    assert caught.value.rule == "files.changed-while-reading"


def test_42_names_that_differ_in_case(tmp_path: Path) -> None:
    finds(shards(tmp_path, {ONE: {"a.weight": 2}, TWO: {"A.weight": 2}}), "files.case-collision")
    (tmp_path / "README").touch()
    (tmp_path / "readme").touch()
    assert any("README" in message for message in finds(tmp_path, "files.case-collision"))


@pytest.mark.parametrize(("limit", "bound"), [("total_header_bytes", 200), ("tensors", 2), ("shards", 1)])
def test_42_limits_of_a_whole_checkpoint(tmp_path: Path, limit: str, bound: int) -> None:
    rejects(shards(tmp_path, PARTS), "files.limit-exceeded", limits=DEFAULT_LIMITS.lowered(**{limit: bound}))
