"""Samples on this machine: one after the other in this process, or in several."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from contract.errors import ToolError, UserError
from contract.findings import Check, check_from_error
from eagle3_contract.verify.executors.base import AHEAD, chunks
from eagle3_contract.verify.executors.failed import PlanRefused
from eagle3_contract.verify.executors.measure import Measurer, Plan, open_measurer
from eagle3_contract.verify.executors.result import Outcome

_measurer: Measurer | None = None
_refused: Check | None = None
"""Of a worker process: what its plan came to."""


class InProcess:
    """One after the other, here."""

    workers = 1

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer

    def outcomes(self, files: Iterable[str]) -> Generator[Outcome, None, None]:
        with self._measurer as measurer:
            for file in files:
                yield measurer.file(file)


class Processes:
    """Worker processes, each with a drafter of its own and one sample at a time."""

    def __init__(self, plan: Plan, workers: int) -> None:
        self._plan, self.workers = plan, workers

    def outcomes(self, files: Iterable[str]) -> Generator[Outcome, None, None]:
        # spawn: a fork of a process in which torch has run threads may hang.
        pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(self._plan,))
        try:
            yield from self._in_order(pool, files)
        except BrokenProcessPool as error:
            raise ToolError(
                "a worker process died while it measured a sample",
                rule="verify.worker-died",
                fix="Most often memory ran out: use fewer --workers. With --resume FILE nothing that was measured is lost.",
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _in_order(self, pool: ProcessPoolExecutor, files: Iterable[str]) -> Iterator[Outcome]:
        waiting: deque[Future[list[Outcome] | Check]] = deque()
        for chunk in chunks(files):
            waiting.append(pool.submit(_measure, chunk))
            if len(waiting) >= AHEAD * self.workers:
                yield from _given(waiting.popleft().result())
        while waiting:
            yield from _given(waiting.popleft().result())


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def _given(answer: list[Outcome] | Check) -> list[Outcome]:
    if isinstance(answer, Check):
        raise PlanRefused(answer)
    return answer


def _begin(plan: Plan) -> None:
    """Of a worker: end with the parent, leave Ctrl-C to it, and open the plan once."""
    global _measurer, _refused  # a worker process is one plan
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _measurer = open_measurer(plan).__enter__()
    except UserError as error:
        _refused = check_from_error(error)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _measure(files: list[str]) -> list[Outcome] | Check:
    if _measurer is None:
        assert _refused is not None
        return _refused
    return [_measurer.file(file) for file in files]
