"""Containment, inventory, names, limits, rules, atomic writes and .npy files."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contract.errors import InputRejected, LimitExceeded, UsageError
from contract.files.atomic import atomic_write, atomic_writer
from contract.files.checkpoint import Checkpoint
from contract.files.inventory import FileKind, file_kind, list_folder
from contract.files.names import case_collisions, lookalikes, shown, unsafe
from contract.files.npy import load_npy
from contract.files.paths import Folder, open_path, relative_parts
from contract.files.rules import RULES
from contract.limits import DEFAULT_LIMITS

DATA = Path(__file__).parent / "data"


@given(st.text(max_size=20))
def test_no_accepted_name_leaves_the_folder(name: str) -> None:
    try:
        parts = relative_parts(name)
    except InputRejected as error:
        refusal = error
    else:
        assert os.path.normpath(name) == name == "/".join(parts)
        assert not name.startswith(("/", ".."))
        return
    assert refusal.rule == "files.path-escape"
    assert refusal.message.isprintable()


def test_digest_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc" * 10)
    with open_path(tmp_path / "x") as opened:
        assert opened.sha256() == hashlib.sha256(b"abc" * 10).hexdigest()
        assert opened.read(3, 6) == b"abcabc"
        with pytest.raises(InputRejected):
            opened.read(29, 2)
    for path in (tmp_path / "absent", tmp_path / "x" / "y", tmp_path / "a\0b"):
        with pytest.raises(InputRejected):
            open_path(path)
        with pytest.raises(InputRejected):
            Folder(path)
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(tmp_path / "absent")
    assert caught.value.rule == "files.not-found"
    with Folder(tmp_path) as folder, pytest.raises(InputRejected) as caught:
        folder.open("absent")
    assert caught.value.rule == "files.not-found"


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(tmp_path)
    assert caught.value.rule == "files.no-weights"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("config.json", FileKind.CONFIG),
        ("generation_config.json", FileKind.CONFIG),
        ("model-1.safetensors", FileKind.WEIGHTS),
        ("model.safetensors.index.json", FileKind.INDEX),
        ("tokenizer.json", FileKind.TOKENIZER),
        ("tokenizer_config.json", FileKind.TOKENIZER),
        ("chat_template.jinja", FileKind.TOKENIZER),
        ("pytorch_model.bin", FileKind.PICKLE),
        ("data_0.ckpt.gz", FileKind.PICKLE),
        ("d2t.npy", FileKind.NPY),
        ("modeling_eagle.py", FileKind.CODE),
        ("README.md", FileKind.OTHER),
    ],
)
def test_kinds(name: str, kind: FileKind) -> None:
    assert file_kind(name) is kind


def test_inventory_lists_everything(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.bin").write_bytes(b"xyz")
    (tmp_path / "b").symlink_to("/etc/passwd")
    with Folder(tmp_path) as folder:
        files, problems = list_folder(folder, limits=DEFAULT_LIMITS)
        with pytest.raises(LimitExceeded):
            list_folder(folder, limits=DEFAULT_LIMITS.lowered(folder_files=2))
    assert [(f.name, f.kind, f.size, f.usable) for f in files] == [
        ("a.bin", FileKind.PICKLE, 3, True),
        ("b", FileKind.OTHER, 0, False),
        ("sub", FileKind.FOLDER, 0, True),
    ]
    assert [p.rule.id for p in problems] == ["files.path-escape"]


@given(st.text())
def test_shown_names_cannot_forge_output(name: str) -> None:
    assert shown(name).isprintable()
    assert len(shown(name)) <= 80 * 10 + 40


def test_names() -> None:
    assert unsafe("fc.weight") is None
    assert unsafe("") == "is empty"
    assert case_collisions(["a", "A", "b", "B", "c"]) == [("A", "a"), ("B", "b")]
    assert case_collisions(["a.A", "a.B"]) == []
    assert lookalikes(["fc", "fс", "é", "e"]) == [("fc", "fс")]
    assert lookalikes(["fc", "fd"]) == []


def test_limits_can_only_be_lowered() -> None:
    assert DEFAULT_LIMITS.lowered(tensors=5).tensors == 5
    for bad in ({"tensors": DEFAULT_LIMITS.tensors + 1}, {"tensors": 0}, {"tensors": -1}, {"tensors": True}, {"tensor": 1}):
        with pytest.raises(UsageError):
            DEFAULT_LIMITS.lowered(**bad)
    DEFAULT_LIMITS.enforce("dims", 16, what="x")
    with pytest.raises(LimitExceeded) as caught:
        DEFAULT_LIMITS.enforce("dims", 17, what="x")
    assert (caught.value.limit, caught.value.allowed, caught.value.actual, caught.value.rule) == ("dims", 16, 17, "files.limit-exceeded")


def test_every_rule_explains_itself() -> None:
    assert len(RULES) > 50
    for rule in RULES.values():
        assert rule.title
        assert rule.why.endswith(".")
        assert rule.remedy.endswith(".")


def test_every_rule_id_in_the_code_is_in_the_table() -> None:
    import re

    root = Path(__file__).parents[2] / "contract"
    sources = [*(root / "files").glob("*.py"), root / "jsonio.py", root / "limits.py"]
    text = "\n".join(path.read_text() for path in sources)
    used = set(re.findall(r'"(files\.[a-z0-9-]+)"', text))
    used |= {f"files.{n}" for n in re.findall(r'self\.fail\("([a-z0-9-]+)"', (root / "files" / "header_strict.py").read_text())}
    used |= {f"files.pickle-{n}" for n in re.findall(r'self\.fail\("([a-z0-9-]+)"', (root / "files" / "torch_zip.py").read_text())}
    used |= {f"files.pickle-{n}" for n in re.findall(r'check\.fail\("([a-z0-9-]+)"', (root / "files" / "torch_zip.py").read_text())}
    used |= {f"files.{n}" for n in re.findall(r'header\.fail\("([a-z0-9-]+)"', (root / "files" / "header_strict.py").read_text())}
    assert used == set(RULES)


def test_atomic_write(tmp_path: Path) -> None:
    target = tmp_path / "x"
    atomic_write(target, "é")
    assert target.read_bytes() == "é".encode()
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    atomic_write(target, b"new")
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"new", ["x"])


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")
    with pytest.raises(InputRejected if isinstance(error, OSError) else type(error)), atomic_writer(target) as file:  # noqa: PT012 - the block fails on purpose
        file.write(b"half")
        raise error
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"old", ["x"])


def test_unwritable_places(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "absent" / "x", tmp_path / "folder"):
        with pytest.raises(InputRejected) as caught:
            atomic_write(target, b"x")
        assert caught.value.rule == "files.write-failed"
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == []


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(tmp_path / "socket"))
    for name, to in (("link", "fifo"), ("null", os.devnull), ("stdout", "/proc/self/fd/1"), ("round", "round")):
        (tmp_path / name).symlink_to(to)
    before = {name: os.lstat(tmp_path / name) for name in os.listdir(tmp_path)}
    for target in (*(tmp_path / name for name in sorted(before)), Path(os.devnull), tmp_path / "a\0b", tmp_path / ("a" * 300)):
        with pytest.raises(InputRejected) as caught:
            atomic_write(target, b"x")
        assert caught.value.rule == "files.write-failed"
        assert caught.value.fix
    assert {name: os.lstat(tmp_path / name) for name in os.listdir(tmp_path)} == before
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_link_to_a_file_is_replaced_and_the_file_is_left(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "gone").symlink_to("nowhere")
    for name in ("link", "gone"):
        atomic_write(tmp_path / name, b"new")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "old").read_bytes() == b"old"


KILLED = """
import sys
from contract.files.atomic import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"half" * 100000)
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_writer_leaves_the_old_file(tmp_path: Path, number: signal.Signals) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(number)
        child.wait()
    assert target.read_bytes() == b"old"
    assert number == signal.SIGKILL or os.listdir(tmp_path) == ["x"]


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    contents = [bytes([65 + i]) * 100_000 for i in range(4)]
    writers = [threading.Thread(target=atomic_write, args=(tmp_path / "x", data)) for data in contents]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "x").read_bytes() in contents


