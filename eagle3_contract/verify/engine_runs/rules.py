"""The rules about runs of a real engine: its noise, its tokens, its acceptance. No torch."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity


def _rule(
    id_: str, title: str, why: str, remedy: str, dimension: str, *, depth: Depth | None = Depth.VERIFY, severity: Severity = Severity.ERROR
) -> Rule:
    return Rule(id=id_, title=title, severity=severity, dimension=dimension, why=why, remedy=remedy, depth=depth)


COUNTERS: Final = _rule(
    "acceptance.counters",
    "Counters that are compared belong together",
    "Acceptance is a ratio of counters. If one shrank between two readings, or more drafts were accepted than proposed, they come from "
    "two processes, and every figure made of them is wrong.",
    "Read both from one server process, without a restart in between.",
    "metric",
)
ROWS_COVERED: Final = _rule(
    "capture.rows-covered",
    "The capture holds every row of the samples",
    "An engine that is given a sample's prompt writes its own text behind it: rows from the first other token on are no longer the "
    "sample's, and what training saw there is not verified by them.",
    "Give the engine the samples' whole texts as prompts (`contract capture --samples` does), or accept that the rest is not covered.",
    "alignment",
    depth=None,
    severity=Severity.NOTE,
)
ROWS_USED: Final = _rule(
    "capture.rows-used",
    "Every row of the capture is used or accounted for",
    "A row that is passed over in silence is where a fault hides. Generated rows can be judged against the boundaries that the request "
    "itself recorded; rows behind a cached prefix and rows of further runs serve other comparisons.",
    "Record every boundary (`contract capture --sweep`), so that generated rows can be compared too.",
    "alignment",
    depth=None,
    severity=Severity.NOTE,
)
RUNS_DIFFER: Final = _rule(
    "engine.runs-differ",
    "The engine computes the same for the same tokens, alone, batched, behind a cache and in chunks",
    "Other batch shapes add up in another order; that noise is bounded by the dtype. A difference beyond it means that rows were computed "
    "from something else than their own tokens: a cache entry of another request, a chunk that forgot what was before it, a padded row "
    "that leaked. Text may stay plausible; states fed to the drafter are wrong from that row on.",
    "The row named is the first one: look at what is special about it (cached prefix, chunk boundary, batch), and report it to the engine. "
    "Until then switch that feature off, and verify without the run.",
    "engine",
)
NOISE: Final = _rule(
    "engine.noise-floor",
    "The engine's noise leaves room to tell states apart",
    "Tolerances are the larger of the dtype's bound and three times the measured noise floor, up to a cap. A floor above the cap means "
    "that states that differ cannot be told from noise: the comparison is undecided, and no tolerance is widened for it.",
    "Measure in a wider dtype, or with deterministic kernels (SGLang --enable-deterministic-inference, vLLM VLLM_BATCH_INVARIANT=1).",
    "engine",
)
TOKENS_DIFFER: Final = _rule(
    "engine.tokens-differ",
    "The engine says the same after the same prompt, in every run",
    "Greedy text differs between runs where two tokens are nearly tied and noise decides; that is no fault. Where the margin was wide, the "
    "engine computed from something else, and speculation is no longer lossless.",
    "See engine.runs-differ for the first row that differs; report it to the engine.",
    "engine",
)
ENGINE_COUNTERS: Final = _rule(
    "engine.counters",
    "The engine counted the rounds, drafts and accepted tokens that were recorded",
    "Measured acceptance is only worth what it counts. Where the engine's own counters say something else than the recorded rounds, rounds "
    "are missing from the capture, or the counters count what they should not (a request that had ended, drafts that nobody made).",
    "Compare the two figures per request; docs/acceptance.md says what each counter counts.",
    "engine",
)
PREDICTED: Final = _rule(
    "acceptance.predicted",
    "The engine accepts as many drafts as the drafter can",
    "Our forward of the drafter, under the contract's wiring, was run at the same places of the same text as the engine's. If the text "
    "accepts more of its drafts than of the engine's, beyond what chance between rounds explains, the engine runs another drafter than the "
    "one that was trained, or feeds it something else: speed is lost, and no error says so.",
    "Look at the round and step where the proposals part first; comparison of states, forwards and logits say which tensor it is.",
    "engine",
)
RULES: Final = (COUNTERS, ENGINE_COUNTERS, PREDICTED, ROWS_COVERED, ROWS_USED, RUNS_DIFFER, NOISE, TOKENS_DIFFER)
