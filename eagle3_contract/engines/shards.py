"""Joining what the ranks of a tensor-parallel engine hold of one state.

A rank may hold all of it (a replica, after an all-reduce), some of its columns (a shard), or a summand of it (a partial sum, before the
all-reduce). Width tells shards from the rest; the full state, seen elsewhere, tells replicas from partial sums. What cannot be told is
refused: a partial sum taken for a state is a state that no rank ever fed.

Legend: n rows, G width of the state, W width that one rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from typing import Final

import torch
from torch import Tensor

from contract.errors import InputRejected
from eagle3_contract.engines.spool_read import spool_error

ROUNDING: Final = 8
"""Units in the last place of the dtype, relative to a row's norm, that a sum over ranks may be off by."""
PERMUTATIONS: Final = 8
"""Ranks up to which another order of the shards is looked for, to name it in the message (8! = 40,320 orders)."""


class Held(StrEnum):
    """What each rank holds."""

    REPLICA = "replica"
    COLUMNS = "columns"
    PARTIAL_SUM = "partial sum"


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The state [n, G], and what the ranks held of it."""

    held: Held
    state_NG: Tensor


def join(parts: Sequence[Tensor], *, width: int, full_NG: Tensor | None = None) -> Joined:
    """The state from what each rank holds, in rank order.

    Without ``full_NG`` parts of full width are replicas only if they are equal bit for bit: ranks hold different blocks of weights, so that
    their summands are not.

    Args:
        parts: of rank 0, 1 ... [n, W] each, of one dtype.
        width: G.
        full_NG: the same rows as they were seen where they are whole (what reached the drafter's fc).

    Raises:
        InputRejected: ``engine.shards``: it cannot be told, or no way of joining gives ``full_NG``.
    """
    shapes = [tuple(p.shape) for p in parts]
    if not parts or any(p.dim() != 2 for p in parts) or len({(p.dtype, p.shape[0]) for p in parts}) != 1:
        raise _refused(f"ranks hold {shapes}, not the same rows in one dtype")
    if full_NG is not None and tuple(full_NG.shape) != (shapes[0][0], width):
        raise _refused(f"the full state is {list(full_NG.shape)}, not [{shapes[0][0]}, {width}]")
    widths = {shape[1] for shape in shapes}
    if widths == {width}:
        return _full_width(parts, full_NG)
    if len(widths) == 1 and len(parts) * shapes[0][1] == width:
        return _columns(parts, full_NG)
    raise _refused(f"{len(parts)} ranks hold {[s[1] for s in shapes]} columns of a state that is {width} wide")


def _full_width(parts: Sequence[Tensor], full_NG: Tensor | None) -> Joined:
    equal = all(_same_bits(p, parts[0]) for p in parts)
    if full_NG is None:
        if equal:
            return Joined(Held.REPLICA, parts[0])
        raise _refused("ranks hold different rows of full width: partial sums, or replicas that drifted; the full state would tell")
    if all(_is(p, full_NG, parts[0].dtype) for p in parts):
        return Joined(Held.REPLICA, parts[0])
    total_NG = torch.stack([p.double() for p in parts]).sum(0)
    if _is(total_NG, full_NG, parts[0].dtype):
        return Joined(Held.PARTIAL_SUM, total_NG.to(parts[0].dtype))
    raise _refused("neither what each rank holds nor the sum over ranks is the full state")


def _columns(parts: Sequence[Tensor], full_NG: Tensor | None) -> Joined:
    state_NG = torch.cat(list(parts), 1)
    if full_NG is None or _is(state_NG, full_NG, parts[0].dtype):
        return Joined(Held.COLUMNS, state_NG)
    orders = permutations(range(len(parts))) if len(parts) <= PERMUTATIONS else ()
    other = next((o for o in orders if _is(torch.cat([parts[i] for i in o], 1), full_NG, parts[0].dtype)), None)
    raise _refused("the columns in rank order are not the full state" + ("" if other is None else f"; in the order {list(other)} they are"))


def _same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _is(x_NG: Tensor, full_NG: Tensor, dtype: torch.dtype) -> bool:
    """Equal up to rounding, in every row. NaN is never equal."""
    apart_N = (x_NG.double() - full_NG.double()).norm(dim=1)
    allowed_N = ROUNDING * torch.finfo(dtype).eps * full_NG.double().norm(dim=1)
    return bool((apart_N <= allowed_N).all())


def _refused(message: str) -> InputRejected:
    return spool_error("shards", message)
