"""Samples over a Ray cluster: actors that each hold a drafter; the plan's paths must lead to the same files on every machine.

Ray's own settings decide which cluster (``RAY_ADDRESS``); without any, one is started on this machine and ended afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from importlib import import_module
from typing import Any

from contract.errors import ToolError, UserError
from contract.findings import Check, check_from_error
from eagle3_contract.verify.executors.base import AHEAD, chunks
from eagle3_contract.verify.executors.failed import PlanRefused
from eagle3_contract.verify.executors.result import Outcome


class Actor:
    """What runs on the cluster: one plan, one core."""

    def __init__(self, plan: Any) -> None:
        from eagle3_contract.verify.executors.measure import Measurer, open_measurer

        self._measurer: Measurer | None = None
        self._refused: Check | None = None
        try:
            self._measurer = open_measurer(plan).__enter__()
        except UserError as error:
            self._refused = check_from_error(error)

    def measure(self, files: list[str]) -> list[Outcome] | Check:
        """Outcomes of some files, or why the plan cannot be opened on this machine."""
        if self._measurer is None:
            assert self._refused is not None
            return self._refused
        return [self._measurer.file(file) for file in files]


class OverRay:
    """Actors on a cluster, as many as it has cores unless ``workers`` says otherwise.

    Raises:
        ToolError: ``verify.ray-missing`` without the package, ``verify.ray-failed`` without a cluster.
    """

    def __init__(self, plan: Any, workers: int | None) -> None:
        self._ray = _ray()
        self._plan = plan
        self._started = not self._ray.is_initialized()
        try:
            if self._started:
                self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
            cores = int(self._ray.cluster_resources().get("CPU", 0))
        except Exception as error:
            raise _failed(f"no cluster: {error}") from error
        if cores < 1:
            raise _failed("the cluster has no core")
        self.workers = min(workers or cores, cores)

    def outcomes(self, files: Iterable[str]) -> Generator[Outcome, None, None]:
        actors: list[Any] = []
        try:
            remote = self._ray.remote(num_cpus=1)(Actor)
            actors = [remote.remote(self._plan) for _ in range(self.workers)]
            yield from self._in_order(actors, files)
        except self._ray.exceptions.RayError as error:
            raise _failed(str(error).strip().partition("\n")[0]) from error
        finally:
            for actor in actors:
                self._ray.kill(actor)
            if self._started:
                self._ray.shutdown()

    def _in_order(self, actors: list[Any], files: Iterable[str]) -> Iterator[Outcome]:
        """Each actor has a queue of its own; a chunk goes to the one with the fewest chunks that nobody has taken yet."""
        waiting: deque[tuple[int, Any]] = deque()
        for chunk in chunks(files):
            load = [sum(actor == i for actor, _ in waiting) for i in range(len(actors))]
            chosen = load.index(min(load))
            waiting.append((chosen, actors[chosen].measure.remote(chunk)))
            if len(waiting) >= AHEAD * len(actors):
                yield from self._given(waiting.popleft()[1])
        while waiting:
            yield from self._given(waiting.popleft()[1])

    def _given(self, reference: Any) -> list[Outcome]:
        answer: list[Outcome] | Check = self._ray.get(reference)
        if isinstance(answer, Check):
            raise PlanRefused(answer)
        return answer


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise ToolError(
            "the executor ray needs the package ray",
            rule="verify.ray-missing",
            fix="Install it with pip install 'eagle3-contract[ray]', or leave --executor out.",
        ) from error


def _failed(reason: str) -> ToolError:
    return ToolError(
        f"the Ray cluster failed: {reason}",
        rule="verify.ray-failed",
        fix="Check `ray status`, and that every machine has this package and sees the same files; or leave --executor out.",
    )
