"""Values of a server's JSON, each of the type that it must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contract.files.names import shown
from contract.findings import Json
from eagle3_contract.verify.server.rules import rejected

LONGEST: Final = 4096
"""Characters of a name that is looked at."""


def mapping(value: Json, what: str) -> Mapping[str, Any]:
    """A JSON object. Raises InputRejected (``server.answer``)."""
    if not isinstance(value, dict):
        raise rejected("server.answer", f"{what}: the answer is no JSON object")
    return value


def text(value: Json) -> str | None:
    """A text that is not empty, cut to what is looked at; None for everything else."""
    return value[:LONGEST] if isinstance(value, str) and value else None


def count(value: Json, limit: int = 2**31) -> int | None:
    """A whole number from 0 to below ``limit``; None for everything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit else None


def flag(value: Json) -> Json:
    """A flag's value as readings may look at it and messages say it: texts without anything that acts."""
    return shown(value, LONGEST) if isinstance(value, str) else value


def token_ids(value: Json, what: str, most: int) -> Sequence[int]:
    """Token ids; an engine that does not give any gives None.

    Raises:
        InputRejected: ``server.answer`` if there are other things among them, or more than were asked for.
    """
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most or any(count(i) is None for i in value):
        raise rejected("server.answer", f"{what}: the tokens of the answer are no list of at most {most} token ids")
    return tuple(value)
