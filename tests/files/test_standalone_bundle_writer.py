"""The one-file writer: what it writes passes the strict reader, written by an interpreter that has nothing else; the rest is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contract.files import standalone_bundle_writer as alone
from contract.files.bundle import open_bundle
from contract.files.bundle_manifest import FORWARD_TENSORS, ROUND_TENSORS, SCHEMA_VERSION
from contract.files.standalone_bundle_writer import BundleError, StandaloneBundleWriter, file_digests
from contract.files.torch_tensors import load_tensor

ENGINE = {"name": "mine", "version": "1.0", "mode": "graph", "device": "cuda:0", "dtype": "bfloat16"}
TARGET = {"id": "org/model", "model_type": "llama", "files": {}}
SCRIPT = """
import struct, sys
sys.path.insert(0, ".")
from standalone_bundle_writer import StandaloneBundleWriter, file_digests
assert not {"numpy", "torch", "safetensors", "contract"} & set(sys.modules)
ids = ("I64", (3,), struct.pack("<3q", 5, 6, 7))
states = ("F32", (3, 2), struct.pack("<6f", *range(6)))
half = ("BF16", [3, 2], bytearray(range(12)))
with StandaloneBundleWriter(
    "out/bundle",
    engine={"name": "mine", "version": "1.0", "runner": "r", "mode": "eager", "device": "npu:0", "dtype": "bfloat16", "tp": 4,
            "layer_ids": [1, 3], "flags": {"max_len": "64"}},
    target={"id": None, "model_type": "llama", "files": file_digests("model")},
    recipe_fed=[2, "final_norm"],
    layers=4,
) as bundle:
    bundle.add("p0", {"input_ids": ids, "position_ids": ids, "slot.0": states, "slot.1": half}, sample="s.safetensors")
    bundle.add(
        "p0@again",
        {
            "input_ids": ids, "position_ids": ids, "slot.0": states, "slot.1": half, "boundary.4": half, "final_norm": half, "greedy": ids,
            "prefix_ids": ("I64", (1,), bytes(8)),
            "round.proposed": ("I64", (1, 3), bytes(24)), "round.emitted": ("I64", (1, 1), bytes(8)),
            "forward.0.input_ids": ids, "forward.0.fc_in": half, "forward.0.logits": ("F32", (1, 2), bytes(8)),
            "forward.0.logit_rows": ("I64", (1,), bytes(8)),
        },
        prompt_tokens=2, run="again", forwards=[{"phase": "extend", "round": 1, "step": 0, "rows": 3}],
    )
    bundle.counts["rounds"] = {"recorded": 1, "counted": 1, "by": "my_rounds"}
    bundle.counters["my_rounds"] = 1.0
