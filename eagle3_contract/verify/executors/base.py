"""What an executor is: sample files in, outcomes out, in the order of the files. No torch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from eagle3_contract.verify.executors.result import Outcome

if TYPE_CHECKING:
    from contract.requests import Executor as Name
    from eagle3_contract.verify.executors.measure import Measurer, Plan

MANY: Final = 200
"""Samples from which on several processes are worth their start (some seconds each, to import torch and read the drafter)."""
CHUNK: Final = 4
"""Samples that are handed to a worker at a time: enough to hide the way there, few enough to share the rest out evenly."""
AHEAD: Final = 3
"""Chunks per worker that are on their way: results are given out in order, so that a slow sample must not hold up the others."""


class Executor(Protocol):
    """Measures samples somewhere."""

    workers: int

    def outcomes(self, files: Iterable[str]) -> Generator[Outcome, None, None]:
        """One outcome per file, in the order of ``files``, which are taken when they are needed; closing it ends the work.

        Raises:
            ToolError: the workers cannot be started, or one of them died.
            UserError: what makes the plan itself unusable there.
        """


def choose(name: Name, workers: int | None, plan: Plan, measurer: Measurer, samples: int) -> Executor:
    """The executor of a request. ``workers`` None: one process for few samples, else one per core (Ray: per core of the cluster).

    Raises:
        ToolError: ``verify.ray-missing``, ``verify.ray-failed``.
    """
    if name == "ray":
        from eagle3_contract.verify.executors.ray import OverRay

        return OverRay(plan, workers)
    from eagle3_contract.verify.executors.local import InProcess, Processes, usable_cores

    wanted = workers if workers is not None else usable_cores() if samples >= MANY and plan.device == "cpu" else 1
    wanted = min(wanted, max(1, samples))
    return Processes(plan, wanted) if wanted > 1 else InProcess(measurer)


def chunks(files: Iterable[str]) -> Iterator[list[str]]:
    """Runs of ``CHUNK`` files."""
    rest = iter(files)
    while found := list(islice(rest, CHUNK)):
        yield found
