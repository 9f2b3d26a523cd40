"""A policy's ceilings reach the bounds that states and logits are judged by."""

from __future__ import annotations

from pathlib import Path

import pytest
from factory import pair

from contract.requests import VerifyRequest
from eagle3_contract.model.ceilings import under_ceilings
from eagle3_contract.model.load import load_contract
from eagle3_contract.verify.bounds import state_bounds


@pytest.mark.parametrize(("stated", "ceiling", "expected"), [(None, 1e-3, 1e-3), (1e-4, 1e-3, 1e-4), (1e-2, 1e-3, 1e-3)])
def test_the_smaller_of_contract_and_ceiling_counts(tmp_path: Path, stated: float | None, ceiling: float, expected: float) -> None:
    drafter = pair()
    drafter.contract["tolerances"] = {"states": stated, "logits": None}
    loaded = under_ceilings(load_contract(drafter.write(tmp_path)), {"states": ceiling})
    assert loaded.contract.tolerances.states == expected
    assert loaded.contract.tolerances.logits is None
    assert state_bounds(loaded.contract, None).of_state(2).median == expected


def test_a_ceiling_never_widens_the_built_in_bound(tmp_path: Path) -> None:
    loaded = load_contract(pair().write(tmp_path))
    built_in = state_bounds(loaded.contract, None).of_state(2)
    assert state_bounds(under_ceilings(loaded, {"states": 10.0}).contract, None).of_state(2).median == built_in.median
    assert under_ceilings(loaded, {}) is loaded


def test_limits_and_depth_of_a_policy_reach_verify(tmp_path: Path) -> None:
    from contract.limits import DEFAULT_LIMITS
    from eagle3_contract.commands.verify import verify

    drafter = pair()
    drafter.record_digests = False
    spec = str(drafter.write(tmp_path))
    deep = verify(VerifyRequest(spec=spec, integrity="digests"))
    assert "drafter.digest" in {c.rule for c in deep.checks if c.status == "failed"}
    assert "drafter.digest" not in {c.rule for c in verify(VerifyRequest(spec=spec)).checks if c.status == "failed"}
    small = verify(VerifyRequest(spec=spec, limits=DEFAULT_LIMITS.lowered(tensors=3)))
    assert int(small.exit_code) == 2
