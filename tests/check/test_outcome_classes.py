"""Every difference between an engine and training has a class: silent, loud at load, loud at the first request, or harmless."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factory import Pair, Tensor, pair, tiny
from incidents.cases_recipe import target

from contract.findings import Check, Status
from eagle3_contract.check.consequences import FIGURES, figure_for
from eagle3_contract.check.reading import RULES
from eagle3_contract.check.run import check_spec
from eagle3_contract.model.wiring import Owner

SGLANG = "sglang==0.5.23"
LLAMA = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 256}


def readings(folder: Path, made: Pair, engine: str = SGLANG, **config: Any) -> list[Check]:
    spec = made.write(folder / "drafter")
    report = check_spec(spec, target=target(**LLAMA, **config)(folder / "target"), engines=(engine,))
    return [c for c in report.checks if c.rule.startswith("reading.")]


def one(checks: list[Check], rule: str) -> Check:
    return next(c for c in checks if c.rule == rule)


def other_ids(p: Pair) -> None:
    p.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [2, 4, 5]


def other_ids_and_architecture(p: Pair) -> None:
    other_ids(p)
    p.config["architectures"] = ["SomethingElse"]


def state_that_never_comes(p: Pair) -> None:
    p.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [1, 3, 7]


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        (other_ids, "silent", "Silent, acceptance is lost"),
        (other_ids_and_architecture, "loud_at_load", "silent once that is mended"),
        (state_that_never_comes, "loud_at_first_request", "at the first request"),
    ],
)
def test_classes_of_a_difference(tmp_path: Path, change: Callable[[Pair], None], outcome: str, words: str) -> None:
    made = pair()
    change(made)
    checks = readings(tmp_path, made)
    found = [c for c in checks if c.rule == "reading.boundaries" and c.status is Status.FAILED]
    if outcome == "loud_at_load":  # an engine without a class for it says nothing about states it would feed
        assert one(checks, "reading.outcome").evidence["outcome"] == outcome
        found = found or [one(checks, "reading.outcome")]
    else:
        assert words in found[0].message
    assert found[0].evidence["outcome"] == outcome


def own_copy() -> Pair:
    made = pair(tiny(embedding=Owner.OWN))
    made.contract["tensors"]["embed_tokens.weight"]["content"] = "target_copy"
    return made


def zero_map() -> Pair:
    made = pair(t2d=False)
    made.tensors["d2t"] = Tensor(np.zeros_like(made.tensors["d2t"].values), "int64")
    made.contract["vocab"]["map"] = "identity"
    return made


def longer_table() -> Pair:
    made = pair()
    made.config["max_position_embeddings"] = 512
    return made


def shifted_positions() -> Pair:
    made = pair()
    made.contract["alignment"]["positions_start"] = 1
    return made


def one_state() -> Pair:
    """fc is skipped by both, so that the count it was built for means nothing."""
    made = pair(tiny(fc_applied=False), boundaries=(4,), ids=(3,))
    made.config["num_aux_hidden_states"] = 3
    return made


@pytest.mark.parametrize(
    ("make", "rule", "reason"),
    [
        (own_copy, "reading.embedding", "copy of the target's"),
        (zero_map, "reading.vocab-map", "every offset of d2t is zero"),
        (longer_table, "reading.table-length", "same rotations"),
        (shifted_positions, "reading.step-positions", "differences of positions"),
    ],
)
def test_harmless_differences_pass_with_the_reason(tmp_path: Path, make: Callable[[], Pair], rule: str, reason: str) -> None:
    found = [c for c in readings(tmp_path, make()) if c.rule == rule and c.evidence.get("outcome") == "harmless"]
    assert [c.status for c in found] == [Status.PASSED]
    assert reason in str(found[0].evidence["reason"])
    assert "Harmless" in found[0].message


def test_a_longer_table_counts_where_the_base_follows_it(tmp_path: Path) -> None:
    made = longer_table()
    made.config["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    assert one(readings(tmp_path, made), "reading.table-length").status is Status.FAILED


def test_the_count_of_an_fc_that_is_skipped_is_not_compared(tmp_path: Path) -> None:
    checks = readings(tmp_path, one_state())
    assert one(checks, "reading.fc-applied").status is Status.PASSED
    assert not [c for c in checks if c.rule == "reading.fc-count"]


@pytest.mark.parametrize(
    ("stated", "actual", "by_default", "figure"),
    [
        ([2, 4, 5], [3, 5, 6], False, "45% -> 10%"),
        ([3, 5, 6], [2, 4, 5], False, "45% -> 10%"),
        ([0, 3, 31], [3, 31, 59], False, "54.8"),
        ([1, 3, 5], [2, 4, 5], True, "1.036"),
        ([5, 2, 4], [2, 4, 5], False, "1.103"),
        ([2, 4, 5], [2, 4, "final_norm"], False, "1.119"),
        ([2, 4, 5], [1, 4, 6], False, "1.216"),
    ],
)
def test_figures_of_recipes(stated: list[Any], actual: list[Any], by_default: bool, figure: str) -> None:
    found = figure_for("reading.boundaries", stated, actual, by_default=by_default)
    assert found is not None
    assert figure in str(found)


def test_every_figure_belongs_to_a_rule_and_names_its_source() -> None:
    names = {r.id.rpartition(".")[2] for r in RULES}
    assert set(FIGURES) <= names
    assert all(f.source for f in FIGURES.values())


def test_float16_by_default_is_only_noticed(tmp_path: Path) -> None:
    """SGLang runs a config without a dtype in float16; that is a range, not yet an overflow."""
    made = pair()
    del made.config["torch_dtype"]
    found = one(readings(tmp_path, made), "reading.dtype")
    assert found.status is Status.UNKNOWN
    assert not found.required
    assert "nobody asked for it" in found.message
