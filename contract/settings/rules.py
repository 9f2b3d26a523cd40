"""The rules about configuration."""

from __future__ import annotations

from typing import Final

from contract.errors import UsageError
from contract.findings import Rule, Severity, Where

_WHY: Final = "A setting that is misread verifies something else than was meant, and looks like a success."


def _rule(name: str, title: str, remedy: str) -> Rule:
    return Rule(id=f"settings.{name}", title=title, severity=Severity.ERROR, dimension="settings", why=_WHY, remedy=remedy)


UNREADABLE: Final = _rule("unreadable", "Every configuration file is TOML that can be read", "Mend the file at the place named.")
UNKNOWN_KEY: Final = _rule("unknown-key", "Every key of a configuration file is known", "`contract config` lists what can be configured.")
BAD_VALUE: Final = _rule("bad-value", "Every configured value is one that the setting can have", "`contract config` lists the values.")
SETTINGS_RULES: Final = (UNREADABLE, UNKNOWN_KEY, BAD_VALUE)


def wrong(rule: Rule, message: str, *, file: str | None = None, key: str | None = None, fix: str | None = None) -> UsageError:
    """The error for one of these rules; to be raised by the caller."""
    return UsageError(message, rule=rule.id, fix=fix or rule.remedy, where=Where(file=file, key=key))
