"""The committed pair is what its record says: files, sizes, shapes, layout and figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

DATA = Path(__file__).resolve().parents[2] / "eagle3_contract" / "demo" / "data"
HIDDEN, LAYERS, VOCAB, DRAFT_VOCAB, SHIPPED = 128, 12, 2048, 1024, 8


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "training.json").read_text(encoding="utf-8"))
    return found


def test_every_recorded_digest_holds(record: dict[str, Any]) -> None:
    found = {name: "sha256:" + hashlib.sha256((DATA / name).read_bytes()).hexdigest() for name in record["files"]}
    assert found == record["files"]


def test_no_file_of_the_pair_is_unrecorded(record: dict[str, Any]) -> None:
    folders = ("target", "drafter-a/samples", "drafter-b/samples")
    found = {path.relative_to(DATA).as_posix() for folder in folders for path in (DATA / folder).rglob("*") if path.is_file()}
    found |= {path.relative_to(DATA).as_posix() for path in DATA.glob("drafter-*/model.safetensors")}
    assert found == {name for name in record["files"] if name.startswith(folders) or name.endswith("model.safetensors")}
    assert not any(path.is_symlink() for path in DATA.rglob("*"))


def test_weights_fit_the_wheel() -> None:
    weights = [*DATA.glob("target/*.safetensors"), *DATA.glob("drafter-*/*.safetensors")]
    assert len(weights) >= 4
    assert sum(path.stat().st_size for path in weights) < 8_000_000
    assert max(path.stat().st_size for path in DATA.glob("target/*.safetensors")) < 2_000_000
    assert max(path.stat().st_size for path in DATA.glob("drafter-*/*.safetensors")) < 1_000_000


@pytest.mark.parametrize("name", ["a", "b"])
def test_vocabulary_map_is_an_offset_that_agrees_with_the_mask(name: str) -> None:
    tensors = load_file(DATA / f"drafter-{name}" / "model.safetensors")
    assert "embed_tokens.weight" not in tensors
    d2t, t2d = tensors["d2t"], tensors["t2d"]
    assert (d2t.dtype, t2d.dtype, len(d2t), len(t2d)) == (torch.int64, torch.bool, DRAFT_VOCAB, VOCAB)
    assert torch.equal(torch.arange(DRAFT_VOCAB) + d2t, t2d.nonzero().flatten())


@pytest.mark.parametrize("name", ["a", "b"])
def test_samples_have_the_documented_format(name: str, record: dict[str, Any]) -> None:
    boundaries = record["drafters"][name]["boundaries"]
    paths = sorted((DATA / f"drafter-{name}" / "samples").iterdir())
    assert [path.name for path in paths] == [f"sample-{index:02d}.safetensors" for index in range(SHIPPED)]
    for path in paths:
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        assert metadata == {
            "format": "eagle3-contract-sample",
            "format_version": "1",
            "boundaries": json.dumps(boundaries),
            "last": f"boundary {LAYERS}",
            "dtype": "bfloat16",
        }
        tokens = len(tensors["input_ids"])
        assert {key: (tuple(t.shape), t.dtype) for key, t in tensors.items()} == {
            "input_ids": ((tokens,), torch.int64),
            "loss_mask": ((tokens,), torch.uint8),
            "states": ((tokens, len(boundaries), HIDDEN), torch.bfloat16),
            "last_hidden_state": ((tokens, HIDDEN), torch.bfloat16),
        }
        assert all(bool(t.isfinite().all()) for t in (tensors["states"], tensors["last_hidden_state"]))


def test_both_drafters_have_samples_of_the_same_tokens_and_shared_boundaries(record: dict[str, Any]) -> None:
    prompts = [json.loads(line) for line in (DATA / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(prompts) == SHIPPED
    recipes = {name: record["drafters"][name]["boundaries"] for name in "ab"}
    for index, prompt in enumerate(prompts):
        found = {name: load_file(DATA / f"drafter-{name}" / "samples" / f"sample-{index:02d}.safetensors") for name in "ab"}
        for key in ("input_ids", "loss_mask", "last_hidden_state"):
            assert torch.equal(found["a"][key], found["b"][key])
        for boundary in set(recipes["a"]) & set(recipes["b"]):
            slots = {name: found[name]["states"][:, recipes[name].index(boundary)] for name in "ab"}
            assert torch.equal(slots["a"], slots["b"])
        length = len(prompt["input_ids"])
        assert found["a"]["input_ids"][:length].tolist() == prompt["input_ids"]
        assert found["a"]["loss_mask"].tolist() == [0] * length + [1] * (len(found["a"]["loss_mask"]) - length)


def test_the_figures_are_what_the_demo_needs(record: dict[str, Any]) -> None:
    assert record["held_out"]["continuations"] >= 64
    assert record["held_out"]["repeated_12_grams"] < 0.05
    for name, ratio in (("a", 1.7), ("b", 3.5)):
        drafter = record["drafters"][name]
        right, other = drafter["cases"][0], drafter["cases"][1]
        assert right["case"]["boundaries"] == drafter["boundaries"]
        assert drafter["metrics"]["accuracy"] == right["top1"]
        assert right["top1"][0] >= 0.55
        assert right["top1"][0] >= ratio * other["top1"][0]


def test_only_the_seed_incidents_twin_leaves_its_layers_unsaid() -> None:
    config = {name: json.loads((DATA / f"drafter-{name}" / "config.json").read_text(encoding="utf-8")) for name in "ab"}
    assert config["a"].pop("eagle_config") == {"eagle_aux_hidden_state_layer_ids": [1, 5, 8], "use_aux_hidden_state": True}
    assert config["a"] == config["b"]
