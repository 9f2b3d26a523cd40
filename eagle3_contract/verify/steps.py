"""How many drafting steps a run of `verify` makes. No torch."""

from __future__ import annotations

from typing import Final

from contract.statement import fact
from eagle3_contract.model.spec import Contract

DEFAULT_STEPS: Final = 3
MAX_STEPS: Final = 16


def steps_and_drafts(contract: Contract) -> tuple[int, int]:
    """Steps to run, and drafts per round of the chain: as many as the contract claims, accepts and serves."""
    claimed, k, served = fact(contract.training.metrics.accuracy), fact(contract.acceptance.k), fact(contract.serving.steps)
    drafts = k.value if k.known else served.value if served.known else DEFAULT_STEPS
    drafts = max(1, min(int(drafts), MAX_STEPS))
    return max(drafts, min(len(claimed.value), MAX_STEPS) if claimed.known else 0), drafts
