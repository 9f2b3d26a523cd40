"""The digest of every listed file, at ``--integrity digests``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.errors import UserError
from contract.findings import Check, Rule, Severity, check_from_error
from eagle3_contract.check.context import CheckContext, Integrity

DIGEST: Final = Rule(
    id="drafter.digest",
    title="Every file of the drafter is, byte for byte, the one that the contract lists",
    severity=Severity.ERROR,
    dimension="files",
    why="Shapes and dtypes stay the same when a later checkpoint, another training run or a damaged copy takes the place of the file.",
    remedy="Fetch the file of the contract again, or record the new digest after verifying the new file.",
)
RULES: Final = (DIGEST,)


def check_digests(ctx: CheckContext) -> Iterator[Check]:
    """One check per listed file; skipped below ``digests``."""
    if ctx.integrity < Integrity.DIGESTS or ctx.drafter.digest is None:
        yield DIGEST.skipped(f"digests are compared at --integrity digests only ({len(ctx.contract.drafter.files)} files listed)")
        return
    for name in ctx.contract.drafter.files:
        if name in ctx.drafter.files:
            yield _one(ctx, name)


def _one(ctx: CheckContext, name: str) -> Check:
    assert ctx.drafter.digest is not None
    stated, where = ctx.stated("drafter", "files", name), ctx.place("drafter", "files", name)
    if not stated.known:
        return DIGEST.undecided(f"the contract does not know the digest of {name}: {stated.reason}", where=where)
    try:
        actual = ctx.drafter.digest(name)
    except UserError as error:
        return check_from_error(error)
    if actual == stated.value:
        return DIGEST.passed(f"{name} has the digest of the contract", expected=stated.value, actual=actual)
    return DIGEST.failed(
        f"{name} is not the file of the contract: its digest is {actual}", expected=stated.value, actual=actual, where=where
    )
