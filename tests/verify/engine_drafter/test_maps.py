"""Which map an engine's logits stand under, where it is not the contract's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from contract.numerics.tolerance import Tolerance
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_drafter.maps import Maps

TARGETS_D = torch.tensor([1, 4, 5, 9])
IDS_D = torch.arange(4)
VOCABULARY = 16
BOUND = Tolerance(median=1e-5, worst=1e-4, source="given")


def maps(stored_D: Tensor) -> Maps:
    weights = SimpleNamespace(integers=lambda name: stored_D)
    wiring = SimpleNamespace(target_vocab_size=VOCABULARY, draft_vocab_size=len(TARGETS_D))
    return Maps.of(cast(Drafter, SimpleNamespace(wiring=wiring, target_ids=TARGETS_D, weights=weights)))


@pytest.mark.parametrize(
    ("stored_D", "engines_D", "says"),
    [
        (TARGETS_D - IDS_D, TARGETS_D, None),
        (TARGETS_D - IDS_D, IDS_D, "draft ids are taken for tokens as they are"),
        (TARGETS_D - IDS_D, 2 * TARGETS_D - IDS_D, "d2t is added twice"),
        (TARGETS_D - IDS_D, TARGETS_D + IDS_D, "d2t holds absolute ids and is read as offsets (token = draft id + d2t)"),
        (TARGETS_D, TARGETS_D + IDS_D, "d2t is read as offsets (token = draft id + d2t)"),
    ],
)
def test_where_logits_stand(stored_D: Tensor, engines_D: Tensor, says: str | None) -> None:
    """The engine's file may be another one than the contract's, so that every misreading is tried on the contract's own map, too."""
    ours_RD = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    logits_RV = torch.full((3, VOCABULARY), float("-inf"))
    logits_RV[:, engines_D] = ours_RD
    found = maps(stored_D).explain(logits_RV, ours_RD, BOUND)
    if says is None:
        assert torch.equal(maps(stored_D).in_draft_order(logits_RV[0]), ours_RD[0])
    else:
        assert found == f"stand at other tokens than the contract's map says: {says}"
