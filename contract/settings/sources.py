"""Where settings come from: the two TOML files of a project, and the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from contract.errors import InputRejected
from contract.files.paths import open_path
from contract.settings.options import BY_NAME, OPTIONS, Option
from contract.settings.rules import BAD_VALUE, UNKNOWN_KEY, UNREADABLE, wrong

FILE: Final = "contract.toml"
PYPROJECT: Final = "pyproject.toml"
SECTION: Final = "eagle3-contract"
FILE_BYTES: Final = 1024 * 1024
PREFIX: Final = "CONTRACT_"


def from_files(start: Path) -> Iterator[tuple[Option, Any, str]]:
    """Settings of the nearest folder with a configuration file, weaker file first: option, value, origin.

    Looked for from ``start`` upwards to the root of the repository (the folder with ``.git``); outside a repository only in ``start``,
    so that nobody who may write into a parent folder configures this run.

    Raises:
        UsageError: a file is no TOML, or has a key or a value that no setting has.
    """
    for folder in _folders(start):
        found = [(name, _table(folder / name)) for name in (PYPROJECT, FILE)]
        if any(table is not None for _, table in found):
            for name, table in found:
                yield from _settings(table or {}, str(folder / name), folder)
            return


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[Option, Any, str]]:
    """Settings of the environment. An empty variable says nothing."""
    for option in OPTIONS:
        text = environ.get(option.variable, "")
        if text:
            parts = text.split(os.pathsep) if option.path else text.split()
            value: Any = [part for part in parts if part] if option.several else text
            yield option, _checked(option, value, option.variable), option.variable


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none."""
    known = {option.variable for option in OPTIONS}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def _folders(start: Path) -> list[Path]:
    chain = [start, *start.parents]
    root = next((index for index, folder in enumerate(chain) if (folder / ".git").exists()), 0)
    return chain[: root + 1]


def _table(path: Path) -> dict[str, Any] | None:
    """The settings of one file; None if it has none."""
    try:
        with open_path(path) as opened:
            if opened.size > FILE_BYTES:
                raise wrong(UNREADABLE, f"{path} is larger than {FILE_BYTES} bytes", file=str(path))
            data = opened.read_all()
    except InputRejected as error:
        if error.rule == "files.not-found":
            return None
        raise wrong(UNREADABLE, f"cannot read {path}: {error.message}", file=str(path)) from error
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise wrong(UNREADABLE, f"{path} is no TOML: {error}", file=str(path)) from error
    if path.name == FILE:
        return document
    tool = document.get("tool")
    section = tool.get(SECTION) if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise wrong(UNREADABLE, f"tool.{SECTION} is no table", file=str(path), key=f"tool.{SECTION}")
    return section


def _settings(table: Mapping[str, Any], file: str, folder: Path) -> Iterator[tuple[Option, Any, str]]:
    for key, value in table.items():
        option = BY_NAME.get(key)
        if option is None:
            near = get_close_matches(key, BY_NAME, n=1)
            raise wrong(UNKNOWN_KEY, f"unknown setting {key}", file=file, key=key, fix=f"Did you mean {near[0]}?" if near else None)
        checked = _checked(option, value, file)
        if option.writes and (named := [part for part in checked if "=" in part]):
            said = f"{option.name} names a file to be written: {named[0]!r}"
            raise wrong(BAD_VALUE, said, file=file, key=key, fix="Name formats only; give NAME=FILE on the command line.")
        yield option, _from_folder(option, checked, folder), file


def _from_folder(option: Option, value: Any, folder: Path) -> Any:
    if not option.path:
        return value
    return [str(folder / v) for v in value] if option.several else str(folder / value)


def _checked(option: Option, value: Any, origin: str) -> Any:
    parts = value if option.several and isinstance(value, list) else [value]
    if (option.several and not isinstance(value, list)) or not all(isinstance(part, str) and part for part in parts):
        wanted = "a list of strings" if option.several else "a string"
        raise wrong(BAD_VALUE, f"{option.name} must be {wanted}, found {value!r}", file=origin, key=option.name)
    bad = [part for part in parts if option.choices and part not in option.choices]
    if bad:
        said = f"{option.name} is {bad[0]!r}; it can be {', '.join(option.choices)}"
        raise wrong(BAD_VALUE, said, file=origin, key=option.name)
    return value
