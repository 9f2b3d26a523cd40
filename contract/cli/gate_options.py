"""Options of the commands whose report is judged under a policy, and what they and the configuration come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_META: Final = "contract.policy"


def policy_option(function: F) -> F:
    """``--policy``, repeatable. It is no argument of the command: the gate asks for it (``policies``)."""
    return click.option(
        "--policy",
        metavar="FILE",
        multiple=True,
        expose_value=False,
        callback=_remember,
        help="Organisation policy; adds to CONTRACT_POLICY and /etc/eagle3-contract/policy.yaml, never replaces them. Repeatable.",
    )(function)


def policies() -> list[str]:
    """Every policy file that applies to the command that is running.

    Raises:
        UsageError: the configuration is wrong.
    """
    from contract.policy.load import policy_files
    from contract.settings.effective import configured_policies, effective

    context = click.get_current_context(silent=True)
    flags = context.meta.get(_META, ()) if context is not None else ()
    return policy_files(flags, settings=configured_policies(effective()))


def _remember(context: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> None:
    context.meta[_META] = value
