"""The rules about captured states: what a slot may carry instead of what training fed, each with its own page."""

from __future__ import annotations

from typing import Final

from contract.findings import Depth, Rule, Severity

_SEEN: Final = "Speculation stays lossless, so nothing crashes and the text stays right; only acceptance falls, silently. "


def _rule(name: str, title: str, why: str, remedy: str, *, dimension: str = "recipe") -> Rule:
    return Rule(
        id=f"states.{name}",
        title=title,
        severity=Severity.ERROR,
        dimension=dimension,
        why=_SEEN + why,
        remedy=remedy,
        depth=Depth.VERIFY,
    )


RECIPE: Final = _rule(
    "recipe",
    "The slots carry the contract's states, in the contract's order",
    "This is the incident the project was born from: training fed [0, 3, 31], the engine fed [3, 31, 59]; 54.8 tokens/s against "
    "a baseline of 90. "
    "On a trained drafter another recipe cuts the accepted drafts by two thirds.",
    "Make the engine capture the contract's boundaries: set the key that this engine reads, in its own numbering (`contract read`).",
)
ORDER: Final = _rule(
    "order",
    "The slots are in the contract's order",
    "The right states reach fc in another order, so its columns meet the wrong states. vLLM sorts the ids (0.32.0 "
    "interfaces.py:1578) and both engines "
    "capture in ascending order whatever the list says; AngelSlim and TorchSpec concatenate as listed. Two slots swapped cost 8% "
    "to 75% of the accepted drafts.",
    "Train or export with ascending boundaries, or permute fc's columns to the engine's order.",
)
OFF_BY_ONE: Final = _rule(
    "off-by-one",
    "No slot is a layer early or late",
    "`eagle_aux_hidden_state_layer_ids: k` is the input of layer k for vLLM and speculators, its output for SGLang, SpecForge, "
    "ModelOpt. Off by one "
    "costs 4% of the acceptance in one drafter and most of it in another (vllm#43671: position-0 acceptance 10% against 45%): no "
    "counter shows it.",
    "Write the ids in the numbering of the engine that reads them.",
)
DUPLICATE: Final = _rule(
    "duplicate-slot",
    "No state is fed twice",
    "Two slots carry the same state, so one of the trained states is missing. Default ids coincide on shallow targets, and "
    "aliased buffers repeat the last layer.",
    "Make the ids distinct; if they are, look for a capture that stores references instead of copies.",
)
SLOT: Final = _rule(
    "slot",
    "Every slot carries the state that the contract names",
    "A slot carries another boundary of the target than training fed.",
    "Make the engine capture the boundary that the contract names for this slot.",
)
NORMED: Final = _rule(
    "normed",
    "Raw states are raw, normed ones are normed",
    "A slot carries a state behind a norm (or before it) that training did not have there. The final norm in the last slot cuts "
    "accepted drafts by 80%.",
    "Capture the residual stream before the norm, or state `final_norm` in the contract if training fed that.",
)
SHIFTED: Final = _rule(
    "shifted",
    "Every row belongs to its own token",
    "The states are those of the neighbouring token. One row late costs a third of the accepted drafts.",
    "Pair hidden state g[t] with token x[t+1]: check the slicing of prompt and response rows in the engine.",
    dimension="alignment",
)
OTHER_SAMPLE: Final = _rule(
    "other-sample",
    "Every slot belongs to its own prompt",
    "The states are those of another prompt: rows of a batch or entries of a cache are mixed up (speculators#279). Pooled "
    "figures do not show it: "
    "the states of another prompt have cosine 0.997.",
    "Join states to requests by request id, not by offset.",
    dimension="alignment",
)
SCALED: Final = _rule(
    "scaled",
    "The states have the scale of training",
    "The states are the right ones times a constant: an embedding or residual multiplier is applied on one side only (Gemma, "
    "MiniCPM), or a quantisation scale was dropped.",
    "Apply the target's embedding or residual scale on both sides.",
)
PARTIAL: Final = _rule(
    "partial",
    "Every slot is the whole residual stream",
    "Only a part of the state arrives: one rank's half, a partial sum before the all-reduce (sglang#28343, TP > 1), or the "
    "branch without the residual.",
    "Capture behind the all-reduce and with the residual added.",
)
EMPTY: Final = _rule(
    "empty",
    "No slot is empty",
    "Every row is zero or the same: the buffer was never filled. A zeroed slot may cost nothing in acceptance, and it is a fault "
    "all the same.",
    "Check that the capture of this layer runs at all (wrapper classes, pipeline stages).",
)
ROWS: Final = _rule(
    "rows",
    "Every row of a slot is the state of training",
    "Most rows are right and some are not: a chunk boundary, a padded or reused buffer, a cache hit.",
    "Look at what the engine did with the rows named: chunked prefill, prefix cache, padding.",
    dimension="engine",
)
UNEXPLAINED: Final = _rule(
    "unexplained",
    "Every slot can be explained",
    "The slot carries no state that was available for comparison: another target, another stream (before or after injected "
    "vision features), another quantisation "
    "(a rotated residual stream: vllm-ascend#5974, mean length 1.07), or noise above the tolerance.",
    "Compare the target of training with the one that is served: revision, dtype, quantisation. A capture with all boundaries "
    "names more candidates.",
)
AMBIGUOUS: Final = _rule(
    "ambiguous",
    "Every slot can be told from its neighbours",
    "Two candidates are within tolerance and neither is twice as close as the other, so the slot proves nothing.",
    "Use more rows, a finer dtype, or a quieter engine mode; see the tolerance in the evidence.",
)
SLOT_COUNT: Final = _rule(
    "slot-count",
    "As many slots are fed as the contract has states",
    "A slot is missing or there is one too many. A state that the engine cannot capture (the last layer, -1 on DeepSeek types) "
    "vanishes from its list.",
    "Make the engine capture every state of the contract.",
)
SHAPE: Final = _rule(
    "shape",
    "Captured and trained states have one shape",
    "Fewer rows than tokens, or another width: rows were dropped, or the states are those of another target.",
    "Record every row of the request, from the target that training used.",
)
POINT: Final = _rule(
    "point",
    "The stream that the slots carry is the one that the contract names",
    "A layer that hands on a branch and a residual has three things that a hook can take. A drafter that was trained on the branch alone "
    "and is fed the sum sees other values in every row; a contract that says so of a drafter trained on the sum misleads the next engine.",
    "Correct hidden_states.point in the contract.",
)
RULES: Final = (
    RECIPE, ORDER, OFF_BY_ONE, DUPLICATE, SLOT, NORMED, SHIFTED, OTHER_SAMPLE, SCALED, PARTIAL, EMPTY, ROWS, UNEXPLAINED, AMBIGUOUS,
    SLOT_COUNT, SHAPE, POINT,
)  # fmt: skip
