"""The paired probe on a trained pair: it tells ropes apart that top-1 cannot, contradicts a config, and stays silent on weights that were
never trained. The pair is the one inside the wheel (trained with plain rope, base 10000)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import tiny

import eagle3_contract
from eagle3_contract.engines.target import Target
from eagle3_contract.init.probe import _difference
from eagle3_contract.model.wiring import Rope
from tests.init.scene import Ran, drafter, neutral, run

DEMO = Path(eagle3_contract.__file__).parent / "demo" / "data"
MODELOPT = {"use_last_layernorm": True, "use_mtp_layernorm": False, "next_layer_regular": False}


def demo(folder: Path, **config: Any) -> Path:
    """The demo's drafter with keys of its config changed; None removes."""
    shutil.copytree(DEMO / "drafter-a", folder)
    tree = json.loads((folder / "config.json").read_text())
    for key, value in config.items():
        if value is None:
            tree.pop(key, None)
        else:
            tree[key] = tree[key] | value if isinstance(value, dict) and isinstance(tree.get(key), dict) else value
    (folder / "config.json").write_text(json.dumps(tree))
    return folder


def with_samples(place: Path, **more: Any) -> Ran:
    return run(place, samples=str(DEMO / "drafter-a" / "samples"), target=str(DEMO / "target"), **more)


def test_a_true_declaration_stands(tmp_path: Path) -> None:
    ran = with_samples(demo(tmp_path / "d"))
    assert (ran.value("wiring.rope.type"), ran.value("wiring.rope.theta")) == ("default", 10000.0)
    assert ran.open() == set()
    assert not ran.failed("init.contradiction")


def test_a_declared_base_that_training_did_not_use_is_contradicted(tmp_path: Path) -> None:
    place = demo(tmp_path / "d", rope_theta=1e6, rope_parameters={"rope_theta": 1e6})
    assert run(place, target=str(DEMO / "target")).value("wiring.rope.theta") == 1e6
    ran = with_samples(place)
    (check,) = [c for c in ran.failed("init.contradiction") if c.message.startswith("wiring.rope.theta")]
    assert (check.expected, check.actual) == (1e6, 10000.0)
    assert "99.9% interval" in check.message
    assert ran.open() == {"wiring.rope.theta"}
    (question,) = ran.failed("init.open-question")
    assert "--set wiring.rope.theta=10000.0" in (question.fix or "")


def test_a_base_that_the_trainer_may_have_ignored_is_measured(tmp_path: Path) -> None:
    """Without rope_parameters the config may be SpecForge's from before #270, which used 10000 whatever it said."""
    place = demo(tmp_path / "d", rope_theta=1e6, rope_parameters=None)
    assert "wiring.rope.theta" in run(place, target=str(DEMO / "target")).open()
    ran = with_samples(place)
    assert ran.value("wiring.rope.theta") == 10000.0
    assert ran.fact("wiring.rope.theta").evidence == "measured"
    assert "interval" in str(ran.fact("wiring.rope.theta").note)


def test_a_yarn_that_an_export_wrote_is_measured_away(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048}
    config: dict[str, Any] = {"rope_scaling": yarn, "rope_parameters": None, "eagle_config": MODELOPT}
    alone = run(demo(tmp_path / "alone", **config), target=str(DEMO / "target"))
    assert alone.value("training.trainer") == "modelopt"
    assert not alone.fact("wiring.rope.type").known
    measured = run(demo(tmp_path / "d", **{**config, "eagle_config": {k: v for k, v in MODELOPT.items() if k != "next_layer_regular"}}),
                   samples=str(DEMO / "drafter-a" / "samples"), target=str(DEMO / "target"))  # fmt: skip
    assert measured.value("wiring.rope.type") == "default"
    assert measured.fact("wiring.rope.type").evidence == "measured"
    assert measured.contract.wiring.rope.scaling == {}


def test_untrained_weights_decide_nothing(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (2, 4, 5))
    place = drafter(tmp_path / "d", ids=(1, 3, 4), wiring=tiny(rope=Rope(theta=1e6, table_length=256, rotary_dim=12)))
    ran = run(place, samples=str(samples), target=str(target_dir))
    assert ran.open() == {"wiring.rope.theta"}
    assert "the samples do not decide" in str(ran.fact("wiring.rope.theta").reason)


def test_the_wrong_drafter_of_two_is_told_by_what_it_predicts(tmp_path: Path, target: Target) -> None:
    """Drafter b was trained on [0, 2, 6]; its samples with one state more stored, and a config that names other layers."""
    from safetensors.torch import load_file

    from eagle3_contract.engines.target import load_target
    from eagle3_contract.trainers.sample_formats.neutral import write_sample

    runner = load_target(DEMO / "target")
    folder = tmp_path / "s"
    folder.mkdir()
    for path in sorted((DEMO / "drafter-b" / "samples").glob("*.safetensors")):
        stored = load_file(path)
        seen = runner.forward(stored["input_ids"]).states
        write_sample(
            folder / path.name, input_ids_T=stored["input_ids"], states_THk=[seen[s] for s in (0, 2, 6, 9)], last_TG=seen["final_norm"],
            loss_mask_T=stored["loss_mask"],
        )  # fmt: skip
    place = tmp_path / "b"
    shutil.copytree(DEMO / "drafter-b", place)
    ran = run(place, samples=str(folder), target=str(DEMO / "target"))
    assert ran.value("hidden_states.boundaries") == [0, 2, 6], ran.messages()
    assert "nats per token" in str(ran.fact("hidden_states.boundaries").note)
    tree = json.loads((place / "config.json").read_text())
    tree["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [2, 6, 9]}
    (place / "config.json").write_text(json.dumps(tree))
    named = run(place, samples=str(folder), target=str(DEMO / "target"))
    assert named.value("hidden_states.boundaries") == [0, 2, 6]
    assert any("[2, 6, 9]" in c.message for c in named.failed("init.contradiction")), named.messages()


@pytest.mark.parametrize(("shift", "decides"), [(0.0, False), (0.5, True)])
def test_an_interval_holds_zero_unless_there_is_a_difference(shift: float, decides: bool) -> None:
    rows = torch.randn(1600, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + shift
    found = _difference(rows)
    assert (found.low > 0) is decides
    assert found.low < found.mean < found.high


def test_what_is_not_finite_decides_nothing() -> None:
    rows = torch.zeros(1600, dtype=torch.float64)
    rows[3] = float("nan")
    assert _difference(rows).low == float("-inf")
