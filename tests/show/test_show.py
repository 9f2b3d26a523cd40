"""``contract show`` against golden texts, and that nothing unknown or assumed is left out of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from factory import MLA, pair, tiny

from contract.statement import fact
from eagle3_contract.check.statements import walk
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.wiring import Attention, ConcatOrder, Feedback, LaterLayerNorm, NormBeforeFc, Owner, Rope
from eagle3_contract.show import show

GOLDEN = Path(__file__).parent / "golden"
SPECS = Path(__file__).parents[2] / "specs"
WIRINGS = {
    "plain": tiny(),
    "speculators": tiny(
        layers=2,
        later_layer_norm=LaterLayerNorm.INPUT_LAYERNORM,
        norm_before_residual=True,
        norms_before_fc=(NormBeforeFc.INPUT_NORM,),
        feedback=Feedback.POST_NORM,
        window=16,
        qk_norm=True,
        fc_bias=True,
    ),
    "latent": tiny(
        attention=Attention.MLA,
        mla=MLA,
        double_norm=True,
        final_norm=False,
        norms_before_fc=(NormBeforeFc.FC_NORM,),
        concat_order=ConcatOrder.HIDDEN_FIRST,
        embedding=Owner.OWN,
        lm_head=Owner.TIED_TO_OWN,
        draft_vocab_size=96,
        rope=Rope(type="yarn", theta=50000.0, scaling={"factor": 64.0}, table_length=256, rotary_dim=4),
    ),
}


def compare(text: str, golden: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-goldens"):
        golden.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda p: p.stem)
def test_published_head(path: Path, request: pytest.FixtureRequest) -> None:
    contract = load_contract(path).contract
    text = show(contract, title=f"specs/{path.name}")
    compare(text, GOLDEN / f"{path.stem}.txt", request)
    flat = " ".join(text.split())
    for where, statement in walk(contract):
        known = fact(statement)
        if not known.known and where[0] != "tensors":
            assert f"{'.'.join(where)}: {known.reason}" in flat
        if known.evidence == "assumed" and where[0] != "tensors":
            assert f"{'.'.join(where)} = " in flat


@pytest.mark.parametrize("name", WIRINGS)
def test_wiring(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    spec = pair(WIRINGS[name], boundaries=(0, 3, "final_norm", 8), dialect="layers").write(tmp_path)
    compare(show(load_contract(spec).contract, title=name), GOLDEN / f"{name}.txt", request)


def test_unknown_recipe_is_said(tmp_path: Path) -> None:
    made = pair()
    made.contract["hidden_states"]["boundaries"] = {"unknown": "nobody wrote it down"}
    text = show(load_contract(made.write(tmp_path)).contract)
    assert "Which states training fed is unknown: nobody wrote it down" in text
    assert "fc [32 x ?]" in text


def test_lines_fit_a_terminal() -> None:
    for path in GOLDEN.glob("*.txt"):
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 140
