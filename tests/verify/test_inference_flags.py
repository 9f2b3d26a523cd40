"""The inference path is the engine's reading with the flags that it was served with."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from contract.files.bundle_manifest import EngineInfo, ImitatedEngine, Manifest, ModelInfo
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.resolve import resolve
from eagle3_contract.verify.inference import inference_reading

DEMO = Path(str(files("eagle3_contract.demo"))) / "data"
MODEL = ModelInfo(id=None, model_type="llama", files={})


def manifest(flags: dict[str, str], imitates: ImitatedEngine | None = None) -> Manifest:
    name = "sglang" if imitates is None else "transformers"
    engine = EngineInfo(
        name=name, version="0.5.23", runner=None, mode="eager", flags=flags, device="cpu", dtype="float32", tp=1, pp=1, layer_ids=None
    )
    return Manifest(
        kind="eagle3", engine=engine, imitates=imitates, target=MODEL, drafter=None, recipe_fed=(2, 6, 9), layers=12, requests=(), files={},
        counts={}, counters={}, schema_version=1, complete=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "window", "eps"),
    [
        ({}, None, 1e-5),
        ({"speculative_draft_window_size": "16"}, 17, 1e-5),
        ({"speculative_draft_window_size": "None", "cached: speculative_draft_window_size": "16"}, None, 1e-5),
        ({"json_model_override_args": json.dumps({"rms_norm_eps": 1e-6})}, None, 1e-6),
    ],
)
def test_flags_are_part_of_the_reading(flags: dict[str, str], window: int | None, eps: float) -> None:
    loaded = load_contract(DEMO / "drafter-a" / "contract.yaml")
    training = resolve(loaded.contract)
    found = inference_reading(manifest(flags), loaded, training, target=str(DEMO / "target"))
    assert found.reading is not None, found.problem
    assert (found.reading.wiring.window, found.reading.wiring.rms_norm_eps) == (window, eps)


def test_an_imitated_engine_was_not_served() -> None:
    """The flags are those of the engine that ran."""
    loaded = load_contract(DEMO / "drafter-a" / "contract.yaml")
    imitated = ImitatedEngine(name="sglang", version="0.5.23", runner=None)
    made = manifest({"speculative_draft_window_size": "16"}, imitated)
    found = inference_reading(made, loaded, resolve(loaded.contract), target=str(DEMO / "target"))
    assert found.reading is not None
    assert found.reading.wiring.window is None
