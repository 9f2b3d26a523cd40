"""The mutations cover every field, and a wrong contract is noticed or explained."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tools.mutate.__main__ import DATA, PAGE, main, page, unnoticed_fields
from tools.mutate.fields import leaves, mutants, other
from tools.mutate.reasons import BYTES, FIELDS, reason_for_bytes, reason_for_field

CONTRACT = yaml.safe_load((DATA / "drafter-a" / "contract.yaml").read_text(encoding="utf-8"))


def test_every_known_value_is_changed_once_and_alone() -> None:
    stated = dict(leaves(CONTRACT))
    seen = []
    for path, before, after, tree in mutants(CONTRACT):
        assert before == stated[path] != after
        assert {p for p, v in leaves(tree) if stated.get(p, tree) != v} >= {path} or isinstance(after, dict)
        seen.append(path)
    assert len(seen) == len(set(seen)) > 100
    assert all(isinstance(stated[p], dict) for p in stated.keys() - set(seen))


@pytest.mark.parametrize(
    ("value", "changed"),
    [(True, False), (3, 4), (0.5, 1.0), (0.0, 1.0), ("pre_norm", "post_norm"), ([1, 2], [2, 1]), ([1], [2]), (None, 7)],
)
def test_other_values(value: object, changed: object) -> None:
    assert other(value) == changed


def test_check_alone_notices_what_it_can_see(tmp_path: Path) -> None:
    folder, target = tmp_path / "drafter-a", tmp_path / "target"
    shutil.copytree(DATA / "drafter-a", folder)
    shutil.copytree(DATA / "target", target)
    before = (folder / "contract.yaml").read_bytes()
    unnoticed = {path for path, _, _ in unnoticed_fields(folder, target, deep=False)}
    assert (folder / "contract.yaml").read_bytes() == before
    for path in (
        "hidden_states.boundaries",
        "wiring.head_dim",
        "wiring.norm_before_residual",
        "vocab.map",
        "target.layers",
        "drafter.files.config.json",
    ):
        assert path not in unnoticed
    assert "target.id" in unnoticed


def test_reasons_are_by_name() -> None:
    assert reason_for_field("serving.topk") == FIELDS["serving.*"]
    assert reason_for_field("wiring.head_dim") is None
    assert reason_for_bytes("drafter-a/config.json") is None
    assert reason_for_bytes("drafter-a/golden/golden.safetensors") == BYTES["*/golden/golden.safetensors"]
    assert "**no reason known**" in page([("wiring.x", 1, 2)], [])
    assert "no reason known" not in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_verify_does_not_notice_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print"]) == 0, capsys.readouterr().err
