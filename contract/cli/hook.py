"""``contract hook FILES...``: what pre-commit runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

import click

from contract.cli.gate_options import policy_option
from contract.cli.params import Output, engines_option, target_option
from contract.cli.perform import perform_request
from contract.findings import ExitCode
from contract.kinds import kind_of_spec
from contract.requests import CheckRequest, Integrity

NAMES: Final = ("contract.yaml", "contract.yml")
WAIVERS: Final = (".waivers.yaml", ".waivers.yml")
_PRECEDENCE: Final = (ExitCode.UNUSABLE, ExitCode.VIOLATED, ExitCode.UNKNOWN, ExitCode.KEPT)


@click.command("hook")
@click.argument("files", nargs=-1)
@engines_option()
@target_option
@click.option(
    "--integrity", type=click.Choice(["headers", "values", "digests"]), default="headers", show_default=True, help="As in `check`."
)
@policy_option
def command(files: tuple[str, ...], engines: tuple[str, ...], target: str | None, integrity: str) -> int:
    """Run `contract check` on the contract of each of FILES: the file itself, or the contract.yaml in its folder.

    Files without a contract pass. With several contracts the worst exit code counts.
    """
    codes = [_check(spec, engines, target, cast(Integrity, integrity)) for spec in contracts_of(files)]
    return int(next((code for code in _PRECEDENCE if int(code) in codes), ExitCode.KEPT))


def contracts_of(files: Iterable[str]) -> list[str]:
    """The contracts that changed files belong to, each once. A deleted file still has its contract looked at."""
    found = [spec for name in files if (spec := _contract_of(Path(name))) is not None]
    return sorted(dict.fromkeys(map(str, found)))


def _contract_of(path: Path) -> Path | None:
    if not path.name:
        return None
    # os.path answers for a name that no file can have, where Path's own methods raise.
    ending = next((ending for ending in WAIVERS if path.name.endswith(ending)), None)
    if ending is not None:
        stem = path.name.removesuffix(ending)
        return next((p for suffix in (".yaml", ".yml") if os.path.isfile(p := path.with_name(stem + suffix))), None)
    if path.suffix in (".yaml", ".yml"):
        return path if os.path.exists(path) else None
    return next((p for name in NAMES if os.path.isfile(p := path.with_name(name))), None)


def _check(spec: str, engines: tuple[str, ...], target: str | None, integrity: Integrity) -> int:
    request = CheckRequest(spec=spec, engines=engines, target=target, integrity=integrity)
    return perform_request(lambda: kind_of_spec(spec), "check", request, (Output("text"),))