print("written")
"""


def test_an_interpreter_with_nothing_else(tmp_path: Path) -> None:
    shutil.copy(str(alone.__file__), tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "written\n"), done.stderr
    bundle = open_bundle(tmp_path / "out" / "bundle")
    first, again = bundle.requests
    assert (first.sample, first.info.prompt_tokens, again.info.prompt_tokens, again.info.run) == ("s.safetensors", 3, 2, "again")
    assert load_tensor(first.tensors["slot.0"]).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert load_tensor(first.tensors["slot.1"]).dtype is torch.bfloat16
    assert again.info.forwards[0].phase == "extend"
    manifest = bundle.manifest
    assert (manifest.engine.tp, manifest.engine.pp, manifest.engine.layer_ids, manifest.recipe_fed) == (4, 1, [1, 3], [2, "final_norm"])
    assert manifest.counts["rounds"].by == "my_rounds"
    assert manifest.target.files["config.json"].startswith("sha256:")
    assert os.listdir(tmp_path / "out") == ["bundle"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_torch_and_numpy(tmp_path: Path, dtype: torch.dtype) -> None:
    states = torch.randn(4, 6, requires_grad=True).to(dtype).T[:4]  # not contiguous, and of a graph
    ids = np.arange(4)
    with writer(tmp_path) as bundle:
        bundle.add("p", {"input_ids": ids, "position_ids": torch.arange(4), "slot.0": states})
    (request,) = open_bundle(tmp_path / "bundle").requests
    assert torch.equal(load_tensor(request.tensors["slot.0"]), states.detach())
    assert load_tensor(request.tensors["input_ids"]).tolist() == [0, 1, 2, 3]


def writer(folder: Path, **more: Any) -> StandaloneBundleWriter:
    return StandaloneBundleWriter(folder / "bundle", **{"engine": ENGINE, "target": TARGET, "recipe_fed": [2], "layers": 4, **more})


def write(folder: Path, *requests: tuple[Any, dict[str, Any], list[dict[str, Any]]], dies: bool = False) -> None:
    with writer(folder) as bundle:
        for id_, held, forwards in requests:
            bundle.add(id_, held, forwards=forwards)
        if dies:
            raise RuntimeError("engine died")


def tensors(**more: Any) -> dict[str, Any]:
    return {"input_ids": np.arange(3), "position_ids": np.arange(3), "slot.0": np.zeros((3, 2), np.float32)} | more


@pytest.mark.parametrize(
    "given",
    [
        {"slot.0": None},
        {"slot.0": "text"},
        {"slot.0": np.zeros((3, 2), np.int32)},
        {"slot.0": np.zeros((2, 2), np.float32)},
        {"slot.0": ("F32", (3, 2), b"short")},
        {"slot.0": ("F31", (3, 2), bytes(24))},
        {"slot.1": np.zeros((3, 2), np.float32)},
        {"boundary.5": np.zeros((3, 2), np.float32)},
        {"boundary.1": np.zeros((3, 2), np.float32), "boundary.2": np.zeros((3, 3), np.float32)},
        {"input_ids": np.zeros((3, 1), np.int64)},
        {"position_ids": np.arange(4)},
        {"greedy": np.zeros(3, np.float32)},
        {"prefix_ids": np.zeros((1, 1), np.int64)},
        {"round.emitted": np.arange(3)},
        {"round.more": np.zeros((1, 1), np.int64)},
        {"hidden": np.zeros((3, 2), np.float32)},
        {"forward.1.fc_in": np.zeros((2, 2), np.float32)},
        {"forward.0.fc_in": np.zeros((3, 2), np.float32)},
        {"forward.0.fc": np.zeros((2, 2), np.float32)},
        {"forward.0.parents": np.arange(3)},
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, given: dict[str, Any]) -> None:
    forwards = [{"phase": "prefill", "round": 0, "step": 0, "rows": 2}]
    with pytest.raises(BundleError):
        write(tmp_path, ("good", tensors(), forwards), ("p", tensors(**given), forwards))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "more",
    [
        {"engine": {k: v for k, v in ENGINE.items() if k != "dtype"}},
        {"engine": ENGINE | {"vresion": "1"}},
        {"engine": ENGINE | {"mode": "fast"}},
        {"recipe_fed": []},
        {"recipe_fed": [5]},
        {"recipe_fed": ["norm"]},
        {"recipe_fed": [True]},
        {"layers": 0},
        {"target": {"id": None}},
        {"drafter": {"id": None, "files": {}}},
    ],
)
def test_facts_that_do_not_fit(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(BundleError):
        writer(tmp_path, **more)


@pytest.mark.parametrize(
    ("id_", "forward"),
    [
        ("", {}), ("a\n", {}), ("x" * 257, {}), ("p", {}), (3, {}), ("q", {"phase": "verify"}), ("q", {"rows": 0}), ("q", {"step": 1}),
        ("q", {"phase": "draft"}), ("q", {"round": -1}),
    ],
)  # fmt: skip
def test_requests_that_do_not_fit(tmp_path: Path, id_: Any, forward: dict[str, Any]) -> None:
    forwards = [{"phase": "prefill", "round": 0, "step": 0, "rows": 3} | forward]
    with pytest.raises(BundleError):
        write(tmp_path, ("p", tensors(), []), (id_, tensors(), forwards))


def test_it_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no request"), writer(tmp_path):
        pass
    with pytest.raises(RuntimeError, match="engine died"):
        write(tmp_path, ("p", tensors(), []), dies=True)
    assert os.listdir(tmp_path) == []
    with pytest.raises(BundleError, match="inside of the with block"):
        writer(tmp_path).add("p", tensors())
    write(tmp_path, ("p", tensors(), []))
    with pytest.raises(BundleError, match="already there"):
        writer(tmp_path)


def test_it_knows_the_format(tmp_path: Path) -> None:
    """Names and version are those of the reader, which it cannot import."""
    assert alone.SCHEMA_VERSION == SCHEMA_VERSION
    assert {*alone.VECTORS, *alone.MATRICES} == set(FORWARD_TENSORS)
    rows = {"forward.0." + name: np.arange(3) if name in alone.VECTORS else np.zeros((3, 2), np.float32) for name in FORWARD_TENSORS}
    rounds = {name: np.zeros((1, 2), np.int64) for name in ROUND_TENSORS}
    with writer(tmp_path) as bundle:
        bundle.add("p", tensors(**rows, **rounds), forwards=[{"phase": "prefill", "round": 0, "step": 0, "rows": 3}])
    (request,) = open_bundle(tmp_path / "bundle").requests
    assert rows.keys() | rounds.keys() <= request.tensors.keys()


def test_digests_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "README.md").write_text("no part of the model")
    (tmp_path / "deeper.json").mkdir()
    assert file_digests(tmp_path) == {"config.json": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}
