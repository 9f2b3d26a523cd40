"""Every rule there is: those of the core, and those of the installed kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contract.errors import InternalError
from contract.files.bundle_rules import RULES as BUNDLE_RULES
from contract.files.hub_rules import HUB_RULES
from contract.files.rules import RULES as FILE_RULES
from contract.findings import Rule, Severity
from contract.guarding.rules import GUARD_RULES
from contract.kinds import load_kinds
from contract.policy.rules import POLICY_RULES
from contract.settings.rules import SETTINGS_RULES
from contract.source.rules import SOURCE_RULES
from contract.structs.problems import STRUCT_RULES
from contract.waivers.rules import WAIVER_RULES

_USAGE: Final = "A command line that does not make sense must not verify something else instead."

TOOL_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        id="api.not-kept",
        title="The contract is kept",
        severity=Severity.ERROR,
        dimension="tool",
        why="Whoever calls `require_kept` wants an exception for everything but exit code 0: violated, unknown and unusable alike.",
        remedy="See the findings of the report that the exception carries.",
    ),
    Rule(
        id="cli.bad-setting",
        title="Every --set is FIELD=VALUE, each field once",
        severity=Severity.ERROR,
        dimension="tool",
        why=_USAGE,
        remedy="Write each field once, such as --set wiring.feedback=pre_norm.",
    ),
    Rule(
        id="cli.card-marks",
        title="A model card has one pair of marks around the section",
        severity=Severity.ERROR,
        dimension="tool",
        why="With several marks it is not clear which text may be replaced, and what somebody wrote could be lost.",
        remedy="Keep one pair of marks, or remove all of them.",
    ),
    Rule(
        id="cli.card-unreadable",
        title="The model card can be read",
        severity=Severity.ERROR,
        dimension="tool",
        why="A card that cannot be read cannot be kept outside the section.",
        remedy="Name a model card in UTF-8.",
    ),
    Rule(
        id="cli.command-not-provided",
        title="The kind has the command that is asked for",
        severity=Severity.ERROR,
        dimension="tool",
        why=_USAGE,
        remedy="Use one of the commands that `contract --help` lists.",
    ),
    Rule(
        id="cli.format-not-available",
        title="The command has the format that is asked for",
        severity=Severity.ERROR,
        dimension="tool",
        why="A command that verifies nothing has no test cases and no annotations: it writes text or json.",
        remedy="Use --format text or --format json.",
    ),
    Rule(
        id="cli.not-together",
        title="What is asked for goes together",
        severity=Severity.ERROR,
        dimension="tool",
        why=_USAGE,
        remedy="Leave one of them out.",
    ),
    Rule(
        id="cli.unknown-rule",
        title="The rule that is to be explained exists",
        severity=Severity.ERROR,
        dimension="tool",
        why=_USAGE,
        remedy="`contract explain` without an argument lists every rule.",
    ),
    Rule(
        id="tool.interrupted",
        title="The run is not interrupted",
        severity=Severity.ERROR,
        dimension="tool",
        why="Half a proof is no proof: what was not looked at could be what is wrong.",
        remedy="Run it again to its end.",
    ),
    Rule(
        id="tool.internal-error",
        title="This program does not fail",
        severity=Severity.ERROR,
        dimension="tool",
        why="A fault of the verifier says nothing about the drafter, so that it must not look like a verdict.",
        remedy="Report the traceback as a bug, with the command line.",
    ),
    Rule(
        id="tool.kind-broken",
        title="Every installed kind can be imported",
        severity=Severity.ERROR,
        dimension="tool",
        why="A contract of a kind that cannot be imported cannot be verified.",
        remedy="Reinstall the package that brings the kind.",
    ),
)


def core_rules() -> tuple[Rule, ...]:
    """The rules of the core."""
    return (
        *SOURCE_RULES,
        *STRUCT_RULES,
        *FILE_RULES.values(),
        *HUB_RULES.values(),
        *BUNDLE_RULES.values(),
        *WAIVER_RULES,
        *POLICY_RULES,
        *SETTINGS_RULES,
        *GUARD_RULES,
        *TOOL_RULES,
    )


def all_rules() -> Sequence[Rule]:
    """The rules of the core and of every installed kind, by id.

    Raises:
        InternalError: two rules have one id.
    """
    found: dict[str, Rule] = {}
    for rule in (*core_rules(), *(rule for kind in load_kinds() for rule in kind.rules())):
        if found.setdefault(rule.id, rule) != rule:
            raise InternalError(f"two rules have the id {rule.id}")
    return [found[id_] for id_ in sorted(found)]
