"""Attribution: every story it can tell, each with the clean twin, and the cases in which it must not decide."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contract.numerics.explanations import Attribution, Kind
from contract.numerics.matching import Candidate, attribute, attribute_all
from contract.numerics.tolerance import Tolerance
from tests.numerics.conftest import make_states

TOLERANCE = Tolerance(median=0.03, worst=0.1, source="given")


def candidates(states: list[Tensor], prefix: str = "", *, foreign: bool = False) -> list[Candidate]:
    return [Candidate(f"{prefix}boundary {i}", lambda x=x: x, foreign) for i, x in enumerate(states)]  # type: ignore[misc]  # mypy cannot type a default of a lambda


def told(observed: Tensor, states: list[Tensor] | None = None, **more: Tensor) -> Attribution:
    return attribute(observed, candidates(states or make_states()), TOLERANCE, norm_weights=more)


def rms(x: Tensor) -> Tensor:
    return x.float() / x.float().square().mean(dim=1, keepdim=True).sqrt()


@pytest.mark.parametrize("i", range(7))
def test_each_state_is_itself(i: int) -> None:
    found = told(make_states()[i])
    assert found.is_identity_of(f"boundary {i}")
    assert found.best is not None
    assert found.best.median == found.best.worst == 0.0
    assert found.margin == math.inf
    assert len(found.considered) == 7


@settings(max_examples=15, deadline=None)
@given(i=st.integers(0, 6), seed=st.integers(0, 1000), noise=st.floats(0.0, 0.01), rows=st.sampled_from([2, 17, 32, 33, 300]))
def test_noise_within_tolerance_changes_no_name(i: int, seed: int, noise: float, rows: int) -> None:
    states = make_states(seed, rows=rows)
    x = states[i].float()
    observed = x * (1 + noise * torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)))
    assert told(observed.bfloat16(), states).is_identity_of(f"boundary {i}")


def shifted(x: Tensor, k: int) -> Tensor:
    y = torch.roll(x, k, dims=0)
    if k > 0:
        y[:k] = 0
    else:
        y[k:] = 0
    return y


@pytest.mark.parametrize("k", [1, -1, 2, -2])
def test_rows_late_or_early(k: int) -> None:
    found = told(shifted(make_states()[3], k))
    assert found.matched
    assert found.best is not None
    assert (found.best.name, found.best.kind, found.best.amount) == ("boundary 3", Kind.SHIFT, float(k))
    assert ("late" if k > 0 else "early") in found.best.transform
    assert not found.is_identity_of("boundary 3")


def half(x: Tensor, keep: slice) -> Tensor:
    y = torch.zeros_like(x)
    y[:, keep] = x[:, keep]
    return y


S = make_states()
WEIGHT = torch.rand(64, generator=torch.Generator().manual_seed(5)) + 0.5
FAULTS: dict[str, tuple[Tensor, Kind, str]] = {
    "scaled": (S[3] * 2, Kind.SCALED, "scaled by 2"),
    "negated": (-S[3], Kind.SCALED, "scaled by -1"),
    "first half": (half(S[3], slice(0, 32)), Kind.HALF, "first half of the columns, the rest is zero"),
    "second half": (torch.cat([S[5][:, :32], S[3][:, 32:]], dim=1) * 1, Kind.HALF, "half of the columns, the rest is different"),
    "one rank": (S[3][:, 32:], Kind.HALF, "second half of the columns, as on one rank"),
    "halves swapped": (torch.cat([S[3][:, 32:], S[3][:, :32]], dim=1), Kind.SWAPPED_HALVES, "swapped"),
    "normed": (rms(S[3]), Kind.RMS_NORM, "RMS-normalised"),
    "normed with unknown weights": (rms(S[3]) * WEIGHT, Kind.RMS_NORM, "weights of its own"),
    "reversed": (S[3].flip(0), Kind.REVERSED, "reverse"),
    "permuted": (S[3][torch.randperm(90, generator=torch.Generator().manual_seed(1))], Kind.PERMUTED, "another order"),
    "far late": (torch.roll(S[3], 20, 0), Kind.PERMUTED, "20 rows late"),
    "repeated": (S[3][torch.arange(90) // 2], Kind.PERMUTED, "repeated and lost"),
    "cut off": (S[3][:60], Kind.PREFIX, "60 rows against 90"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_happened_to_it_is_named(fault: str) -> None:
    observed, kind, words = FAULTS[fault]
    found = told(observed)
    assert found.best is not None
    assert found.best.kind is kind
    assert words in found.best.transform
    assert not found.is_identity_of("boundary 3")
    if fault == "second half":  # both halves have a true story: boundary 5's and boundary 3's
        assert found.ambiguous
        assert {e.name for e in (found.best, *found.rivals)} == {"boundary 3", "boundary 5"}
    else:
        assert found.matched
        assert found.best.name == "boundary 3"


def test_a_branch_without_the_residual_is_named_when_it_is_among_the_candidates() -> None:
    branch = Candidate("boundary 3 without the residual", lambda: S[3] - S[2], derived=True)
    found = attribute(S[3] - S[2], [*candidates(S), branch], TOLERANCE)
    assert found.matched
    assert found.best is not None
    assert (found.best.name, found.best.kind) == ("boundary 3 without the residual", Kind.DERIVED)
    assert attribute(S[3], [*candidates(S), branch], TOLERANCE).is_identity_of("boundary 3")


@pytest.mark.parametrize("how", ["rotated", "columns rearranged"])
def test_another_basis_is_told_by_the_angles_between_rows(how: str) -> None:
    make = torch.Generator().manual_seed(4)
    basis = (
        torch.linalg.qr(torch.randn(64, 64, generator=make)).Q if how == "rotated" else torch.eye(64)[torch.randperm(64, generator=make)]
    )
    found = told((S[3].float() @ basis).bfloat16())
    assert found.matched
    assert found.best is not None
    assert (found.best.name, found.best.kind) == ("boundary 3", Kind.ROTATED)


def test_norm_weights_that_are_given_are_named() -> None:
    found = told(rms(S[6]) * WEIGHT, **{"the final norm": WEIGHT})
    assert found.best is not None
    assert (found.best.name, found.best.transform) == ("boundary 6", "RMS-normalised with the final norm")


def test_a_state_that_is_there_by_itself_is_not_told_as_a_transform_of_another() -> None:
    states = make_states()
    named = [*candidates(states), Candidate("final_norm", lambda: (rms(states[6]) * WEIGHT).bfloat16())]
    found = attribute((rms(states[6]) * WEIGHT).bfloat16(), named, TOLERANCE, norm_weights={"the final norm": WEIGHT})
    assert found.is_identity_of("final_norm")


def test_equal_candidates_are_a_tie_between_both_names() -> None:
    states = make_states()
    twice = [*candidates(states), Candidate("twin", lambda: states[3].clone())]
    found = attribute(states[3], twice, TOLERANCE)
    assert (found.matched, found.ambiguous) == (False, True)
    assert found.best is not None
    assert {found.best.name, *(e.name for e in found.rivals)} == {"boundary 3", "twin"}
    assert found.could_be("boundary 3")
    assert found.could_be("twin")
    assert not found.could_be("boundary 2")
    assert attribute(states[2], twice, TOLERANCE).is_identity_of("boundary 2")


def test_a_runner_up_within_twice_the_distance_is_ambiguous() -> None:
    states = make_states()
    noise = torch.randn(90, 64, generator=torch.Generator().manual_seed(3))
    near = states[3].float() * (1 + 0.01 * noise)
    between = states[3].float() * (1 + 0.0055 * noise)
    named = [*candidates([x.float() for x in states]), Candidate("near", lambda: near)]
    found = attribute(between, named, TOLERANCE)
    assert found.ambiguous
    assert "cannot be told from" in found.reason
    assert attribute(states[3].float() * (1 + 0.001 * noise), named, TOLERANCE).is_identity_of("boundary 3")


def test_differences_far_below_what_a_matrix_product_resolves_decide() -> None:
    x = torch.randn(80, 256, generator=torch.Generator().manual_seed(0)) * 100
    y = x + 1e-4 * torch.randn(80, 256, generator=torch.Generator().manual_seed(1))
    named = [Candidate("x", lambda: x), Candidate("y", lambda: y)]
    assert attribute(x, named, TOLERANCE).is_identity_of("x")
    assert attribute(y, named, TOLERANCE).is_identity_of("y")


def test_another_document_is_found_although_its_pooled_cosine_is_close_to_one() -> None:
    own, other = make_states(0), make_states(1, rows=70)
    observed = torch.cat([other[4], make_states(2)[4][70:]])
    named = [*candidates(own), *candidates(other, "s02: ", foreign=True)]
    pooled = torch.nn.functional.cosine_similarity(observed.float().flatten(), own[4].float().flatten(), dim=0)
    assert pooled > 0.99
    found = attribute(observed, named, TOLERANCE)
    assert found.best is not None
    assert (found.best.name, found.best.kind) == ("s02: boundary 4", Kind.FOREIGN)
    assert "rows 0 to 69" in found.best.transform
    assert attribute(own[4], named, TOLERANCE).is_identity_of("boundary 4")


def test_a_document_that_merely_shares_the_beginning_is_no_rival_of_the_own_one() -> None:
    own = make_states(0)
    prefix = [x[:80] for x in own]
    found = attribute(own[4], [*candidates(own), *candidates(prefix, "s02: ", foreign=True)], TOLERANCE)
    assert found.is_identity_of("boundary 4")


def test_a_long_common_beginning_does_not_hide_another_document() -> None:
    own = make_states(0)
    other = [torch.cat([x[:60], y[60:]]) for x, y in zip(own, make_states(1), strict=True)]
    found = attribute(other[4], [*candidates(own), *candidates(other, "s02: ", foreign=True)], TOLERANCE)
    assert found.matched
    assert found.best is not None
    assert found.best.name == "s02: boundary 4"
    alone = attribute(other[4], candidates(own), TOLERANCE)
    assert not alone.matched
    assert alone.best is not None
    assert (alone.best.name, alone.best.median) == ("boundary 4", 0.0)


def test_one_wrong_row_is_no_match_and_is_named() -> None:
    observed = make_states()[3].clone()
    observed[41] = make_states()[2][41]
    found = told(observed)
    assert not found.matched
    assert found.best is not None
    assert (found.best.name, found.best.worst_row) == ("boundary 3", 41)
    assert "row 41" in found.reason


def test_a_wrong_sink_is_no_match_and_is_named() -> None:
    observed = make_states()[3].clone()
    observed[0] *= 1.5
    found = told(observed)
    assert not found.matched
    assert "sink in row 0" in found.reason


def test_a_document_of_one_sink_row_is_ambiguous() -> None:
    """Row 0 alone says nothing: it is alike at every boundary where it is a sink."""
    states = [x[:1] for x in make_states()]
    assert told(states[3], states).ambiguous
    assert told(states[0], states).is_identity_of("boundary 0")


def test_nan_is_no_match_even_against_itself() -> None:
    states = make_states()
    states[3][7, 7] = math.nan
    found = told(states[3], states)
    assert not found.matched
    assert found.best is not None
    assert (found.best.name, found.best.worst_row) == ("boundary 3", 7)
    assert "not finite" in found.reason


def test_zeros_name_no_candidate_even_if_one_is_zero() -> None:
    states = make_states()
    states[2] = torch.zeros_like(states[2])
    found = told(states[2], states)
    assert found.best is not None
    assert found.best.kind is Kind.ZEROS
    assert not found.is_identity_of("boundary 2")


def test_one_repeated_row() -> None:
    found = told(torch.randn(64, generator=torch.Generator().manual_seed(8)).expand(90, 64))
    assert found.best is not None
    assert found.best.kind is Kind.CONSTANT


def test_nothing_explains_noise() -> None:
    found = told(torch.randn(90, 64, generator=torch.Generator().manual_seed(9)))
    assert (found.matched, found.ambiguous) == (False, False)
    assert found.best is not None
    assert found.best.kind is Kind.IDENTITY
    assert "nothing explains it" in found.reason


def test_nothing_to_compare_is_never_a_match() -> None:
    for observed in (torch.empty(0, 64), torch.empty(4, 0), torch.ones(4)):
        found = told(observed)
        assert (found.best, found.matched) == (None, False)
    assert attribute(S[3], [], TOLERANCE).best is None


def test_candidates_of_another_width_are_left_out_and_named() -> None:
    named = [*candidates(make_states()), Candidate("wide", lambda: torch.ones(90, 65)), Candidate("cube", lambda: torch.ones(90, 64, 1))]
    found = attribute(torch.randn(90, 64), named, TOLERANCE)
    assert dict(found.left_out) == {"wide": "shape [90, 65] against [90, 64]", "cube": "shape [90, 64, 1] is no [rows, columns]"}
    assert "wide" not in found.considered


def test_several_slots_need_each_candidate_once_for_the_screening() -> None:
    states = make_states()
    loads = dict.fromkeys(range(7), 0)

    def load(i: int) -> Tensor:
        loads[i] += 1
        return states[i]

    named = [Candidate(f"boundary {i}", lambda i=i: load(i)) for i in range(7)]  # type: ignore[misc]  # mypy cannot type a default of a lambda
    found = attribute_all({"slot 0": states[0], "slot 1": states[3], "slot 2": states[6]}, named, TOLERANCE)
    assert [a.best.name for a in found.values() if a.best] == ["boundary 0", "boundary 3", "boundary 6"]
    assert max(loads.values()) <= 2
