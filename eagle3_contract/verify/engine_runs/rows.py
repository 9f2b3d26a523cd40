"""Which rows of a request stand for which rows of a sample, when an engine has generated on behind a prompt; every row is accounted for.

The states of a row depend on the tokens up to it and on nothing else (the target is causal), so that the rows up to the first token that
differs are those of the sample, whatever follows. Legend: T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from contract.files.bundle import Bundle, BundleRequest
from contract.files.bundle_manifest import INPUT_IDS, PREFIX_IDS
from contract.files.torch_tensors import load_tensor
from contract.findings import Check, Json, Where
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify.engine_runs import rules

PLAIN: Final = ""
"""The run whose states are compared with training's: each prompt alone, without a cache."""
FURTHER: Final = "of further runs, for the noise comparison only"
CACHED: Final = "behind a cached prefix, so that the drafter cannot be run from the first row"
REFUSED: Final = "of requests that have a finding of their own"
NOT_COMPARED: Final = "of requests that could not be compared"
UNJUDGED: Final = "generated, without recorded boundaries"


def is_compared(request: BundleRequest) -> bool:
    """Whether a request takes part in the comparison with training: of the plain run, and with its first row."""
    return request.info.run == PLAIN and PREFIX_IDS not in request.tensors


def rows_in_common(a_T: Tensor, b_T: Tensor) -> int:
    """How many leading tokens are equal."""
    shared = min(len(a_T), len(b_T))
    differing = (a_T[:shared] != b_T[:shared]).nonzero()
    return int(differing[0]) if len(differing) else shared


def repeats(request: BundleRequest, ids_T: Tensor, sample_ids_T: Tensor) -> bool:
    """Whether a request runs a sample's tokens: its whole prompt is in the sample, or the whole sample is in its prompt."""
    return rows_in_common(ids_T, sample_ids_T) >= min(request.info.prompt_tokens, len(sample_ids_T))


def first_rows(sample: TrainingSample, rows: int) -> TrainingSample:
    """The sample up to a row, as if its text ended there."""
    if rows >= sample.tokens:
        return sample

    def cut(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[:rows]

    return replace(
        sample,
        input_ids_T=sample.input_ids_T[:rows],
        loss_mask_T=cut(sample.loss_mask_T),
        states_THk=tuple(x[:rows] for x in sample.states_THk),
        last_TG=cut(sample.last_TG),
        document_ids_T=cut(sample.document_ids_T),
        extras={name: x[:rows] if x.ndim and x.shape[0] == sample.tokens else x for name, x in sample.extras.items()},
    )


def generated_mask(request: BundleRequest) -> Tensor | None:
    """[T] uint8, 1 where the engine generated the token; None if it generated none of those that it ran."""
    prompt = request.info.prompt_tokens - prefix_length(request)
    if prompt >= request.tokens:
        return None
    mask_T = torch.ones(request.tokens, dtype=torch.uint8)
    mask_T[: max(prompt, 0)] = 0
    return mask_T


def prefix_length(request: BundleRequest) -> int:
    """Tokens before the first row, from a prefix cache."""
    return request.info.tensors[PREFIX_IDS].shape[0] if PREFIX_IDS in request.tensors else 0


def full_tokens(request: BundleRequest) -> Tensor:
    """[c + T] the tokens from position 0 on, those from a prefix cache too."""
    ids_T = load_tensor(request.tensors[INPUT_IDS])
    return torch.cat([load_tensor(request.tensors[PREFIX_IDS]), ids_T]) if PREFIX_IDS in request.tensors else ids_T


@dataclass(frozen=True, slots=True)
class Covered:
    """What became of one request's rows: ``common`` compared with the sample, ``own`` with the request's own boundaries."""

    request: BundleRequest
    sample: str | None
    sample_rows: int
    common: int
    own: int


class RowLedger:
    """Collects what became of every row of the bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._covered: list[Covered] = []
        self.refused: set[str] = set()

    def add(self, covered: Covered) -> None:
        self._covered.append(covered)

    def checks(self) -> list[Check]:
        """One check for the samples' rows, one for the requests'; counts in the evidence."""
        found = []
        of_samples = [c for c in self._covered if c.sample is not None]
        if of_samples:
            found.append(_samples_covered(of_samples))
        found.append(self._requests_used())
        return found

    def _requests_used(self) -> Check:
        seen = {c.request.id: c for c in self._covered}
        total = sum(r.tokens for r in self._bundle.requests)
        used = {"compared with training": 0, "compared with the request's own boundaries": 0}
        left: dict[str, int] = {}
        examples: dict[str, str] = {}

        def leave(why: str, rows: int, request: BundleRequest) -> None:
            if rows:
                left[why] = left.get(why, 0) + rows
                examples.setdefault(why, request.id)

        for request in self._bundle.requests:
            covered = seen.get(request.id)
            if request.info.run != PLAIN:
                leave(FURTHER, request.tokens, request)
            elif not is_compared(request):
                leave(CACHED, request.tokens, request)
            elif request.id in self.refused:
                leave(REFUSED, request.tokens, request)
            elif covered is None:
                leave(NOT_COMPARED, request.tokens, request)
            else:
                used["compared with training"] += covered.common
                used["compared with the request's own boundaries"] += covered.own
                leave(UNJUDGED, request.tokens - covered.common - covered.own, request)
        figures: dict[str, Json] = {"rows": total, "used": dict(used), "left_out": dict(left)}
        parts = [f"{n} {what}" for what, n in (*used.items(), *left.items()) if n]
        text = f"{total} rows of {len(self._bundle.requests)} requests are accounted for: {'; '.join(parts)}"
        unjudged = left.get(UNJUDGED, 0) + left.get(NOT_COMPARED, 0)
        if unjudged:
            where = Where(sample=examples.get(UNJUDGED, examples.get(NOT_COMPARED)))
            return rules.ROWS_USED.undecided(
                text, required=False, fix=rules.ROWS_USED.remedy, where=where, actual=unjudged, evidence=figures
            )
        return rules.ROWS_USED.passed(text, evidence=figures)


def _samples_covered(covered: Sequence[Covered]) -> Check:
    short = [c for c in covered if c.common < c.sample_rows]
    rows, due = sum(c.common for c in covered), sum(c.sample_rows for c in covered)
    figures: dict[str, Json] = {
        "rows": due,
        "covered": rows,
        "per_sample": {str(c.sample): {"request": c.request.id, "rows": c.sample_rows, "covered": c.common} for c in short},
    }
    if not short:
        return rules.ROWS_COVERED.passed(f"the capture holds all {due} rows of {len(covered)} samples", evidence=figures)
    worst = min(short, key=lambda c: c.common / c.sample_rows)
    return rules.ROWS_COVERED.undecided(
        f"the capture holds {rows} of {due} rows of {len(covered)} samples; least of {worst.sample}: {worst.common} of "
        f"{worst.sample_rows} rows, then the request's tokens are the engine's own or end",
        required=False,
        expected=due,
        actual=rows,
        fix=rules.ROWS_COVERED.remedy,
        where=Where(sample=worst.sample, row=worst.common),
        evidence=figures,
    )
