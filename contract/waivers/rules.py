"""The rules about waivers themselves. None of them can be waived."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity

EXPIRED: Final = Rule(
    id="waivers.expired",
    title="No waiver has expired",
    severity=Severity.ERROR,
    dimension="waivers",
    why="A waiver is a debt with a date. When the date has passed, somebody has to look again: the engine may have changed, and with it "
    "what the failure costs.",
    remedy="Mend what was waived and remove the waiver, or look at it again and set a new date with a new reason.",
)
UNUSED: Final = Rule(
    id="waivers.unused",
    title="Every waiver covers a failure",
    severity=Severity.WARNING,
    dimension="waivers",
    why="A waiver that covers nothing hides the next failure of its rule, the one that nobody has looked at.",
    remedy="Remove the waiver.",
    depth=None,
)
UNKNOWN_RULE: Final = Rule(
    id="waivers.unknown-rule",
    title="Every waiver names a rule that exists",
    severity=Severity.ERROR,
    dimension="waivers",
    why="A misspelt waiver waives nothing, and looks in review as if it did.",
    remedy="Correct the id; `contract explain` lists every rule.",
)
NOT_WAIVABLE: Final = Rule(
    id="waivers.not-waivable",
    title="No waiver names a rule about waivers, policies or this program",
    severity=Severity.ERROR,
    dimension="waivers",
    why="A gate that can be told to overlook its own state is no gate. An input that could not be used, or a tool that failed, says "
    "nothing that could be accepted: exit 2 is never waived.",
    remedy="Mend the input, the waiver or the policy.",
)
NOT_MEASURED: Final = Rule(
    id="waivers.not-measured",
    title="A waiver of a silent failure says what was measured",
    severity=Severity.ERROR,
    dimension="waivers",
    why="Failures of recipe, wiring, vocab, rope, alignment and weights crash nothing and change no text: only acceptance is lost, which "
    "nobody sees. That such a failure is harmless has to be measured, not believed.",
    remedy="Measure (accepted length with and without the fault, on the same prompts) and write it under `measured`.",
)
WAIVER_RULES: Final = (EXPIRED, UNUSED, UNKNOWN_RULE, NOT_WAIVABLE, NOT_MEASURED)
OWN_AREAS: Final = frozenset({"waivers", "policy", "settings", "guard", "tool", "cli"})
"""Areas that no waiver can name."""
SILENT: Final = frozenset({"recipe", "wiring", "vocab", "rope", "alignment", "weights"})
"""Dimensions whose failures cost acceptance and nothing else (two thirds of the public incidents)."""
