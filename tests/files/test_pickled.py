"""Pickle-family files of real trainers, and the cage they are loaded in."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.errors import InputRejected
from contract.files import pickled
from contract.files.checkpoint import Checkpoint
from contract.files.pickled import PickleLoader, load_pickled
from contract.files.tensors import TensorRef
from contract.files.torch_tensors import load_tensor
from contract.files.writing import encode_header
from contract.limits import DEFAULT_LIMITS

DATA = Path(__file__).parent / "data"
PICKLES = sorted(path.name for path in DATA.iterdir() if path.suffix in (".pt", ".bin"))


@pytest.fixture(scope="module")
def loader() -> Iterator[PickleLoader]:
    with PickleLoader() as made:
        yield made


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, TensorRef):
        mine = load_tensor(ours)
        return mine.dtype == theirs.dtype and torch.equal(mine, theirs)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[k], v) for k, v in theirs.items())
    if isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def test_there_are_pickles_of_every_trainer() -> None:
    assert len(PICKLES) == 7


@pytest.mark.parametrize("name", PICKLES)
def test_files_of_real_trainers(loader: PickleLoader, name: str) -> None:
    assert same(loader.load(DATA / name), torch.load(DATA / name, weights_only=True))


def test_compressed_copies(loader: PickleLoader, tmp_path: Path) -> None:
    (tmp_path / "data_0.ckpt.gz").write_bytes(gzip.compress((DATA / "speculators_data_0.pt").read_bytes()))
    assert same(loader.load(tmp_path / "data_0.ckpt.gz"), torch.load(DATA / "speculators_data_0.pt", weights_only=True))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(InputRejected) as caught:
        loader.load(tmp_path / "cut.gz")
    assert caught.value.rule == "files.pickle-format"


def test_plain_values(loader: PickleLoader, tmp_path: Path) -> None:
    tree = {
        "i": 2**70,
        "f": float("inf"),
        "n": None,
        "b": True,
        "s": "é\n",
        3: [1, (2, -0.5)],
        "z": torch.zeros(0, 3),
        "t": torch.tensor(1.5),
    }
    tree["v"] = torch.arange(6).reshape(2, 3).t()
    torch.save(tree, tmp_path / "x.pt")
    assert same(loader.load(tmp_path / "x.pt"), tree)


@pytest.mark.parametrize("value", [{1, 2}, torch.zeros(2).to_sparse(), 1j])
def test_other_objects_are_refused(loader: PickleLoader, tmp_path: Path, value: object) -> None:
    torch.save({"a": value}, tmp_path / "x.pt")
    with pytest.raises(InputRejected) as caught:
        loader.load(tmp_path / "x.pt")
    assert caught.value.rule in ("files.pickle-content", "files.pickle-blocked")


def test_values_outlive_the_loader() -> None:
    tree = load_pickled(DATA / "modelopt_d2t.pt", allow_pickle=True)
    assert torch.equal(load_tensor(tree), torch.load(DATA / "modelopt_d2t.pt", weights_only=True))


def test_without_the_opt_in_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(InputRejected) as caught:
        load_pickled(DATA / "eagle_cache.pt", allow_pickle=False)
    assert caught.value.rule == "files.pickle-refused"
    with pytest.raises(InputRejected) as caught:
        load_pickled(DATA / "absent.pt", allow_pickle=False)
    assert caught.value.rule == "files.not-found"


def test_a_pickled_checkpoint(tmp_path: Path) -> None:
    shutil.copy(DATA / "eagle_pytorch_model.bin", tmp_path / "pytorch_model.bin")
    checkpoint = Checkpoint.open(tmp_path, allow_pickle=True)
    theirs = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
    assert checkpoint.problems == ()
    assert same(dict(checkpoint.tensors), dict(theirs))


def test_a_pickle_that_holds_no_weights(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "model.pt")
    with pytest.raises(InputRejected) as caught:
        Checkpoint.open(tmp_path, allow_pickle=True)
    assert caught.value.rule == "files.pickle-content"
    torch.save({"a": torch.zeros(1), "epoch": 3}, tmp_path / "model.pt")
    checkpoint = Checkpoint.open(tmp_path, allow_pickle=True)
    assert [p.rule.id for p in checkpoint.problems] == ["files.pickle-content"]


PROBE = """
import os, socket, sys, threading, runpy
worker = runpy.run_path(sys.argv[1])
class Torch:
    __version__ = "2.10.0"
    @staticmethod
    def set_num_threads(n): pass
    @staticmethod
    def load(path, weights_only, map_location):
        assert weights_only is True
        for forbidden in (socket.socket, os.fork, lambda: os.execv("/bin/true", ["true"]), lambda: os.system("true") and 1 / 0):
            try:
                forbidden()
            except (PermissionError, ZeroDivisionError):
                continue
            raise SystemError("allowed: " + repr(forbidden))
        threading.Thread(target=print).start()
        raise ValueError("all denied")
