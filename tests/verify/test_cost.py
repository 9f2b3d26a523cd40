"""What an engine's other reading costs, on the embedded pair: drafter B was trained on the embedding and two layers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from contract.findings import Check, Status
from contract.requests import CheckRequest
from eagle3_contract.check.run import check

ENGINE = "sglang==0.5.23"
DATA = Path(str(files("eagle3_contract.demo").joinpath("data")))


@pytest.fixture(scope="module")
def pair_b(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drafter B with its target, two samples of eight kept."""
    folder = tmp_path_factory.mktemp("cost")
    shutil.copytree(DATA / "target", folder / "target")
    shutil.copytree(DATA / "drafter-b", folder / "drafter")
    for extra in sorted((folder / "drafter" / "samples").iterdir())[4:]:
        extra.unlink()
    return folder


def costs(folder: Path, *, target: str = "target", engine: str = ENGINE) -> list[Check]:
    request = CheckRequest(
        spec=str(folder / "drafter" / "contract.yaml"),
        engines=(engine,),
        target=str(folder / target),
        samples=str(folder / "drafter" / "samples"),
    )
    return [c for c in check(request).checks if c.rule == "reading.cost"]


def test_default_states_cost_most_of_the_accepted_drafts(pair_b: Path) -> None:
    found = costs(pair_b)
    assert [c.status for c in found] == [Status.UNKNOWN]
    assert not found[0].required
    assert "expect accepted length" in found[0].message
    figures = found[0].evidence
    assert figures["recipe"] == [2, 6, 9]
    assert figures["training"] > 1.4 > figures["served"] >= 1.0
    assert figures["interval"][0] > 0


def test_the_right_ids_cost_nothing(pair_b: Path, tmp_path: Path) -> None:
    shutil.copytree(pair_b, tmp_path / "right")
    config = tmp_path / "right" / "drafter" / "config.json"
    written = json.loads(config.read_text()) | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 1, 5]}}
    config.write_text(json.dumps(written))
    found = costs(tmp_path / "right")
    assert [c.status for c in found] == [Status.PASSED]
    assert found[0].expected == found[0].actual > 1.4


def test_another_wiring_is_replayed_on_the_stored_states(pair_b: Path, tmp_path: Path) -> None:
    """Nothing needs to be captured: the states are those of training, what is fed back is not."""
    shutil.copytree(pair_b, tmp_path / "other")
    config = tmp_path / "other" / "drafter" / "config.json"
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 1, 5]}}
    config.write_text(json.dumps(json.loads(config.read_text()) | ids | {"norm_output": True}))
    figures = costs(tmp_path / "other")[0].evidence
    assert figures["recipe"] == [0, 2, 6]
    assert figures["training"] > figures["served"]


def test_without_the_targets_weights_it_cannot_be_said(pair_b: Path) -> None:
    found = costs(pair_b, target="target/config.json")
    assert [c.status for c in found] == [Status.UNKNOWN]
    assert "cannot be said" in found[0].message
    assert "--target" in str(found[0].fix)


def test_an_engine_that_stops_has_no_cost(pair_b: Path, tmp_path: Path) -> None:
    shutil.copytree(pair_b, tmp_path / "stops")
    config = tmp_path / "stops" / "drafter" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": ["Nothing"]}))
    found = costs(tmp_path / "stops")
    assert "does not get that far" in found[0].message


def test_torch_is_imported_only_where_samples_are_given(pair_b: Path) -> None:
    line = "import sys; from contract.cli.main import main; sys.argv[0:] = {argv!r}\n"
    argv = ["contract", "check", str(pair_b / "drafter" / "contract.yaml"), "--engine", ENGINE, "--target", str(pair_b / "target")]
    code = line.format(argv=argv) + (
        "from contract.requests import CheckRequest\nfrom eagle3_contract.check.run import check\n"
        f"check(CheckRequest(spec={argv[2]!r}, engines=({ENGINE!r},), target={argv[-1]!r}))\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
