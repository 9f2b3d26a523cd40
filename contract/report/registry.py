"""The formats by name; a renderer is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias

from contract.errors import InternalError
from contract.report.style import PLAIN, Style
from contract.reporting import Report

Renderer: TypeAlias = Callable[[Report, Style], str]

FORMATS: Final = MappingProxyType(
    {
        "text": "for people; tables and colour on a terminal",
        "json": "the stable interface: one object (specs/report.schema.json)",
        "jsonl": "one object per line: the run, each check, the summary",
        "junit": "JUnit XML, one test case per check",
        "sarif": "SARIF 2.1.0",
        "github": "GitHub workflow annotations",
        "gitlab": "GitLab code quality",
        "markdown": "a table for a step summary or a comment",
        "html": "one self-contained page",
        "prometheus": "gauges for the textfile collector of node_exporter",
    }
)


def renderer(name: str) -> Renderer:
    """The renderer of a format in ``FORMATS``: ``contract.report.<name>.render``."""
    if name not in FORMATS:
        raise InternalError(f"no renderer for {name!r}")
    found: Renderer = import_module(f"contract.report.{name}").render
    return found


def render(report: Report, format: str, style: Style = PLAIN) -> str:
    """The report in a format; only ``text`` looks at ``style``. Ends with a newline unless it is empty."""
    return renderer(format)(report, style)
