"""Whether the slots of a request have the shapes of the states that they are to be compared with.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from contract.findings import Check, Where
from eagle3_contract.verify import state_rules


def shape_checks(sample: str, slots: Sequence[Tensor], tokens: int, width: int, states: int) -> Iterator[Check]:
    """The slots [T, G] that are too short or too wide, or too many; nothing where all fit.

    Args:
        sample: for messages.
        slots: what was fed, in order.
        tokens: T.
        width: G.
        states: of the contract's recipe.
    """
    due = [tokens, width]
    for i, slot in enumerate(slots):
        if list(slot.shape) != due:
            yield state_rules.SHAPE.failed(
                f"{sample}: slot {i} has shape {list(slot.shape)}, training's states have {due}",
                expected=due,
                actual=list(slot.shape),
                where=Where(slot=i, sample=sample),
            )
    if len(slots) != states:
        yield state_rules.SLOT_COUNT.failed(
            f"{sample}: {len(slots)} slots are fed, the contract has {states} states",
            expected=states,
            actual=len(slots),
            where=Where(sample=sample),
        )
