"""Names of tensors and files: which are refused, which look alike, and how any of them is shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from typing import Final

SHOWN_LENGTH: Final = 80
"""Characters of a foreign name that a message shows."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# Letters of other scripts that look like an ASCII letter (the single-letter Latin prototypes of Unicode TR39, confusables.txt).
_LOOKALIKES: Final[dict[int, str]] = {
    **dict(zip(map(ord, "аАВеЕоОрРсСхХуУкКМНТіІјЈѕЅԁԛԝһ"), "aABeEoOpPcCxXyYkKMHTiIjJsSdqwh", strict=True)),  # Cyrillic
    **dict(zip(map(ord, "αΑΒΕΗΙΚΜΝνοΟρΡΤυΥΧ"), "aABEHIKMNvoOpPTuYX", strict=True)),  # Greek
    **dict(zip(map(ord, "օսոհցıɡɑ"), "ounhgiga", strict=True)),  # Armenian, Latin
}


def shown(name: str, length: int = SHOWN_LENGTH) -> str:
    """The name as a message may show it: control, format and surrogate characters escaped, cut to ``length``."""
    cut = name if len(name) <= length else f"{name[:length]}… ({len(name)} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in cut)


def unsafe(name: str) -> str | None:
    """Why a name is refused (empty, control character, line separator), or None."""
    if not name:
        return "is empty"
    found = _UNSAFE.search(name)
    return f"holds the control character {shown(found.group())}" if found else None


def case_collisions(names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs of different names that are equal without case. Names are unique."""
    # Of two such names one at least is not its own lower case, and most checkpoints have none of these.
    joined = "\0".join(names)
    if joined.isascii() and joined == joined.lower():
        return []
    odd = {folded for name in names if (folded := name.casefold()) != name}
    return list(_twins((name for name in names if name.casefold() in odd), str.casefold))


def lookalikes(names: Collection[str]) -> list[tuple[str, str]]:
    """Pairs of different names that look alike: other Unicode form, invisible characters, letters of another script."""
    if "".join(names).isascii():
        return []
    return [pair for pair in _twins(names, _skeleton) if not (pair[0].isascii() and pair[1].isascii())]


def _skeleton(name: str) -> str:
    flat = unicodedata.normalize("NFKC", name).translate(_LOOKALIKES)
    return "".join(c for c in flat if unicodedata.category(c) != "Cf")


def _twins(names: Iterable[str], key: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for _, group in groupby(sorted(names, key=lambda n: (key(n), n)), key=key):
        first, *others = group
        yield from ((first, other) for other in others)
