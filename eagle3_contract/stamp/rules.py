"""The rules of a trainer's stamp."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity

MALFORMED: Final = Rule(
    id="stamp.malformed",
    title="A stamp is what its format says",
    severity=Severity.ERROR,
    dimension="files",
    why="A stamp that is read in a lenient way could declare anything.",
    remedy="Write it with contract_stamp.py, as docs/stamp.md says.",
)
FIELD: Final = Rule(
    id="stamp.field",
    title="A stamp declares fields that the contract has, with values that they can have",
    severity=Severity.ERROR,
    dimension="contract",
    why="A misspelt field would be lost, and the contract would leave open, or fill from elsewhere, what the trainer knew.",
    remedy="Correct the name or the value where the trainer calls `stamp`; the fields are those of `contract schema`.",
)
GOLDEN: Final = Rule(
    id="stamp.golden",
    title="The golden rows beside a stamp are those that it was written with",
    severity=Severity.ERROR,
    dimension="files",
    why="Rows of another run prove another drafter.",
    remedy="Stamp the drafter again.",
)
WEIGHTS: Final = Rule(
    id="stamp.weights",
    title="The weights beside a stamp are those that it was written for",
    severity=Severity.WARNING,
    dimension="files",
    why="The checkpoint was exported, converted or trained further after it was stamped. The declarations may still hold; the golden rows "
    "show whether the forward does (`contract verify`).",
    remedy="Stamp the drafter where it is saved last, or verify its golden rows.",
    depth=None,
)
RULES: Final = (MALFORMED, FIELD, GOLDEN, WEIGHTS)
