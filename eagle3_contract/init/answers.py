"""``--set FIELD=VALUE``: answers typed by the contract's own Structs, as they would stand in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from contract.errors import InputRejected, UsageError
from contract.source import parse_yaml
from contract.statement import Fact, fact
from contract.structs import load_typed
from eagle3_contract.init.ledger import plain_value
from eagle3_contract.init.rules import BAD_ANSWER, UNKNOWN_FIELD
from eagle3_contract.model.fields import STATED_ONE_BY_ONE, nearest, type_of

NOTE = "answered with --set"


def read_answers(settings: Mapping[str, str]) -> dict[str, Fact]:
    """Contract path to the answer, with the evidence ``declared`` where the answer names none.

    Raises:
        UsageError: ``init.unknown-field`` with the nearest names, ``init.bad-answer`` with what is expected.
    """
    return {path: _answer(path, text) for path, text in settings.items()}


def _answer(path: str, text: str) -> Fact:
    type_ = type_of(path)
    if type_ is None or path in STATED_ONE_BY_ONE:
        near = nearest(path)
        raise UsageError(
            f"--set {path}: the contract has no such field to answer",
            rule=UNKNOWN_FIELD.id,
            fix=f"Did you mean {' or '.join(near)}?" if near else "See `contract schema` for the fields.",
        )
    value = _typed(path, text, type_)
    known = fact(value)
    if not known.known:
        return Fact(known=False, reason=known.reason, note=known.note)
    return Fact(
        known=True, value=plain_value(msgspec.to_builtins(known.value)), evidence=known.evidence or "declared", note=known.note or NOTE
    )


def _typed(path: str, text: str, type_: Any) -> Any:
    holder: Any = msgspec.defstruct("Answer", [("value", type_)], forbid_unknown_fields=True)
    try:
        return load_typed(parse_yaml(f"value: {text}", file=f"--set {path}"), holder).value
    except InputRejected as error:
        plain = _as_string(path, text, holder)
        if plain is not None:
            return plain
        raise _bad(path, text, error) from error


def _as_string(path: str, text: str, holder: Any) -> str | None:
    """The text itself, where the field takes any string: a revision may look like a number."""
    try:
        quoted = msgspec.json.encode(text).decode()
        value: Any = load_typed(parse_yaml(f"value: {quoted}", file=f"--set {path}"), holder).value
    except InputRejected:
        return None
    return value if isinstance(value, str) else None


def _bad(path: str, text: str, error: InputRejected) -> UsageError:
    said = error.message.removeprefix("value: ")
    return UsageError(f"--set {path}={text}: {said}", rule=BAD_ANSWER.id, fix=error.fix or BAD_ANSWER.remedy)
