"""What a slot may carry: the states of its own document, and those of others that a mixed-up batch would feed.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from torch import Tensor

from eagle3_contract.model.states import Recipe, State
from eagle3_contract.verify.capture_set import Captured
from eagle3_contract.verify.sample_set import OtherSamples, SampleSet
from eagle3_contract.verify.states import Named

OTHERS: Final = 8
"""Other samples, or other requests, that a slot may be taken for."""


def of_document(stored: Mapping[State, Tensor], captured: Captured) -> Iterator[Named]:
    """The states [T, G] that the sample stores, and those that only the request recorded."""
    for state, x_TG in stored.items():
        yield Named(state, partial(_itself, x_TG))
    for state, name in captured.states.items():
        if state not in stored:
            yield Named(state, partial(captured.load, name))


def of_samples(others: OtherSamples | None, samples: SampleSet, besides: str, recipe: Recipe) -> Iterator[Named]:
    """States of other samples, of the recipe's own boundaries."""
    if others is None:
        return
    for name in others.names(besides, OTHERS):
        for state, index in zip(recipe, samples.picked, strict=True):
            yield Named(state, partial(others.state, name, index), sample=name)


def of_requests(rest: Sequence[Captured], besides: Captured, recipe: Recipe) -> Iterator[Named]:
    """States of other requests, as ``of_samples``."""
    for other in [c for c in rest if c is not besides][:OTHERS]:
        for state in recipe:
            if state in other.states:
                yield Named(state, partial(other.load, other.states[state]), sample=other.request.id)


def _itself(x: Tensor) -> Tensor:
    return x
