"""One training sample in memory, whatever container it came in, and the checks that every container goes through.

Legend: T tokens, K states, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from contract.errors import InputRejected
from contract.findings import Where
from contract.numerics.finite import all_finite
from eagle3_contract.model.states import Recipe, State

WHOLE: Final = frozenset({torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8, torch.bool})
STATES: Final = frozenset({torch.float32, torch.bfloat16, torch.float16})
MOST_STATES: Final = 1024
"""States of one sample. Each is compared with each (``trainers.measure.repeated``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """What one sample fed the drafter.

    Attributes:
        name: how messages and the contract's manifest call it: the file's name, relative to the samples' folder.
        file: the path it was read from.
        format: the container, as ``trainers.sample_formats`` names it.
        input_ids_T: [T] int64, unshifted.
        loss_mask_T: [T] uint8, 0 or 1; None if the container has none (``notes`` then says where it is).
        states_THk: K tensors [T, G] in stored order, which is concatenation order.
        last_TG: [T, G] the state that the training target was computed from; None if it is not stored.
        boundaries: which states these are, if the file says so.
        last: which state the last one is, if the file says so.
        document_ids_T: [T] int64 document of each token, -1 = padding; None for a single document.
        extras: further tensors by their stored names.
        notes: what a reader should know.
    """

    name: str
    file: str
    format: str
    input_ids_T: Tensor
    loss_mask_T: Tensor | None
    states_THk: tuple[Tensor, ...]
    last_TG: Tensor | None = None
    boundaries: Recipe | None = None
    last: State | None = None
    document_ids_T: Tensor | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """T."""
        return self.input_ids_T.shape[0]

    def fc_input(self, picked: tuple[int, ...] | None = None) -> Tensor:
        """[T, K*G] the states concatenated; ``picked`` chooses and orders them by their index in the sample."""
        chosen = range(len(self.states_THk)) if picked is None else picked
        return torch.cat([self.states_THk[i] for i in chosen], dim=-1)


class SampleRejected(InputRejected):
    """A sample that cannot be used; ``rule`` is ``samples.<what>``."""


def rejected(
    what: str, message: str, file: str, fix: str = "Write the sample again, or leave it out of the contract's list."
) -> SampleRejected:
    """The error for one sample."""
    return SampleRejected(f"{file}: {message}", rule=f"samples.{what}", fix=fix, where=Where(file=file))


def token_row(value: Tensor, key: str, file: str) -> Tensor:
    """[T] int64 token ids from [T] or [1, T]. Raises SampleRejected."""
    ids = _row(value, key, file).to(torch.int64)
    if ids.numel() == 0:
        raise rejected("empty", f"{key} has no tokens", file)
    if int(ids.min()) < 0:
        raise rejected("token-ids", f"{key} holds the negative id {int(ids.min())}", file)
    return ids


def mask_row(value: Tensor, key: str, tokens: int, file: str) -> Tensor:
    """[T] uint8 loss mask of 0 and 1 from [T], [1, T] or [T, 1]. Raises SampleRejected."""
    if value.is_floating_point() and bool(((value == 0) | (value == 1)).all()):
        value = value.to(torch.uint8)
    mask = _row(value.squeeze(-1) if value.ndim > 1 and value.shape[-1] == 1 else value, key, file)
    same_length(mask, key, tokens, file)
    if mask.numel() and not {int(v) for v in torch.aminmax(mask)} <= {0, 1}:
        raise rejected("mask-values", f"{key} holds values other than 0 and 1", file)
    return mask.to(torch.uint8)


def state_rows(value: Tensor, key: str, tokens: int, file: str) -> Tensor:
    """[T, width] finite states from [T, width] or [1, T, width]. Raises SampleRejected."""
    if value.dtype not in STATES:
        raise rejected("dtype", f"{key} is {value.dtype}; states are float32, bfloat16 or float16", file)
    rows = value[0] if value.ndim == 3 and value.shape[0] == 1 else value
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise rejected("shape", f"{key} has shape {list(value.shape)}; [tokens, width] is due", file)
    same_length(rows, key, tokens, file)
    if not all_finite(rows):
        bad = (~torch.isfinite(rows)).any(-1)
        at = int(bad.nonzero()[0])
        raise rejected("not-finite", f"{key} holds NaN or infinity in {int(bad.sum())} of {tokens} rows, the first at row {at}", file)
    return rows


def require_states(count: int, key: str, file: str) -> None:
    """Raises SampleRejected for more states than a target has layers, before any of them is looked at."""
    if count > MOST_STATES:
        raise rejected("shape", f"{key} holds {count} states; no target has more than {MOST_STATES} layers", file)


def split_states(fused: Tensor, width: int, key: str, file: str) -> tuple[Tensor, ...]:
    """K states [T, G] of a concatenation [T, K*G]; views, nothing is copied. Raises SampleRejected."""
    if fused.shape[1] % width:
        raise rejected("shape", f"{key} is {fused.shape[1]} wide, which is no multiple of a state's {width}", file)
    require_states(fused.shape[1] // width, key, file)
    return torch.split(fused, width, dim=-1)


def same_length(value: Tensor, key: str, tokens: int, file: str) -> None:
    """Raises SampleRejected unless the first dimension is ``tokens``."""
    if value.shape[0] != tokens:
        raise rejected("length", f"{key} has {value.shape[0]} rows for {tokens} tokens", file)


def _row(value: Tensor, key: str, file: str) -> Tensor:
    if value.dtype not in WHOLE:
        raise rejected("dtype", f"{key} is {value.dtype}; whole numbers are due", file)
    row = value[0] if value.ndim == 2 and value.shape[0] == 1 else value
    if row.ndim != 1:
        raise rejected("shape", f"{key} has shape {list(value.shape)}; one row of tokens is due", file)
    return row
