"""Which findings of a verification say where the drafter's data flow is broken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contract.findings import Check, Status
from contract.report.flow import Flow
from eagle3_contract.model.flow import drafter_flow
from eagle3_contract.model.spec import Contract
from eagle3_contract.verify import rules

SYMPTOMS: Final = (rules.CLAIM.id, rules.DROP.id, rules.LENGTH.id, rules.FLOOR.id)
"""They fail whatever is broken, so that they say nothing about where."""


def verified_flow(contract: Contract, checks: Iterable[Check]) -> Flow:
    """The flow of one step. Where other states are fed, the logits that follow from them break no edge of their own."""
    fed_wrongly = any(c.status is Status.FAILED and c.rule.startswith("states.") for c in checks)
    return drafter_flow(contract, (*SYMPTOMS, *((rules.PATH_LOGITS.id,) if fed_wrongly else ())))
