"""``contract explain [RULE]``."""

from __future__ import annotations

import textwrap
from difflib import get_close_matches
from typing import Final

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option
from contract.cli.perform import perform
from contract.errors import UsageError
from contract.findings import Depth, Json, Rule
from contract.rules import all_rules, core_rules

WIDTH: Final = 100
DEPTH: Final = {
    None: "never required: being undecided is only noticed",
    Depth.CHECK: "required from `contract check` on",
    Depth.VERIFY: "required from `contract verify` on",
    Depth.LIVE: "required when a live engine is verified",
}


@click.command("explain")
@click.argument("rule", required=False)
@formats_option
def command(rule: str | None, outputs: tuple[Output, ...]) -> int:
    """Say what RULE guards against and how to mend it; without RULE list all rules."""
    return perform("explain", lambda: _explained(rule), outputs)


def _explained(wanted: str | None) -> Answer:
    # A kind that cannot be imported takes its own rules away, not those of the core.
    core = {rule.id: rule for rule in core_rules()}
    rules = [core[wanted]] if wanted in core else all_rules()
    if wanted is None:
        width = max(len(rule.id) for rule in rules)
        return Answer(text="\n".join(f"{rule.id:{width}}  {rule.title}" for rule in rules), data=[rule_as_json(rule) for rule in rules])
    for rule in rules:
        if rule.id == wanted:
            return Answer(text=page(rule), data=rule_as_json(rule))
    near = get_close_matches(wanted, [rule.id for rule in rules], n=3, cutoff=0.4)
    raise UsageError(
        f"there is no rule {wanted!r}",
        rule="cli.unknown-rule",
        fix=f"Did you mean {' or '.join(near)}?" if near else "`contract explain` lists every rule.",
    )


def page(rule: Rule) -> str:
    """The page of a rule."""
    facts = f"{rule.severity.value}, {rule.dimension}; {DEPTH[rule.depth]}"
    blocks = [rule.id, rule.title + ".", facts, "Why: " + rule.why, "What to do: " + rule.remedy]
    return "\n\n".join(textwrap.fill(block, WIDTH, break_long_words=False, break_on_hyphens=False) for block in blocks)


def rule_as_json(rule: Rule) -> dict[str, Json]:
    """A rule as ``--format json`` writes it."""
    return {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.severity.value,
        "dimension": rule.dimension,
        "depth": rule.depth.name.lower() if rule.depth is not None else None,
        "why": rule.why,
        "remedy": rule.remedy,
    }
