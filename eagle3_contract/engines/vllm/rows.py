"""Whose rows they are: splitting a batch by request, phases, sample rows and rounds. Plain numbers; needs no vLLM.

Legend: B requests of a batch, n rows of one request, P tokens of its prompt, D its proposed tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

REJECTED: Final = -1
"""What vLLM's rejection sampler writes for a draft that was not accepted (v1/sample/rejection_sampler.py: PLACEHOLDER_TOKEN_ID)."""
RANDOM_SUFFIX: Final = 9
"""vLLM appends ``-`` and eight characters to the id of every request (v1/engine/input_processor.py:371, vLLM 0.32.0)."""

TargetPhase = Literal["prefill", "verify", "decode"]


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows ``[start, stop)`` of a batch that belong to the request ``id``."""

    id: str
    start: int
    stop: int


def slices(ids: Sequence[str], starts: Sequence[int]) -> list[Slice]:
    """The rows of each request. ``starts`` is vLLM's ``query_start_loc``: entry i is where request i begins, entry i+1 where it ends.

    Entries behind the last request, which padding for a graph leaves, are not looked at; nor are rows behind the last request.

    Raises:
        ValueError: ``starts`` does not rise, does not begin at 0 or is too short.
    """
    bounds = [int(s) for s in starts[: len(ids) + 1]]
    if len(bounds) != len(ids) + 1 or bounds[0] != 0 or any(a > b for a, b in pairwise(bounds)):
        raise ValueError(f"the engine's query_start_loc {bounds} does not split the rows of {len(ids)} requests")
    return [Slice(id_, bounds[i], bounds[i + 1]) for i, id_ in enumerate(ids)]


def target_phase(rows: int, drafts: int, first_position: int, prompt_tokens: int) -> TargetPhase:
    """What the target's rows of one request were for.

    A request that was preempted is computed again from its first token; its generated tokens are prefill then, like its prompt.
    """
    if drafts:
        return "verify"
    return "decode" if rows == 1 and first_position >= prompt_tokens else "prefill"


def emitted(sampled: Sequence[int], vocabulary: int) -> list[int]:
    """What a row of the sampler's output gave: the tokens before the first that was rejected (vLLM pads with -1)."""
    kept: list[int] = []
    for token in sampled:
        if not 0 <= token < vocabulary:
            break
        kept.append(int(token))
    return kept


def sample_row(place: int, rows: Slice) -> int:
    """The row, within the request, at ``place`` of the batch.

    Raises:
        ValueError: that row belongs to another request.
    """
    if not rows.start <= place < rows.stop:
        raise ValueError(f"the engine samples row {place} for request {rows.id}, whose rows are {rows.start} to {rows.stop - 1}")
    return place - rows.start


def request_name(internal: str, known: Mapping[str, str]) -> str:
    """The name that a client gave a request, from vLLM's internal id; ``known`` holds the names that were chosen by us, by client's id."""
    if internal in known:
        return known[internal]
    client = internal[:-RANDOM_SUFFIX] if len(internal) > RANDOM_SUFFIX and internal[-RANDOM_SUFFIX] == "-" else internal
    return known.get(client, client)
