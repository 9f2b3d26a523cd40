"""The steps from one version of the contract file to the next. A step is never changed after its release: old contracts need it as it was.

Add a step for every version; ``tests/compat/vN`` holds contracts and bundles of version N, which keep verifying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """From version ``old`` to ``old + 1``.

    Attributes:
        old: the version that the step starts from.
        kind: the drafter family whose contracts it changes; None for all.
        changes: what it changes, a line each, for people.
        apply: from the whole document (None, bool, int, float, str, list, dict) to the new one; ``schema_version`` is set by the caller.
            What a version asks for and an older contract does not say is written ``{unknown: ...}``, never guessed.
    """

    old: int
    kind: str | None
    changes: tuple[str, ...]
    apply: Callable[[Mapping[str, Any]], dict[str, Any]]


MIGRATIONS: Final[tuple[Migration, ...]] = ()
"""None yet: version 1 is the first one."""
