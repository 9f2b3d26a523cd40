"""Ids to boundaries: what each trainer feeds for its own config, against what its capture code was seen to take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import UserError
from eagle3_contract.trainers.base import installed
from tests.trainers.views import DATA

MATRIX: list[dict[str, Any]] = json.loads((DATA / "layer_id_matrix.json").read_text())
ROWS = {
    "speculators 0.9.0 export, ids [2,4,5]": ("speculators", [2, 4, 5], 8, "0.9.0"),
    "speculators 0.3/0.4 config (no ids key), states post-layer [2,4,5]": ("speculators", None, 8, "0.3.0"),
    "SpecForge export, no eagle_config": ("specforge", None, 8, None),
    "SpecForge export, eagle_config ids [1,3,4]": ("specforge", [1, 3, 4], 8, None),
    "ModelOpt export, eagle_config ids [1,3,4]": ("modelopt", [1, 3, 4], 8, None),
    "official EAGLE config (no ids)": ("eagle", None, 8, None),
    "TorchSpec export, no eagle_config": ("torchspec", None, 8, None),
    "AngelSlim save_pretrained, no ids": ("angelslim", None, 8, None),
    "AngelSlim with aux_hidden_states_layer_ids [0,3,6]": ("angelslim", [0, 3, 6], 8, None),
    "Kimi/DSv3 61 layers, eagle_config ids [1,29,57] (SpecForge/ModelOpt/TorchSpec native)": ("modelopt", [1, 29, 57], 61, None),
    "Kimi 61 layers, TorchSpec --vllm fixup ids [2,30,58]": ("torchspec", [2, 30, 58], 61, "vllm"),
    "gpt-oss-120b SpecForge ids [1,17,33], 36 layers": ("specforge", [1, 17, 33], 36, None),
}


@pytest.mark.parametrize("row", MATRIX, ids=[row["config"] for row in MATRIX])
def test_the_matrix(row: dict[str, Any]) -> None:
    trainer, ids, layers, version = ROWS[row["config"]]
    assert list(installed()[trainer].ids_to_boundaries(ids, layers, version)) == row["trained on HF hs"]


@pytest.mark.parametrize("trainer", ["specforge", "modelopt", "torchspec"])
def test_kimi_ids_mean_the_same_to_all_who_number_outputs(trainer: str) -> None:
    assert installed()[trainer].ids_to_boundaries([1, 29, 57], 61) == (2, 30, 58)


@pytest.mark.parametrize("trainer", sorted(installed()))
@pytest.mark.parametrize("layers", [8, 30, 36, 61])
def test_every_trainers_default_is_the_same_but_for_early_speculators(trainer: str, layers: int) -> None:
    adapter = installed()[trainer]
    assert adapter.ids_to_boundaries(None, layers) == (2, layers // 2, layers - 3)
    assert adapter.ids_to_boundaries(adapter.default_ids(layers), layers) == (2, layers // 2, layers - 3)
    if trainer == "speculators":
        assert adapter.ids_to_boundaries(None, layers, "0.4.0") == (3, layers // 2 + 1, layers - 2)


def test_order_is_the_capture_order_or_the_listed_one() -> None:
    adapters = installed()
    assert adapters["speculators"].ids_to_boundaries([5, 2, 4], 8, "0.9.0") == (2, 4, 5)
    assert adapters["specforge"].ids_to_boundaries([4, 1, 3], 8) == (2, 4, 5)
    assert adapters["angelslim"].ids_to_boundaries([6, 0, 3], 8) == (7, 1, 4)


def test_the_embedding_can_be_fed_by_those_who_number_inputs_alone() -> None:
    assert installed()["speculators"].ids_to_boundaries([0, 3, 31], 61, "0.9.0") == (0, 3, 31)
    with pytest.raises(UserError) as refused:
        installed()["specforge"].ids_to_boundaries([-1, 3, 31], 61)
    assert refused.value.rule == "trainers.layer-ids"


def test_a_vllm_dump_gives_modelopts_ids_another_meaning() -> None:
    assert installed()["modelopt"].ids_to_boundaries([1, 3, 4], 8, "vllm") == (1, 3, 4)


@given(st.sampled_from(sorted(installed())), st.integers(8, 100), st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none()))
def test_ids_outside_the_target_are_refused_and_never_wrapped(trainer: str, layers: int, odd: Any) -> None:
    adapter = installed()[trainer]
    if isinstance(odd, int) and not isinstance(odd, bool) and 0 <= odd < layers:
        assert all(0 <= int(b) <= layers for b in adapter.ids_to_boundaries([odd, 1, 2], layers))
    elif odd != layers or trainer in ("specforge", "modelopt", "torchspec", "angelslim") or isinstance(odd, bool):
        with pytest.raises(UserError):
            adapter.ids_to_boundaries([odd, 1, 2], layers)


def test_specforge_captures_three_states_and_no_other_number() -> None:
    with pytest.raises(UserError, match="exactly three"):
        installed()["specforge"].ids_to_boundaries([1, 2], 8)
