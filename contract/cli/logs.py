"""Logs of long-running commands: structlog to stderr, for people or as JSON lines. Imported only by the commands that run long."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from contract.report.escape import visible

F = TypeVar("F", bound=Callable[..., Any])


def log_options(function: F) -> F:
    """``--log console|json`` and ``-v``, as ``log`` and ``verbose``."""
    formats = ["console", "json"]
    function = click.option("--log", type=click.Choice(formats), default="console", show_default=True, help="Log format.")(function)
    return click.option("-v", "--verbose", is_flag=True, help="Log what is being done (to stderr).")(function)


def configure_logs(log: str, *, verbose: bool) -> None:
    """Send structlog's events to stderr: warnings, and with ``verbose`` what is being done."""
    import structlog

    renderer: Any = structlog.processors.JSONRenderer() if log == "json" else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _seen if log == "console" else _unchanged,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _seen(_logger: Any, _method: str, event: Any) -> Any:
    """No character of a logged value acts on a terminal (JSON escapes by itself)."""
    return {key: visible(value) if isinstance(value, str) else value for key, value in event.items()}


def _unchanged(_logger: Any, _method: str, event: Any) -> Any:
    return event
