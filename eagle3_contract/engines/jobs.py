"""Jobs for the runners inside the engines' environments: which prompts, in which submissions, under which circumstances.

Legend: P tokens of a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from contract.errors import UsageError
from contract.files.names import shown
from eagle3_contract.engines.assemble import WARM
from eagle3_contract.engines.rules import RULES, rejected
from eagle3_contract.engines.transformers import Prompt

PLAIN: Final = ""
RUNS: Final = ("plain", "again", "batched", "cached", "chunked")
"""Circumstances by the words of the command line; ``plain`` is ``""`` in a bundle."""
APART: Final = ("cached", "chunked")
"""Runs that need flags, and so a start of the engine, of their own."""
STARTS: Final = ((PLAIN, "again", "batched"), *((run,) for run in APART))
"""Runs that share one start of an engine."""


def parse_runs(words: Iterable[str]) -> tuple[str, ...]:
    """Runs as a bundle names them, in the order of ``RUNS``, from words of the command line (``all`` for all; none for ``plain``).

    The plain run is always among them and comes first: it is what training is compared with, and what the others are measured against.

    Raises:
        UsageError: ``engine.options`` for another word.
    """
    given = [w for word in words for w in word.split(",")] or ["plain"]
    for word in given:
        if word not in (*RUNS, "all"):
            raise UsageError(
                f"{shown(word)!r} is no run; there are {', '.join(RUNS)}, all", rule="engine.options", fix=RULES["engine.options"].remedy
            )
    chosen = RUNS if "all" in given else [r for r in RUNS if r in given or r == "plain"]
    return tuple(PLAIN if r == "plain" else r for r in chosen)


def starts(runs: Sequence[str]) -> list[tuple[str, ...]]:
    """The runs of each start of the engine."""
    return [chosen for group in STARTS if (chosen := tuple(r for r in group if r in runs))]


def submissions(runs: Sequence[str], prompts: int) -> list[dict[str, Any]]:
    """Each call of the engine: one prompt at a time, or all of them where the run is about that. A cache is filled before it is used."""
    made: list[dict[str, Any]] = []
    for run in runs:
        if run == "batched":
            made.append({"run": run, "prompts": list(range(prompts))})
            continue
        for i in range(prompts):
            made += [{"run": WARM, "prompts": [i]}] if run == "cached" else []
            made.append({"run": run, "prompts": [i]})
    return made


def token_lists(prompts: Iterable[Prompt], vocabulary: int | None) -> list[dict[str, Any]]:
    """Prompts as a job holds them.

    Raises:
        InputRejected: ``engine.prompt`` for an empty one, a token that the target does not have, or an id that comes twice.
    """
    found: list[dict[str, Any]] = []
    ids: set[str] = set()
    for prompt in prompts:
        tokens = prompt.input_ids.tolist() if isinstance(prompt.input_ids, Tensor) else list(prompt.input_ids)
        if not tokens or min(tokens) < 0 or (vocabulary is not None and max(tokens) >= vocabulary):
            raise rejected(
                "engine.prompt", f"prompt {shown(prompt.id)} holds {len(tokens)} tokens, or one beyond the vocabulary of {vocabulary}"
            )
        if prompt.id in ids:
            raise rejected("engine.prompt", f"two prompts have the id {shown(prompt.id)}")
        ids.add(prompt.id)
        found.append({"id": prompt.id, "input_ids": tokens, "sample": prompt.sample})
    return found


def write_job(path: Path, **job: Any) -> Mapping[str, Any]:
    """Write a job file."""
    path.write_text(json.dumps(job), encoding="utf-8")
    return job
