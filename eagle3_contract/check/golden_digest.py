"""The golden rows are, byte for byte, those that the contract was written with; only where it states their digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.errors import UserError
from contract.files.paths import Folder
from contract.findings import Check, Rule, Severity
from contract.limits import MIB
from eagle3_contract.check.context import Integrity
from eagle3_contract.model.load import LoadedContract

GOLDEN_DIGEST: Final = Rule(
    id="golden.digest",
    title="The golden rows are, byte for byte, the file whose digest the contract states",
    severity=Severity.ERROR,
    dimension="files",
    why="Rows that were cut prove a shorter prefix, rows that were made anew prove whatever made them, and a bit that flips within the "
    "tolerance is noticed by no comparison. A contract of an earlier version states no digest; then nothing is said.",
    remedy="Fetch the file of the contract again; where the rows were made anew on purpose, state their digest.",
)
RULES: Final = (GOLDEN_DIGEST,)
AT_ONCE_BYTES: Final = 64 * MIB
"""A file up to this size is hashed at every integrity; a larger one at ``digests``."""


def check_golden_digest(loaded: LoadedContract, integrity: Integrity) -> Iterator[Check]:
    """One check if the contract states the digest of its golden rows, none otherwise."""
    golden = loaded.contract.golden
    if golden is None or golden.sha256 is None:
        return
    where = loaded.document.where("golden.sha256")
    try:
        with Folder(loaded.folder) as folder, folder.open(golden.file) as rows:
            if rows.size > AT_ONCE_BYTES and integrity < Integrity.DIGESTS:
                yield GOLDEN_DIGEST.skipped(f"{golden.file} is large; its digest is compared at --integrity digests")
                return
            actual = f"sha256:{rows.sha256()}"
    except UserError as error:
        yield GOLDEN_DIGEST.failed(f"the golden rows {golden.file} cannot be read: {error.message}", where=where, expected=golden.sha256)
        return
    if actual == golden.sha256:
        yield GOLDEN_DIGEST.passed(f"{golden.file} has the digest of the contract", expected=golden.sha256, actual=actual)
    else:
        text = f"{golden.file} is not the file that the contract was written with"
        yield GOLDEN_DIGEST.failed(text, where=where, expected=golden.sha256, actual=actual)
