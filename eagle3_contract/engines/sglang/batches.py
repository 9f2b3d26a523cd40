"""Which rows of a forward belong to which request.

SGLang 0.5.23 lays a batch out request after request (model_executor/forward_batch_info.py): an extend has ``extend_seq_lens`` rows of
each, a verification and the extend that follows it as many as there are draft tokens, a decode ``topk`` rows of each while drafting and
one otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

PREFILL_MODES: Final = frozenset({"EXTEND", "MIXED"})
EXTEND_MODES: Final = PREFILL_MODES | {"DRAFT_EXTEND_V2", "DRAFT_EXTEND"}


class LayoutError(RuntimeError):
    """The rows of a forward are not what its mode says."""


def row_counts(forward_batch: Any, requests: int, rows: int) -> list[int]:
    """Rows of each request, in the order of the batch.

    Args:
        forward_batch: SGLang's ForwardBatch.
        requests: how many there are in the batch.
        rows: how many rows the forward runs.

    Raises:
        LayoutError: they do not add up.
    """
    mode = forward_batch.forward_mode.name
    if mode in EXTEND_MODES:
        counts = [int(n) for n in extend_lengths(forward_batch)]
    else:
        counts = [rows // requests] * requests if requests else []
    if len(counts) != requests or sum(counts) != rows:
        raise LayoutError(f"a forward of mode {mode} ran {rows} rows for {requests} requests: {counts}")
    return counts


def extend_lengths(forward_batch: Any) -> Sequence[Any]:
    """``extend_seq_lens`` of a batch, from its copy on the CPU where there is one."""
    held = forward_batch.extend_seq_lens_cpu
    if held is None:
        held = forward_batch.extend_seq_lens
    return held.tolist() if hasattr(held, "tolist") else list(held)


def spans(counts: Sequence[int]) -> list[slice]:
    """The rows of each request as slices."""
    found, at = [], 0
    for count in counts:
        found.append(slice(at, at + count))
        at += count
    return found
