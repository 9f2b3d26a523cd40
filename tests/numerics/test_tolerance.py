"""Tolerances: dtype bound, measured floor, cap."""

from __future__ import annotations

import math

import pytest

from contract.errors import InternalError
from contract.numerics.tolerance import MEDIAN_CAP, WORST_CAP, NoTolerance, Policy, Tolerance, dtype_bound, tolerance_for


def test_the_bound_covers_what_a_second_bfloat16_implementation_was_measured_at() -> None:
    for layers, measured in ((2, 0.005), (15, 0.014), (27, 0.019)):
        assert measured < dtype_bound("bfloat16", layers=layers) < 3 * measured


def test_the_bound_stays_below_half_the_distance_of_neighbours() -> None:
    for layers in (1, 30, 61, 128):
        found = tolerance_for("bfloat16", layers=layers)
        assert isinstance(found, Tolerance)
        assert found.median <= MEDIAN_CAP < 0.1
        assert found.worst <= WORST_CAP <= 0.1


def test_narrower_formats_are_allowed_more() -> None:
    bounds = [dtype_bound(d, layers=8) for d in ("float64", "float32", "float16", "bfloat16")]
    assert bounds == sorted(bounds)


def test_a_floor_below_the_bound_changes_nothing() -> None:
    assert tolerance_for("float32", layers=4, floor=1e-9) == tolerance_for("float32", layers=4)


def test_a_floor_above_the_bound_widens_threefold() -> None:
    found = tolerance_for("float32", layers=4, floor=1e-3, worst_floor=2e-3)
    assert found == Tolerance(pytest.approx(3e-3), pytest.approx(6e-3), "noise floor")


def test_three_floors_above_the_cap_are_capped() -> None:
    found = tolerance_for("bfloat16", layers=4, floor=0.03)
    assert isinstance(found, Tolerance)
    assert (found.median, found.source) == (MEDIAN_CAP, "policy cap")


@pytest.mark.parametrize("floor", [0.06, math.nan, math.inf])
def test_a_floor_above_the_cap_is_no_tolerance(floor: float) -> None:
    found = tolerance_for("bfloat16", layers=4, floor=floor)
    assert isinstance(found, NoTolerance)
    assert "cannot be told from noise" in found.reason
    assert isinstance(tolerance_for("bfloat16", layers=4, worst_floor=0.2), NoTolerance)


def test_caps_can_be_lowered_only() -> None:
    lowered = tolerance_for("bfloat16", layers=30, policy=Policy(median_cap=0.01, worst_cap=0.02))
    assert lowered == Tolerance(0.01, 0.02, "policy cap")
    with pytest.raises(InternalError):
        Policy(median_cap=0.5)


def test_nan_is_never_within() -> None:
    tolerance = Tolerance(0.1, 0.1, "given")
    assert tolerance.allows(0.1, 0.1)
    assert not tolerance.allows(math.nan, 0.0)
    assert not tolerance.allows(0.0, math.nan)
    assert not tolerance.allows(0.0, 0.0, math.nan)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(InternalError, match="int8"):
        dtype_bound("int8", layers=1)
