"""Every rule id that the code can speak has a page."""

from __future__ import annotations

import re
from pathlib import Path

from contract.rules import all_rules

ROOT = Path(__file__).parents[1]
SPOKEN = re.compile(r"""rule=f?["']([a-z0-9]+\.[a-z0-9-]+)["']""")


def test_every_rule_spoken_is_explained() -> None:
    spoken: dict[str, str] = {}
    for package in ("contract", "eagle3_contract"):
        for path in (ROOT / package).rglob("*.py"):
            for match in SPOKEN.finditer(path.read_text(encoding="utf-8")):
                spoken.setdefault(match[1], str(path.relative_to(ROOT)))
    assert len(spoken) > 20
    explained = {rule.id for rule in all_rules()}
    assert {rule: where for rule, where in spoken.items() if rule not in explained} == {}
