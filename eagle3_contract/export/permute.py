"""A recipe in ascending order, and fc's columns with it: the same sum, in the order in which engines capture.

Legend: H drafter hidden size, K states, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from contract.files.tensors import TensorRef
from eagle3_contract.check.context import CheckContext
from eagle3_contract.model.names import canonical
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import Recipe

BLOCKED: Final = ("fc.weight", "input_norm.weight")
"""Tensors whose last dimension is a block per state."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """``order[j]`` is the slot of the original recipe that becomes slot j."""

    order: tuple[int, ...]
    recipe: Recipe

    @property
    def changes(self) -> bool:
        return self.order != tuple(range(len(self.order)))


def ascending(recipe: Recipe) -> Permutation:
    """The recipe sorted, boundaries before ``final_norm``."""
    order = sorted(range(len(recipe)), key=lambda i: (isinstance(recipe[i], str), recipe[i]))
    return Permutation(tuple(order), tuple(recipe[i] for i in order))


def permuted_contract(contract: Contract, permutation: Permutation) -> Contract:
    """The contract of the permuted drafter: the recipe in its new order, and no golden rows (their inputs have the old one)."""
    states = msgspec.structs.replace(contract.hidden_states, boundaries=list(permutation.recipe))
    return msgspec.structs.replace(contract, hidden_states=states, golden=None)


def permuted_context(ctx: CheckContext, permutation: Permutation) -> CheckContext:
    return replace(ctx, contract=permuted_contract(ctx.contract, permutation))


def permuted_name(stored: str, permutation: Permutation) -> str:
    """A norm per state moves with its state; every other tensor keeps its name."""
    name = canonical(stored)
    if not name.startswith("fc_norm."):
        return stored
    slot = int(name.split(".")[1])
    return f"fc_norm.{permutation.order.index(slot)}.weight" if slot < len(permutation.order) else stored


def permuted_bytes(ref: TensorRef, permutation: Permutation) -> bytes:
    """The bytes of ``fc.weight`` [H, K*G] or ``input_norm.weight`` [K*G] with their blocks in the new order."""
    import numpy as np

    data = np.frombuffer(ref.read_bytes(), dtype=np.uint8)
    rows = ref.shape[0] if len(ref.shape) == 2 else 1
    blocks = data.reshape(rows, len(permutation.order), -1)
    return blocks[:, list(permutation.order)].tobytes()


def is_blocked(stored: str) -> bool:
    """Whether a stored tensor has a block per state."""
    return canonical(stored) in BLOCKED


def changed_names(stored: Sequence[str], names: Mapping[str, str], permutation: Permutation | None) -> dict[str, str]:
    """Stored name to the name in the export, for those that change: by dialect, then by permutation."""
    changed: dict[str, Any] = {}
    for old in stored:
        new = names.get(old, old)
        moved = permuted_name(new, permutation) if permutation is not None else new
        if moved != old:
            changed[old] = moved
    return changed
