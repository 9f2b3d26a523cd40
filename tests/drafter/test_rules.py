"""Every rule that the drafter's code names has a page, and every page is named by the code."""

from __future__ import annotations

import re
from pathlib import Path

import eagle3_contract.drafter
from eagle3_contract.drafter.rules import RULES

NAMED = re.compile(r"""rule="(drafter\.[a-z-]+)"|_rejected\(\s*"([a-z-]+)\"""")


def test_rules_and_code_name_each_other() -> None:
    text = "\n".join(p.read_text() for p in Path(eagle3_contract.drafter.__file__).parent.glob("*.py") if p.name != "rules.py")
    named = {whole or f"drafter.{short}" for whole, short in NAMED.findall(text)}
    assert named == RULES.keys()
