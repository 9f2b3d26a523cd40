"""The parameters of a live drafter by the names of its checkpoint, what an engine fused taken apart. Torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch import Tensor, nn

Parts: TypeAlias = Callable[[Any, Any, str], Sequence[tuple[str, int]]]
"""Takes a module, the one that holds it (or None) and its own name; gives its parts' names and rows, none if it is not fused."""


def unfused(model: nn.Module, parts_of: Parts) -> dict[str, Tensor]:
    """Every parameter, the same memory under the checkpoint's names; rows of a fused one are those of its parts, one after the other.

    A module that is reached under two names is listed under the first: a tied head is the embedding.
    """
    modules = dict(model.named_modules())
    found: dict[str, Tensor] = {}
    for owner, module in modules.items():
        holder, _, own = owner.rpartition(".")
        parts = parts_of(module, modules.get(holder), own)
        for leaf, value in module.named_parameters(recurse=False):
            start = 0
            for name, rows in parts:
                found[f"{holder}.{name}.{leaf}"] = value.detach()[start : start + rows]
                start += rows
            if not parts:
                found[f"{owner}.{leaf}" if owner else leaf] = value.detach()
    return found
