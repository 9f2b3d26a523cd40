"""What a difference between an engine and training does: who notices, and what acceptance does where nobody does.

Figures are measurements of others (the report is named) or our own on SmolLM2-135M-Instruct with a one-layer drafter trained on
boundaries [2, 15, 27]: accepted length of a greedy chain of 3 drafts over 40 samples, right reading 1.607 (``LAB``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from contract.findings import Json
from eagle3_contract.model.states import FINAL_NORM
from eagle3_contract.readings.reading import EngineReading, Outcome

LAB: Final = "measured on SmolLM2-135M-Instruct, 3 drafts, greedy, 40 samples"


class Consequence(StrEnum):
    """Who notices a difference: nobody, the one who starts the engine, the first user; or nobody needs to."""

    SILENT = "silent"
    LOUD_AT_LOAD = "loud_at_load"
    LOUD_AT_FIRST_REQUEST = "loud_at_first_request"
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True)
class Figure:
    """What acceptance did in one report, and where it is told."""

    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


FIGURES: Final[dict[str, Figure]] = {
    "feedback": Figure("accepted length 1.607 -> 1.517, the first draft as good as before", LAB),
    "vocab-present": Figure("mean accepted length 2.99 -> 1.12 with the map ignored", "vllm-project/vllm#18909"),
    "vocab-map": Figure("accepted length 1.607 -> 1.001 with offsets read as target ids", LAB),
    "lm-head": Figure("acceptance 0.0 with a head of uninitialised memory", "vllm-project/vllm#35548"),
    "rope-theta": Figure(
        "accepted length 3.612 -> 3.556 with base 10000 instead of 1000000",
        "sgl-project/SpecForge#265; 1.607 -> 1.603 on SmolLM2-135M-Instruct",
    ),
    "rope-type": Figure("acceptance decays at long positions", "NVIDIA-NeMo/Automodel#2825; no figure there"),
    "rope-scaling": Figure("acceptance decays at long positions", "NVIDIA-NeMo/Automodel#2825; no figure there"),
    "table-length": Figure("slower than no speculation beyond the 2048 positions of the drafter", "sgl-project/sglang#6783"),
    "window": Figure(
        "accepted length 2.295 against 1.584 at 2k tokens, 1.084 against 1.537 at 20k, by the window alone", "vllm-project/speculators#684"
    ),
    "token-shift": Figure("accepted length 1.607 -> 1.085 with each state paired with its own token", LAB),
    "step-positions": Figure("accepted length 1.67 -> 1.62 with positions that stay", "sgl-project/SpecForge#414"),
    "tensors": Figure("acceptance 0.0 where weights ran from uninitialised memory", "vllm-project/vllm#35548"),
    "norm-before-residual": Figure("logits move by 5 to 7", "speculators config/schema.py:145; no acceptance is published"),
    "final-norm": Figure("logits off by 36 at the first step", "SpecForge llama3_eagle.py:1772; no acceptance is published"),
    "double-norm": Figure("logits off by 0.07 to 0.17", "modelopt modeling_eagle.py:76; no acceptance is published"),
    "fc-applied": Figure("accepted length 1.607 -> 1.032 where the states do not arrive (all zero)", LAB),
    "draft-size": Figure("mean accepted length 2.99 -> 1.12 with another vocabulary", "vllm-project/vllm#18909"),
    "point": Figure("acceptance lower", "sgl-project/SpecForge#431; no figure there"),
    "norms-before-fc": Figure("acceptance lower", "vllm-project/vllm#38111; no figure there"),
    "embedding": Figure("accepted length poor with a random embedding", "lightseekorg/TorchSpec#38; no figure there"),
    "dtype": Figure("0.06 of 15 drafts accepted after an overflow in float16", "InternLM/lmdeploy#4991"),
}
"""By the last part of the rule's id."""

OFF_BY_ONE: Final = Figure(
    "position-0 acceptance 45% -> 10% with states one layer early",
    "vllm-project/vllm#43671; 1.607 -> 1.568 one late on SmolLM2-135M-Instruct",
)
BY_DEFAULT: Final = Figure("mean accepted length 2.77 -> 1.036 with the default states", "vllm-project/vllm#50170")
WITHOUT_EMBEDDING: Final = Figure(
    "accepted length about 1.6 of 16 drafts, 54.8 tok/s against 90 without speculation",
    "the incident of specs/kimi-k2.5-eagle3.yaml; 1.530 -> 1.186 on SmolLM2-135M-Instruct",
)
REORDERED: Final = Figure("accepted length 1.607 -> 1.558 (first two swapped) or 1.103 (reversed)", LAB)
NORMED_LAST: Final = Figure("accepted length 1.607 -> 1.119 with the normed last state in the highest slot", LAB)
ANOTHER: Final = Figure("accepted length 1.607 -> 1.216 with another recipe", LAB)


def figure_for(rule: str, stated: Any, actual: Any, *, by_default: bool = False) -> Figure | None:
    """What is known about acceptance under a difference of this kind; None if nothing is published.

    Args:
        rule: the rule's id (``reading.boundaries``).
        stated: what training did.
        actual: what the engine does.
        by_default: whether the engine fell back to a default.
    """
    name = rule.rpartition(".")[2]
    if name == "boundaries" and isinstance(stated, Sequence) and isinstance(actual, Sequence):
        return _recipe(list(stated), list(actual), by_default)
    return FIGURES.get(name)


def _recipe(stated: list[Any], actual: list[Any], by_default: bool) -> Figure:
    if sorted(map(str, stated)) == sorted(map(str, actual)):
        return REORDERED
    if FINAL_NORM in actual and FINAL_NORM not in stated:
        return NORMED_LAST
    numbers = all(isinstance(s, int) for s in (*stated, *actual))
    if numbers and len(stated) == len(actual) and {a - s for s, a in zip(stated, actual, strict=True)} in ({1}, {-1}):
        return OFF_BY_ONE
    if 0 in stated and 0 not in actual:
        return WITHOUT_EMBEDDING
    return BY_DEFAULT if by_default else ANOTHER


def consequence_of(reading: EngineReading) -> Consequence:
    """What a difference in a field of this reading is, for whoever serves it: an engine that stops loses no acceptance silently."""
    return {
        Outcome.OK: Consequence.SILENT,
        Outcome.ERROR_AT_LOAD: Consequence.LOUD_AT_LOAD,
        Outcome.ERROR_AT_FIRST_REQUEST: Consequence.LOUD_AT_FIRST_REQUEST,
    }[reading.outcome]


def told(reading: EngineReading, figure: Figure | None) -> tuple[str, dict[str, Json]]:
    """The sentence that a finding ends with, and its evidence."""
    consequence = consequence_of(reading)
    evidence: dict[str, Json] = {"outcome": consequence.value, "acceptance": None if figure is None else str(figure)}
    known = str(figure) if figure is not None else "no figure is published"
    if consequence is Consequence.SILENT:
        return f". Silent, acceptance is lost: {known}", evidence
    when = "at load" if consequence is Consequence.LOUD_AT_LOAD else "at the first request"
    return f". Hidden behind the error {when}; silent once that is mended: {known}", evidence | {"once_mended": Consequence.SILENT.value}
