"""A page per rule, and their index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from contract.cli.explain import DEPTH
from contract.findings import Rule
from contract.rules import all_rules
from tools.docs_site.markdown import code, prose, table, text


def pages() -> Iterator[tuple[str, str]]:
    """Path and markdown of every page."""
    rules = sorted(all_rules(), key=lambda r: (r.dimension, r.id))
    yield "rules/index.md", _index(rules)
    for rule in rules:
        yield f"rules/{rule.id}.md", _page(rule)


def _index(rules: list[Rule]) -> str:
    lines = ["# Rules", "", f"{len(rules)} rules, by what they are about. `contract explain RULE` prints the same pages."]
    for dimension, group in groupby(rules, key=lambda r: r.dimension):
        lines += ["", f"## {dimension}"]
        lines += table(["rule", "what holds"], ([f"[{code(r.id)}]({r.id}.md)", prose(r.title)] for r in group))
    return "\n".join(lines) + "\n"


def _page(rule: Rule) -> str:
    lines = [f"# {text(rule.id)}", "", f"**{prose(rule.title)}.**"]
    lines += table(["severity", "about", "when it cannot be decided"], [[rule.severity.value, rule.dimension, prose(DEPTH[rule.depth])]])
    lines += ["## Why", "", prose(rule.why), "", "## What to do", "", prose(rule.remedy), ""]
    lines += [f"On the command line: `contract explain {rule.id}`. All rules: [index](index.md)."]
    return "\n".join(lines) + "\n"
