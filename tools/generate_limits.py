"""Write docs/limits.md from ``contract.limits.Limits``: ``python -m tools.generate_limits [--check]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from contract.limits import DEFAULT_LIMITS, GIB, KIB, MIB, Limits

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "limits.md"
HEAD: Final = """# Limits

Everything that is read is bounded, so that no input can exhaust the machine. A limit that is hit ends in `LimitExceeded` (exit code 2),
whose message names the limit and both numbers. Limits can be lowered, never raised: in Python with `DEFAULT_LIMITS.lowered(tensors=1000)`,
which refuses (`UsageError`) an unknown name, a number above the default, and one below 1. The values are in `contract/limits.py`, and this
page is generated from it by `python -m tools.generate_limits`.

| limit | default | bounds |
|---|---|---|
"""


def meanings() -> dict[str, str]:
    """Name to meaning, from the docstring of ``Limits``."""
    text = (Limits.__doc__ or "").partition("Attributes:")[2]
    found = re.findall(r"^ {8}(\w+): (.+?)(?=^ {8}\w+: |\Z)", text, flags=re.M | re.S)
    return {name: " ".join(meaning.replace("``", "`").split()) for name, meaning in found}


def amount(name: str, value: int) -> str:
    """A default with its unit."""
    if "bytes" in name:
        for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value % size == 0:
                return f"{value // size} {unit}"
        return f"{value:,} bytes"
    return f"{value:,} s" if name.endswith("seconds") else f"{value:,}"


def page() -> str:
    """The page."""
    known = meanings()
    rows = [f"| `{f.name}` | {amount(f.name, int(getattr(DEFAULT_LIMITS, f.name)))} | {known[f.name]} |" for f in fields(Limits)]
    return HEAD + "\n".join(rows) + "\n"


def main(argv: Sequence[str]) -> int:
    """1 if ``--check`` finds the page out of date."""
    if "--check" in argv:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
