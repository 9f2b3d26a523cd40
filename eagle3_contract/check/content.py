"""What is in the drafter's own embedding and head: the target's rows, or something of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from contract.errors import UserError
from contract.findings import Check, Rule, Severity, Where, check_from_error
from eagle3_contract.check.context import CheckContext, Integrity, StoredTensor
from eagle3_contract.check.open_drafter import spread
from eagle3_contract.drafter.names import EMBEDDING, HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONTENT: Final = Rule(
    id="tensors.content",
    title="The drafter's own embedding and head hold what the contract says",
    severity=Severity.ERROR,
    dimension="weights",
    why="A `target_copy` that is none is a random init that an export saved (TorchSpec#38): SGLang replaces it, vLLM serves it. A head "
    "of `target_rows` whose rows are picked by offsets instead of ids is TorchSpec's prune (convert_to_hf.py:235).",
    remedy="Export again from the trained drafter, or correct `content` in the contract.",
)
RULES: Final = (CONTENT,)
ROWS: Final = 64
SAME_ROW: Final = 2.0**-7
"""Rows count as the same within this share of their largest value: a cast to bfloat16 costs 2^-9."""


def check_content(ctx: CheckContext) -> Iterator[Check]:
    """Embedding and head, where stored and where the contract says what is in them."""
    facts = ctx.target
    if ctx.integrity < Integrity.VALUES or facts is None or facts.rows is None or ctx.drafter.rows is None:
        yield CONTENT.skipped("rows are compared from --integrity values on, with a --target that has its weights")
        return
    for name in (EMBEDDING, HEAD):
        tensor = ctx.by_name.get(name)
        if tensor is not None and name in ctx.contract.tensors and len(tensor.shape) == 2 and min(tensor.shape) > 0:
            try:
                yield _one(ctx, name, tensor)
            except UserError as error:
                yield check_from_error(error, dimension="weights")


def _one(ctx: CheckContext, name: str, tensor: StoredTensor) -> Check:
    assert ctx.target is not None
    assert ctx.target.rows is not None
    assert ctx.drafter.rows is not None
    stated, place = ctx.stated("tensors", name, "content"), ctx.place("tensors", name, "content")
    where = Where(file=tensor.file, tensor=tensor.name)
    rows = spread(tensor.shape[0], ROWS)
    picked = _target_ids(ctx, name, rows)
    own_RH = ctx.drafter.rows(tensor, rows)
    theirs_RH = None if picked is None else ctx.target.rows(name, picked)
    comparable = own_RH is not None and theirs_RH is not None and own_RH.shape == theirs_RH.shape
    if not stated.known:
        seen = f"; the sampled rows are {_resemblance(own_RH, theirs_RH)}" if comparable else ""
        return CONTENT.undecided(f"the contract does not say what {name} holds: {stated.reason}{seen}", required=False, where=place)
    if own_RH is None or theirs_RH is None or not comparable:
        if stated.value == "independent":
            return CONTENT.passed(f"{tensor.name} has no row in the target's table to be a copy of")
        return CONTENT.failed(
            f"{tensor.name} cannot be {stated.value}: the target has no such rows", actual=list(tensor.shape), where=where
        )
    equal = _equal_rows(own_RH, theirs_RH)
    if stated.value == "independent":
        if all(equal):
            return CONTENT.failed(
                f"{tensor.name} holds the target's rows, the contract says independent", expected="independent", where=where
            )
        return CONTENT.passed(f"{equal.count(True)} of {len(rows)} sampled rows of {tensor.name} are the target's")
    if all(equal):
        return CONTENT.passed(f"{len(rows)} sampled rows of {tensor.name} are the target's", expected=stated.value)
    other = rows[equal.index(False)]
    return CONTENT.failed(
        f"the contract says that {name} is {stated.value}; {equal.count(False)} of {len(rows)} sampled rows are not the target's "
        f"(first: {other}): {_resemblance(own_RH, theirs_RH)}",
        expected=stated.value,
        actual=f"{equal.count(True)} of {len(rows)} rows equal",
        where=Where(file=tensor.file, tensor=tensor.name, row=other),
    )


NEAR: Final = 0.5
"""Rows of two checkpoints of one model have a cosine near 1; unrelated rows of width H one of about 1/sqrt(H)."""


def _resemblance(own_RH: Any, theirs_RH: Any) -> str:
    """What rows look like beside the target's: its own, those of another checkpoint of it, or nothing of the kind."""
    import numpy as np

    a_RH, b_RH = own_RH.astype(np.float64), theirs_RH.astype(np.float64)
    with np.errstate(all="ignore"):  # rows may hold infinities; whatever comes of them resembles nothing
        norms_R = np.linalg.norm(a_RH, axis=1) * np.linalg.norm(b_RH, axis=1)
        cosine = float(np.median((a_RH * b_RH).sum(1) / np.where(norms_R > 0, norms_R, 1.0)))
    if all(_equal_rows(own_RH, theirs_RH)):
        return "the target's"
    kind = "stale: rows of another checkpoint of this target" if cosine >= NEAR else "random: nothing of the target's"
    return f"{kind} (median cosine {cosine:.2f})"


def _target_ids(ctx: CheckContext, name: str, rows: Sequence[int]) -> list[int] | None:
    """The target's row behind each row of the drafter: itself in the embedding, through the vocab map in the head."""
    if name == EMBEDDING or ctx.drafter.d2t is None:
        return list(rows)
    d2t = ctx.drafter.d2t
    if d2t.ndim != 1 or len(d2t) <= max(rows) or d2t.dtype.kind not in "iu":
        return None
    offset = ctx.value("vocab", "map") != "absolute"
    return [int(d2t[i]) + (i if offset else 0) for i in rows]


def _equal_rows(own_RH: NDArray[Any], theirs_RH: NDArray[Any]) -> list[bool]:
    import numpy as np

    a_RH, b_RH = own_RH.astype(np.float32), theirs_RH.astype(np.float32)
    return [bool(np.abs(a - b).max() <= SAME_ROW * np.abs(b).max()) for a, b in zip(a_RH, b_RH, strict=True)]
