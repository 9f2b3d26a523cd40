"""The rules about capture bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.errors import InputRejected
from contract.findings import Rule, Severity, Where

_AGAIN = "Capture again; a bundle is written whole or not at all, so that a damaged one was copied or edited badly."

# fmt: off
_TABLE: Final[tuple[tuple[str, str, str, str], ...]] = (
    # id after "bundle.", title (true when all is well), why, remedy
    ("exists", "The place for a new bundle is free",
     "A capture that is mixed with an older one proves nothing.",
     "Name another place with -o, or remove the old bundle."),
    ("incomplete", "The bundle is complete",
     "The manifest is written last: without it, or with complete: false, the capture was cut off and rows may be missing.",
     _AGAIN),
    ("manifest", "The manifest is what docs/bundle-format.md says",
     "An unknown key may carry a meaning that this version does not know; a missing one would have to be guessed.",
     "Write the bundle with the version that reads it, or mend its writer."),
    ("version", "The bundle's schema version is known",
     "Another version may mean something else by the same words.",
     "Read it with a newer version of this tool."),
    ("closed-world", "The files in the folder are the files in the manifest",
     "A file too many may be the real capture, a file too few is a request that nobody compares.",
     _AGAIN),
    ("digest", "Every file has the digest that the manifest gives",
     "A file that changed after the capture is no evidence of what the engine fed.",
     _AGAIN),
    ("request", "Requests have unique ids and files of their own",
     "Requests are paired with training samples by id.",
     "Give every request an id of its own."),
    ("tensors", "Every request holds the tensors that the manifest lists, with these shapes and dtypes, and no others",
     "A missing slot or a tensor of another length cannot be compared, and skipping it would hide the fault.",
     _AGAIN),
)
# fmt: on

RULES: Final[Mapping[str, Rule]] = {
    f"bundle.{name}": Rule(id=f"bundle.{name}", title=title, severity=Severity.ERROR, dimension="files", why=why, remedy=remedy)
    for name, title, why, remedy in _TABLE
}
"""Every rule about bundles by id."""


def rejected(rule: str, message: str, *, where: Where | None = None, fix: str | None = None) -> InputRejected:
    """The exception for a bundle that cannot be used."""
    return InputRejected(message, rule=rule, fix=fix or RULES[rule].remedy, where=where)
