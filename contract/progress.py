"""Progress of long work: a bar on stderr where that is a terminal, nothing anywhere else.

A library function that works long takes no argument for it::

    with progress(len(samples), "samples") as tick:
        for sample in samples:
            ...
            tick()

Whoever calls it decides whether anything is shown: the command line installs a display with ``shown_on`` for the commands that work long;
the Python API and tests install none, and a tick is then a call of an empty function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import IO, Final, Protocol, TypeAlias

Tick: TypeAlias = Callable[..., None]
"""``tick(n=1)``: n more of the total are done."""


class Display(Protocol):
    """What shows progress."""

    def task(self, total: int | None, label: str) -> AbstractContextManager[Tick]:
        """A task of ``total`` steps (None: unknown), shown until the block ends, however it ends."""


_DISPLAY: Final[ContextVar[Display | None]] = ContextVar("contract.progress", default=None)


@contextmanager
def progress(total: int | None, label: str) -> Iterator[Tick]:
    """Count the steps of one piece of work. ``total`` may be None where it is not known."""
    display = _DISPLAY.get()
    if display is None:
        yield _nothing
        return
    with display.task(total, label) as tick:
        yield tick


@contextmanager
def shown_by(display: Display | None) -> Iterator[None]:
    """Let a display show the progress of the block (None: nothing is shown)."""
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


@contextmanager
def shown_on(stream: IO[str] | None, environ: Mapping[str, str]) -> Iterator[None]:
    """Bars on a stream (stderr) if it is a terminal that can draw them; imports rich only then.

    Nothing is shown where ``TERM`` is ``dumb``, or on a continuous integration machine (``CI``), whose logs keep every redraw.
    """
    if stream is None or not stream.isatty() or environ.get("TERM") in (None, "", "dumb") or environ.get("CI"):
        yield
        return
    from contract.progress_bars import Bars

    with Bars(stream, color=not environ.get("NO_COLOR")) as bars, shown_by(bars):
        yield


def _nothing(steps: int = 1) -> None:
    """A tick that nobody sees."""
