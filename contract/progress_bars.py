"""The bars, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from contract.progress import Tick
from contract.report.escape import visible


class Bars:
    """One line per task; all of them disappear at the end, so that only the report stays."""

    def __init__(self, stream: IO[str], *, color: bool) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._console = Console(file=stream, no_color=not color, highlight=False, markup=False, emoji=False)
        # redirect_stdout stays off: stdout belongs to the report.
        self._progress = Progress(*columns, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    @contextmanager
    def task(self, total: int | None, label: str) -> Iterator[Tick]:
        """See ``contract.progress.Display``. No character of the label acts on the terminal."""
        task = self._progress.add_task(visible(label), total=total)

        def tick(steps: int = 1) -> None:
            self._progress.advance(task, steps)

        try:
            yield tick
        finally:
            self._progress.refresh()  # the last steps are seen too
            self._progress.remove_task(task)
