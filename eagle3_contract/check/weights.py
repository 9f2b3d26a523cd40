"""Sampled weights, from ``--integrity values`` on: what no trained tensor looks like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from contract.errors import UserError
from contract.findings import Check, Rule, Severity, Where, check_from_error
from eagle3_contract.check.context import CheckContext, Integrity, StoredTensor
from eagle3_contract.drafter.names import EMBEDDING, HEAD, canonical_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

FINITE: Final = Rule(
    id="weights.finite",
    title="No sampled weight is NaN or infinite",
    severity=Severity.ERROR,
    dimension="weights",
    why="One NaN in fc or a norm makes every draft token 0 (observed on vLLM 0.32.0); float16 exports of bfloat16 training overflow to "
    "infinity.",
    remedy="Export again from a checkpoint with finite weights, in a dtype that holds them.",
)
ALIVE: Final = Rule(
    id="weights.alive",
    title="No tensor is all zeros or one value throughout",
    severity=Severity.WARNING,
    dimension="weights",
    why="Zeros are a tensor that was allocated and never written, a norm of ones one that was never trained.",
    remedy="Check the export of this tensor.",
)
TRAINED: Final = Rule(
    id="weights.trained",
    title="Embedding and head do not look like a random initialisation",
    severity=Severity.WARNING,
    dimension="weights",
    why="TorchSpec#38: an export that skipped the embedding saved the random init; SGLang replaces it, vLLM does not. Rows of a random "
    "init all have the same norm; rows of a trained table do not.",
    remedy="Export again with the trained tensor.",
)
SUBNORMAL: Final = Rule(
    id="weights.magnitude",
    title="Weights are not mostly below the smallest normal number",
    severity=Severity.ERROR,
    dimension="weights",
    why="Uninitialised memory read as floats is full of subnormal numbers; so is a tensor that was cast through a narrower dtype.",
    remedy="Check the export of this tensor.",
)
DEAD: Final = Rule(
    id="weights.dead",
    title="fc and the drafter's own head are not one value throughout",
    severity=Severity.ERROR,
    dimension="weights",
    why="Through an fc of one value no target state reaches the drafter as itself, and a head of one value gives every token the same "
    "logit: such a drafter cannot draft. Every byte was read to say so (`--integrity digests`); on sampled rows `weights.alive` warns.",
    remedy="Export again: the tensor was allocated and never written.",
)
RULES: Final = (FINITE, ALIVE, DEAD, TRAINED, SUBNORMAL)
DECIDING: Final = frozenset({"fc.weight", HEAD})
"""Without these nothing can be drafted. A norm of ones and an embedding that the engine replaces are found in real checkpoints."""

RANDOM_SPREAD: Final = 1.5
"""Row norms of Gaussian rows of width H spread by 1/sqrt(2H) of their mean; below this multiple of it rows count as random."""
MIN_ROWS: Final = 16
SMALLEST_NORMAL: Final = 1.1754943508222875e-38


def check_weights(ctx: CheckContext) -> Iterator[Check]:
    """One look at each float tensor; skipped at ``headers``."""
    sample = ctx.drafter.sample
    if ctx.integrity < Integrity.VALUES or sample is None:
        for rule in RULES:
            yield rule.skipped("weights are sampled from --integrity values on")
        return
    for tensor in ctx.drafter.tensors:
        try:
            rows, everywhere = sample(tensor), _everywhere(ctx, tensor)
        except UserError as error:
            yield check_from_error(error)
            continue
        if rows is not None and rows.size:
            yield from _look(tensor, rows, everywhere)
        if ctx.integrity >= Integrity.DIGESTS and ctx.drafter.constant is not None and canonical_name(tensor.name) in DECIDING:
            yield from _dead(ctx, tensor)


def _dead(ctx: CheckContext, tensor: StoredTensor) -> Iterator[Check]:
    """Whether a tensor that decides the draft is one value; an engine that does not use it does not mind."""
    assert ctx.drafter.constant is not None
    name = canonical_name(tensor.name)
    used = ctx.value("tensors", name, "used") if name in ctx.contract.tensors else None
    if used not in (None, "own"):
        yield DEAD.skipped(f"{tensor.name} is not used: the contract says {used}")
    elif ctx.drafter.constant(tensor):
        yield DEAD.failed(f"every value of {tensor.name} is the same", where=Where(file=tensor.file, tensor=tensor.name))
    else:
        yield DEAD.passed(f"{tensor.name} is more than one value")


def _everywhere(ctx: CheckContext, tensor: StoredTensor) -> int | None:
    """Non-finite values of the whole tensor, where every byte is read anyway."""
    if ctx.integrity < Integrity.DIGESTS or ctx.drafter.not_finite is None:
        return None
    return ctx.drafter.not_finite(tensor)


def _look(tensor: StoredTensor, rows_RH: NDArray[Any], everywhere: int | None) -> Iterator[Check]:
    import numpy as np

    where = Where(file=tensor.file, tensor=tensor.name)
    bad = int(rows_RH.size - np.isfinite(rows_RH).sum())
    if everywhere:
        yield FINITE.failed(f"{everywhere} values of {tensor.name} are NaN or infinite", actual=everywhere, expected=0, where=where)
    elif bad:
        yield FINITE.failed(
            f"{bad} of {rows_RH.size} sampled values of {tensor.name} are NaN or infinite", actual=bad, expected=0, where=where
        )
    else:
        which = f"{rows_RH.size} sampled" if everywhere is None else "all"
        yield FINITE.passed(f"{which} values of {tensor.name} are finite")
    if bad:
        return  # nothing else can be said of such rows
    low, high = float(rows_RH.min()), float(rows_RH.max())
    if low == high:
        yield ALIVE.failed(f"every sampled value of {tensor.name} is {low:g}", actual=low, where=where)
    else:
        yield ALIVE.passed(f"{tensor.name} has values from {low:.4g} to {high:.4g}")
    tiny = int(((np.abs(rows_RH) < SMALLEST_NORMAL) & (rows_RH != 0)).sum())
    if tiny * 2 > rows_RH.size:
        yield SUBNORMAL.failed(f"{tiny} of {rows_RH.size} sampled values of {tensor.name} are subnormal", actual=tiny, where=where)
    if canonical_name(tensor.name) in (EMBEDDING, HEAD) and rows_RH.ndim == 2 and len(rows_RH) >= MIN_ROWS and low < high:
        yield _trained(tensor, rows_RH, where)


def _trained(tensor: StoredTensor, rows_RH: NDArray[Any], where: Where) -> Check:
    import numpy as np

    norms_R = np.linalg.norm(rows_RH.astype(np.float64), axis=1)
    spread = float(norms_R.std() / norms_R.mean()) if norms_R.mean() else 0.0
    chance = 1.0 / (2 * rows_RH.shape[1]) ** 0.5
    if spread < RANDOM_SPREAD * chance:
        return TRAINED.failed(
            f"the row norms of {tensor.name} spread by {spread:.4f} of their mean; a random initialisation of this width gives "
            f"{chance:.4f}",
            actual=spread,
            where=where,
        )
    return TRAINED.passed(
        f"the row norms of {tensor.name} spread by {spread:.3f} of their mean, a random initialisation gives {chance:.3f}"
    )
