"""The state whose logits were the training target: the target's last one, or one that the contract explains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.recipe import IN_RANGE

LAST: Final = Rule(
    id="training.last-state",
    title="The training target was the target's last state",
    severity=Severity.WARNING,
    dimension="recipe",
    why="A dump that asks for one layer less trains on logits of another layer: TorchSpec's vLLM extraction took id 35 of 36 for the last "
    "state (TorchSpec#87). speculators 0.3 stored boundary N-2 on purpose in some runs, so that this is no error by itself.",
    remedy="Check which state the trainer's last one is; correct training.target_state.boundary or train again.",
)
RULES: Final = (LAST,)


def check_training_state(ctx: CheckContext) -> Iterator[Check]:
    """Boundary of the training target against the number of layers."""
    stated, layers = ctx.stated("training", "target_state", "boundary"), ctx.value("target", "layers")
    if not stated.known or layers is None:
        yield LAST.skipped("which state was the training target, or how many layers there are, is not known")
    elif isinstance(stated.value, int) and stated.value > layers:
        yield IN_RANGE.failed(
            f"the target has boundaries 0 to {layers}; the training target was boundary {stated.value}",
            expected=layers,
            actual=stated.value,
            where=ctx.place("training", "target_state", "boundary"),
        )
    elif stated.value == layers:
        yield LAST.passed(f"the training target was boundary {layers}, the last one", expected=layers, actual=layers)
    else:
        yield LAST.failed(
            f"the training target was boundary {stated.value}, the target has {layers} layers: logits of another layer's state",
            expected=layers,
            actual=stated.value,
            where=ctx.place("training", "target_state", "boundary"),
        )
