"""``contract doctor``."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option
from contract.cli.perform import perform
from contract.errors import ToolError
from contract.findings import ExitCode, Json
from contract.kinds import COMMANDS, kind_names, load_kind, provides

REQUIRED: Final = ("click", "jsonschema", "msgspec", "numpy", "pyyaml", "rich", "safetensors", "structlog")
OPTIONAL: Final[Mapping[str, str]] = {
    "torch": "verify, draft and demo: pip install 'eagle3-contract[verify]'",
    "transformers": "capture --engine transformers: pip install 'eagle3-contract[transformers]'",
    "vllm": "capture --engine vllm, in its own environment",
    "sglang": "capture --engine sglang, in its own environment",
}


@click.command("doctor")
@click.option(
    "--engine-python",
    "pythons",
    metavar="PATH",
    multiple=True,
    help="An interpreter to ask for engines, their hook points and its devices. Repeatable. Default: this one.",
)
@formats_option
def command(pythons: tuple[str, ...], outputs: tuple[Output, ...]) -> int:
    """Say what is installed and what each missing part would be needed for. Exit 2 if the static depth cannot work.

    Engines and devices are asked for in a process of their own; importing an engine takes seconds.
    """
    return perform("doctor", lambda: examine(pythons), outputs)


def examine(pythons: Sequence[str] = ()) -> Answer:
    """What is installed, found from metadata: nothing heavy is imported here; kinds ask interpreters for engines and devices.

    Raises:
        UserError: an interpreter that was named cannot be asked.
    """
    required = {name: _version(name) for name in REQUIRED}
    optional = {name: _version(name) for name in OPTIONAL}
    kinds = {name: _kind(name) for name in kind_names()}
    broken = [name for name, found in required.items() if found is None] + [name for name, found in kinds.items() if isinstance(found, str)]
    lines = [f"python {platform.python_version()} on {platform.system()} {platform.machine()}, stdout {sys.stdout.encoding}"]
    lines += [f"yaml parser: {'libyaml' if _has_libyaml() else 'pure Python (slower, same result)'}"]
    lines += [f"{name} {found or 'MISSING (required)'}" for name, found in required.items()]
    lines += [f"{name} {found or f'not installed; needed for {OPTIONAL[name]}'}" for name, found in optional.items()]
    lines += [f"kind {name}: {found if isinstance(found, str) else ', '.join(found)}" for name, found in kinds.items()]
    lines += [] if kinds else ["no kind is installed: nothing can be verified"]
    healthy = bool(kinds) and not broken
    environments = []
    for data_of, said in _environments(pythons):
        environments.append(data_of)
        lines += ["", *said]
    lines += ["", "everything that `check`, `read` and `show` need is here" if healthy else f"broken: {', '.join(broken) or 'no kind'}"]
    data: dict[str, Json] = {
        "python": platform.python_version(),
        "packages": required | optional,
        "libyaml": _has_libyaml(),
        "kinds": kinds,
    }
    data["environments"] = environments
    code = ExitCode.KEPT if healthy else ExitCode.UNUSABLE
    return Answer(text="\n".join(lines), data={**data, "healthy": healthy}, exit_code=code)


def _environments(pythons: Sequence[str]) -> Iterator[tuple[Json, Sequence[str]]]:
    """What each kind says of each interpreter (this one if none is named); a broken kind is told elsewhere."""
    for name in kind_names():
        try:
            ask = getattr(load_kind(name), "environment", None)
        except ToolError:
            continue
        if callable(ask):
            yield from (ask(python) for python in (pythons or (None,)))


def _kind(name: str) -> list[str] | str:
    """The commands of a kind, or why it is broken."""
    try:
        kind = load_kind(name)
    except ToolError as error:
        return error.message
    return [c for c in COMMANDS if provides(kind, c)]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _has_libyaml() -> bool:
    import yaml

    return bool(yaml.__with_libyaml__)
