"""The job of a capture, as the child in the engine's environment reads it (``jobs.py`` writes it), and the names of its requests.

Standard library alone: this runs where nothing of the verifier is installed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the job."""

    id: str
    input_ids: list[int]
    sample: str | None


@dataclass(frozen=True, slots=True)
class Submission:
    """One call of the engine: the prompts (by index) that are handed to it at once."""

    run: str
    prompts: list[int]


@dataclass(frozen=True, slots=True)
class Job:
    """What the parent (``live.py``) wants to be run."""

    target: str
    drafter: str
    spool: str
    limit_bytes: int | None
    sweep: bool
    flags: dict[str, Any]
    prompts: list[Prompt]
    submissions: list[Submission]
    max_new_tokens: int
    record_prompts_max: int | None


def read_job(text: str) -> Job:
    """The job from its JSON. Raises KeyError or TypeError when it is not one."""
    given = json.loads(text)
    given.pop("engine", None)
    prompts = [Prompt(**p) for p in given.pop("prompts")]
    submissions = [Submission(**s) for s in given.pop("submissions")]
    return Job(**given, prompts=prompts, submissions=submissions)


def request_names(job: Job) -> list[list[str]]:
    """A name for each request of each submission, unique: the prompt's id, the run, and a number where both repeat."""
    seen: dict[str, int] = {}
    names: list[list[str]] = []
    for submission in job.submissions:
        mine = []
        for index in submission.prompts:
            base = job.prompts[index].id + (f"@{submission.run}" if submission.run else "")
            seen[base] = seen.get(base, 0) + 1
            mine.append(base if seen[base] == 1 else f"{base}#{seen[base]}")
        names.append(mine)
    return names


def labelled(job: Job) -> list[list[tuple[str, Prompt, str]]]:
    """For each submission its requests: name, prompt and run."""
    return [
        [(name, job.prompts[index], submission.run) for name, index in zip(names, submission.prompts, strict=True)]
        for submission, names in zip(job.submissions, request_names(job), strict=True)
    ]


def job_of(arguments: Sequence[str], module: str) -> Job:
    """The job that a runner's only argument names. Raises SystemExit for another number of them."""
    if len(arguments) != 1:
        raise SystemExit(f"usage: python -m {module} JOB.json")
    return read_job(Path(arguments[0]).read_text(encoding="utf-8"))
