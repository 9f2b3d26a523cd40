"""Plain scalars by the core schema of YAML 1.2.2 §10.3.2, minus what readers disagree on.

``true``/``false`` and ``null``/``~``/nothing are what they say; decimal integers and floats (``1e-3`` too) are numbers; everything
else is a string, so ``no``, ``on``, ``True``, ``1_000``, ``1:30`` and dates are strings. Leading zeros, octal, hexadecimal and
non-finite numbers are rejected rather than read in one of their several ways.
"""

from __future__ import annotations

import math
import re
from typing import Final

from contract.source.nodes import Mark
from contract.source.rules import reject

_NULL: Final = frozenset({"", "~", "null"})
_INT: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_OTHER_RADIX: Final = re.compile(r"[-+]?0(?:o[0-7]+|x[0-9a-fA-F]+|b[01]+)", re.ASCII)
_NON_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1
_DIGITS_MAX: Final = 32
"""Digits of a whole number that are looked at; int() is quadratic and refuses more than 4300."""

BOOLEAN_LOOKALIKES: Final = {
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "y", "Y", "True", "TRUE"), "true"),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "n", "N", "False", "FALSE"), "false"),
}
"""Strings that YAML 1.1 readers take for booleans, and what their writer probably meant."""


def resolve_plain(raw: str, *, file: str, mark: Mark) -> bool | int | float | str | None:
    """The value of a plain scalar.

    Raises:
        InputRejected: contract.yaml-leading-zero, contract.yaml-number-notation or contract.yaml-number-range.
    """
    if raw in _NULL:
        return None
    if raw in ("true", "false"):
        return raw == "true"
    if _NON_FINITE.fullmatch(raw):
        raise reject("yaml-number-range", f"{raw} is not a finite number", file=file, mark=mark)
    if _OTHER_RADIX.fullmatch(raw):
        raise reject("yaml-number-notation", f"{_short(raw)} is not a decimal number", file=file, mark=mark)
    if not _FLOAT.fullmatch(raw):
        return raw
    digits = raw.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        rest = digits.lstrip("0")
        plain = _short(rest if rest[:1].isdigit() else "0" + rest)
        raise reject(
            "yaml-leading-zero",
            f"{_short(raw)} has a leading zero (YAML 1.1 readers take it for octal)",
            file=file,
            mark=mark,
            fix=f"Write {plain}, or quote the value if it is an identifier.",
        )
    return _whole(raw, digits, file=file, mark=mark) if _INT.fullmatch(raw) else _finite(raw, file=file, mark=mark)


def _whole(raw: str, digits: str, *, file: str, mark: Mark) -> int:
    value = int(raw) if len(digits) <= _DIGITS_MAX else _INT_MAX + 1
    if not _INT_MIN <= value <= _INT_MAX:
        raise reject("yaml-number-range", f"{_short(raw)} does not fit into 64 bits", file=file, mark=mark)
    return value


def _finite(raw: str, *, file: str, mark: Mark) -> float:
    value = float(raw)
    if not math.isfinite(value):
        raise reject("yaml-number-range", f"{_short(raw)} is too large for a floating point number", file=file, mark=mark)
    return value


def _short(raw: str) -> str:
    return raw if len(raw) <= 40 else f"{raw[:40]}… ({len(raw)} characters)"