sys.modules["torch"] = Torch
worker["main"](sys.argv[2:])
"""


def test_the_cage_denies_network_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    start = subprocess.Popen

    def probing(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        worker = command.index(str(pickled._WORKER))
        return start([*command[:worker], str(tmp_path / "probe.py"), *command[worker:]], **options)

    monkeypatch.setattr(subprocess, "Popen", probing)
    with pytest.raises(InputRejected) as caught:
        load_pickled(DATA / "eagle_cache.pt", allow_pickle=True)
    assert "all denied" in caught.value.message


HANGING = "import socket, sys, time\nc = socket.socket(fileno=int(sys.argv[2]))\nc.sendall(b'ready')\ntime.sleep(600)\n"
DYING = "import socket, sys\nc = socket.socket(fileno=int(sys.argv[2]))\nc.sendall(b'ready')\nc.recv(1)\nsys.exit(9)\n"
LYING = """import os, socket, sys
c = socket.socket(fileno=int(sys.argv[2]))
c.sendall(b'ready')
_, (f, s), _, _ = socket.recv_fds(c, 1, 2)
os.write(s, %r)
c.sendall(b'ok')
c.recv(1)
"""
ISOLATION = "import socket, sys\nc = socket.socket(fileno=int(sys.argv[2]))\nc.sendall(b'isolation no seccomp filter')\n"


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        (HANGING, "files.pickle-timeout"),
        (DYING, "files.pickle-blocked"),
        (ISOLATION, "files.pickle-isolation"),
        ("raise SystemExit(1)", "files.pickle-isolation"),
        (LYING % b"", "files.header-too-small"),
        (LYING % b"\x02\0\0\0\0\0\0\0{}", "files.pickle-blocked"),
        (LYING % encode_header({}, {"tree": '{"map":1}'})[0], "files.pickle-blocked"),
        (LYING % encode_header({}, {"tree": "[" * 100_000})[0], "files.pickle-blocked"),
    ],
)
def test_a_loader_that_hangs_dies_or_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, rule: str) -> None:
    (tmp_path / "worker.py").write_text(script)
    start, started = subprocess.Popen, []

    def other(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        at = command.index(str(pickled._WORKER))
        started.append(start([*command[:at], str(tmp_path / "worker.py"), "-", *command[at + 1 :]], **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", other)
    with PickleLoader(limits=DEFAULT_LIMITS.lowered(pickle_seconds=1)) as loader, pytest.raises(InputRejected) as caught:
        loader.load(DATA / "eagle_cache.pt")
    assert caught.value.rule == rule, caught.value.message
    assert all(child.poll() is not None for child in started)


def test_the_child_is_gone_after_use() -> None:
    with PickleLoader() as loader:
        loader.load(DATA / "eagle_cache.pt")
        assert loader._child is not None
        child = loader._child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_core_modules_do_not_import_torch() -> None:
    code = "import sys; import contract.files.checkpoint, contract.files.cross_check, contract.files.npy; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
