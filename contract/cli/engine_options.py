"""Options of the commands that run an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _words(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    words = tuple(w.strip() for w in value.split(","))
    if not all(words):
        raise click.BadParameter(f"{value!r} is no list of names with commas between them")
    return words


def run_options(function: F) -> F:
    """``--engine-python``, ``--max-new-tokens``, ``--runs`` and ``--dtype``, by these names with underscores."""
    for option in (
        click.option("--dtype", metavar="NAME", help="What the engine computes in, such as bfloat16.  [default: the contract's]"),
        click.option(
            "--runs",
            metavar="NAMES",
            callback=_words,
            help="Circumstances of each prompt besides plain: again, batched, cached, chunked, or all.  [default: plain only]",
        ),
        click.option("--max-new-tokens", metavar="N", type=click.IntRange(1, 100_000), help="Generated for each prompt.  [default: 32]"),
        click.option("--engine-python", metavar="PY", help="Interpreter of the environment that has the engine.  [default: this one]"),
    ):
        function = option(function)
    return function