def test_npy_of_a_real_trainer() -> None:
    for name in ("d2t-128.npy", "t2d-128.npy"):
        ours, theirs = load_npy(DATA / name), np.load(DATA / name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


@given(hnp.arrays(st.sampled_from(["<f4", "<i8", "?", "u1", "<c8"]), hnp.array_shapes(min_dims=0, min_side=0, max_side=3)), st.booleans())
def test_npy_of_numbers(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, fortran: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "array.npy"
    array = array.copy(order="F" if fortran else "C")
    np.save(path, array)
    ours = load_npy(path)
    assert (ours.shape, ours.dtype) == (array.shape, array.dtype)
    assert ours.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", ">f4", "M8[s]", [("a", "f4")]])
def test_npy_of_anything_else(tmp_path: Path, dtype: object) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2, dtype), allow_pickle=True)
    with pytest.raises(InputRejected) as caught:
        load_npy(tmp_path / "x.npy")
    assert caught.value.rule == "files.npy-format"


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').system('true'),), }",
        "{'descr': '<f9', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "",
    ],
)
def test_npy_headers_are_not_evaluated(tmp_path: Path, header: str) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8))
    with pytest.raises(InputRejected) as caught:
        load_npy(tmp_path / "x.npy")
    assert caught.value.rule == "files.npy-format"
    (tmp_path / "y.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(InputRejected):
        load_npy(tmp_path / "y.npy")
