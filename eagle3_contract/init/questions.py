"""What is still open: the questions that decide recipe and arithmetic, each with the answer's form; and the others in one note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from contract.findings import Check, Where
from eagle3_contract.init.ledger import Ledger, text_of
from eagle3_contract.init.rules import NOT_KNOWN, OPEN
from eagle3_contract.model.fields import field_types
from eagle3_contract.model.states import recipe_text
from eagle3_contract.trainers.reading import BOUNDARIES, Candidate

_DECIDES: Final = ("wiring.", "alignment.")
_DECIDES_TOO: Final = frozenset(
    {
        BOUNDARIES, "target.hidden_size", "target.layers", "vocab.draft_size", "vocab.target_size", "vocab.present", "vocab.map",
        "training.rollout",
    }
)  # fmt: skip
_FORMS: Final = {
    BOUNDARIES: "'[BOUNDARY, ...]'",
    "target.layers": "NUMBER",
    "training.rollout": "teacher|own_argmax",
    "wiring.rope.theta": "NUMBER",
}
"""What an answer looks like where no candidate shows it."""


def decides(path: str) -> bool:
    """Whether a field decides recipe or arithmetic, so that nothing can be verified while it is unknown."""
    return path.startswith(_DECIDES) or path in _DECIDES_TOO


def questions(ledger: Ledger, candidates: Sequence[Candidate], trainer: str) -> Iterator[Check]:
    """A failed check per open question that decides something, then one note for all others."""
    unknown = [p for p in field_types() if p in ledger.facts and not ledger.facts[p].known]
    deciding = [p for p in unknown if decides(p)]
    for path in deciding:
        yield OPEN.failed(
            f"{path} is not known: {ledger.facts[path].reason}",
            actual="unknown",
            where=Where(key=path),
            fix=_fix(ledger, path, candidates),
            evidence=_evidence(ledger, path, candidates),
        )
    if not deciding:
        yield OPEN.passed("everything that decides recipe and arithmetic is stated")
    rest = [p for p in unknown if p not in deciding]
    if rest:
        named = "; ".join(f"{p}: {ledger.facts[p].reason}" for p in rest)
        yield NOT_KNOWN.failed(
            f"{len(rest)} statements are unknown, and none of them decides the arithmetic: {named}",
            fix="Answer what you know: " + " ".join(f"--set {p}=..." for p in rest),
            evidence={"unknown": {p: ledger.facts[p].reason for p in rest}, "trainer": trainer},
        )


def _fix(ledger: Ledger, path: str, candidates: Sequence[Candidate]) -> str:
    if path == BOUNDARIES:
        forms = [f"--set {path}={recipe_text(c.recipe)} ({c.convention})" for c in candidates]
        answer = " or ".join(forms) if forms else f"--set {path}={_FORMS[path]}"
        return f"Give --samples with --target, which measures it, or answer {answer}."
    if path in ledger.likely:
        return f"Answer --set {path}={_typed(ledger.likely[path])} if that is what training used (likely, not known), or another value."
    return f"Answer --set {path}={_FORMS.get(path, 'VALUE')}."


def _typed(value: Any) -> str:
    return "'{" + ", ".join(f"{k}: {text_of(v)}" for k, v in value.items()) + "}'" if isinstance(value, dict) else text_of(value)


def _evidence(ledger: Ledger, path: str, candidates: Sequence[Candidate]) -> dict[str, Any]:
    if path == BOUNDARIES:
        return {"candidates": [{"recipe": list(c.recipe), "convention": c.convention} for c in candidates]}
    return {"likely": ledger.likely[path]} if path in ledger.likely else {}
