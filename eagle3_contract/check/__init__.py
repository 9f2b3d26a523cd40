"""The static depth: rules over contract, config.json, headers and vocab map. No torch.

``ALL_RULES`` is every rule that ``contract check`` applies of its own (the rules about files and about the contract's text are the core's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contract.findings import Rule

    ALL_RULES: tuple[Rule, ...]


def __getattr__(name: str) -> Any:
    if name != "ALL_RULES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from eagle3_contract.check.rules import all_rules  # not on the way to a single rule module

    return all_rules()
