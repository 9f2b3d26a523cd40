"""Tolerances for the states of one verification: by dtype and depth, never wider than policy, at most as wide as the contract says."""

from __future__ import annotations

from contract.files.bundle import Bundle
from contract.numerics.tolerance import ROUNDING, NoTolerance, Tolerance, tolerance_for
from contract.statement import fact
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import FINAL_NORM, State
from eagle3_contract.verify.engine_runs.floors import state_floor, state_tolerance
from eagle3_contract.verify.engine_runs.noise import Floor, Noise
from eagle3_contract.verify.states import Bounds


def state_bounds(contract: Contract, bundle: Bundle | None, noise: Noise | None = None) -> Bounds:
    """The coarser dtype of both sides decides; a state is as deep as its boundary. A measured noise floor widens them, up to the caps; one
    above the cap does not (``floors.under_noise`` then leaves the verdict open)."""
    stated = fact(contract.target.dtype)
    dtypes = [
        d for d in (stated.value if stated.known else None, bundle.manifest.engine.dtype if bundle is not None else None) if d in ROUNDING
    ]
    coarsest = max(dtypes, key=lambda d: ROUNDING[d], default="bfloat16")
    layers = fact(contract.target.layers)
    depth = int(layers.value) if layers.known else (bundle.manifest.layers if bundle is not None else 1)

    def of_depth(n: int, floor: Floor | None) -> Tolerance:
        found = state_tolerance(coarsest, n, floor, contract)
        if isinstance(found, NoTolerance):
            found = tolerance_for(coarsest, layers=n)
        assert isinstance(found, Tolerance)  # without a measured floor there is always one
        limit = contract.tolerances.states
        if limit is None:
            return found
        return Tolerance(min(found.median, limit), min(found.worst, limit), "contract")

    def of_state(state: State) -> Tolerance:
        return of_depth(depth if state == FINAL_NORM else int(state), None if noise is None else state_floor(noise, state))

    return Bounds(naming=of_depth(depth, None if noise is None else state_floor(noise, None)), of_state=of_state)
