"""The rules of ``contract diff``: one for each area of the contract, one for what breaks nothing, and those of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from contract.findings import Rule, Severity
from eagle3_contract.diff.table import AREAS

_DIMENSIONS: Final[Mapping[str, str]] = {
    "recipe": "recipe", "wiring": "wiring", "vocab": "vocab", "alignment": "alignment", "tensors": "shapes", "target": "pairing",
    "files": "files", "metrics": "metric", "acceptance": "metric", "golden": "wiring", "serving": "flags",
}  # fmt: skip
_NOUNS: Final[Mapping[str, str]] = {
    "contract": "its kind", "files": "the drafter's files", "target": "the target", "recipe": "the recipe", "vocab": "the vocab map",
    "wiring": "the wiring", "alignment": "the alignment", "tensors": "the tensors", "training": "how the drafter was trained",
    "metrics": "what accuracy is claimed", "samples": "the samples", "golden": "the golden rows", "serving": "how it is served",
    "acceptance": "what acceptance is expected", "tolerances": "the tolerances",
}  # fmt: skip
_WHY: Final = (
    "Whoever relied on the old contract (an engine that serves the drafter, a pipeline that gates on its figures) is not served by the "
    "new one, and nothing else would say so: the server stays healthy, only acceptance falls. Which change of which field breaks, and "
    "why, is the table in docs/diff.md."
)
AREA_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        area: Rule(
            id=f"diff.{area}",
            title=f"No change of {_NOUNS[area]} breaks what the old contract promised",
            severity=Severity.ERROR,
            dimension=_DIMENSIONS.get(area, "contract"),
            why=_WHY,
            remedy="Release it as another drafter, and tell those who serve the old one; or restore the old value if it was not meant.",
        )
        for area in AREAS
    }
)
COMPATIBLE: Final = Rule(
    id="diff.compatible",
    title="Changes that break nothing are listed",
    severity=Severity.NOTE,
    dimension="contract",
    why="A reviewer wants to see every change; this one leaves those who rely on the old contract as well served as before.",
    remedy="Nothing to do.",
    depth=None,
)
UNCOMPARABLE: Final = Rule(
    id="diff.uncomparable",
    title="What is compared is known on one side at least",
    severity=Severity.WARNING,
    dimension="contract",
    why="A digest that is unknown in both contracts never compares equal: the two may speak of different files.",
    remedy="State the digest, so that the next comparison can see a change.",
    depth=None,
)


def _source(name: str, title: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"diff.{name}", title=title, severity=Severity.ERROR, dimension="tool", why=why, remedy=remedy)


GIT_SOURCE: Final = _source(
    "git-source",
    "A contract in git is named git:REV:path",
    "Another spelling could make git read an option, or a file outside the repository.",
    "Write git:REV:path, such as git:HEAD~1:contract.yaml; the path starts at the top of the repository, or with ./ here.",
)
GIT_MISSING: Final = _source(
    "git-missing",
    "git is there when a contract is to be read from it",
    "The old contract is read with the git program.",
    "Install git, or name two files.",
)
GIT_FAILED: Final = _source(
    "git-failed",
    "git finds the revision and the file in it",
    "Without the old contract nothing can be compared.",
    "Check revision and path with `git log -- PATH`; in a shallow clone fetch the revision first.",
)
RULES: Final = (*AREA_RULES.values(), COMPATIBLE, UNCOMPARABLE, GIT_SOURCE, GIT_MISSING, GIT_FAILED)
