"""``contract config``."""

from __future__ import annotations

import os
from difflib import get_close_matches

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option
from contract.cli.perform import perform
from contract.settings import Setting, effective
from contract.settings.options import OPTIONS
from contract.settings.sources import unknown_variables


@click.command("config")
@click.option("--show-origin", is_flag=True, help="Say where each value comes from.")
@formats_option
def command(show_origin: bool, outputs: tuple[Output, ...]) -> int:
    """Print every setting as it holds when no flag is given: pyproject.toml, contract.toml, environment, in rising order."""
    return perform("config", lambda: _answer(show_origin), outputs)


def _answer(show_origin: bool) -> Answer:
    settings = effective()
    stray = unknown_variables(os.environ)
    lines = [_line(setting, show_origin) for setting in settings]
    lines += ["", *(_stray(name) for name in stray)] if stray else []
    data = {
        "settings": [
            {
                "name": s.option.name,
                "value": s.value,
                "origin": s.origin,
                "variable": s.option.variable,
                "commands": list(s.option.commands),
            }
            for s in settings
        ],
        "unknown_variables": stray,
    }
    return Answer(text="\n".join(lines), data=data)


def _line(setting: Setting, show_origin: bool) -> str:
    option, value = setting.option, setting.value
    shown = "not set" if value is None else " ".join(value) if isinstance(value, list) else value
    choices = f" ({'|'.join(option.choices)})" if option.choices else ""
    head = f"{option.name} = {shown}" if value is not None else f"{option.name}: {shown}; {option.help}{choices}"
    return f"{head}  [{setting.origin or f'default; {option.variable}'}]" if show_origin else head


def _stray(name: str) -> str:
    near = get_close_matches(name, [option.variable for option in OPTIONS], n=1)
    return f"{name} is no setting and changes nothing" + (f"; did you mean {near[0]}?" if near else "")
