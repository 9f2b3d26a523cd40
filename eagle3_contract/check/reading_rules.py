"""The rules about engines' readings: one per field that must be what training did."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity

_REMEDY: Final = (
    "Write the key that this engine reads with the value of training (`contract export` does it), or serve with an engine that reads it so."
)


def reading_rule(name: str, title: str, dimension: str, why: str, remedy: str = _REMEDY) -> Rule:
    """A rule ``reading.<name>``."""
    return Rule(id=f"reading.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy)


_TABLE: Final[tuple[tuple[str, ...], ...]] = (
    # name, title, dimension, why, and the remedy where it is another than the usual one
    (
        "boundaries",
        "The engine feeds the states of the recipe, in its order",
        "recipe",
        "One key names boundary k on one reader and k+1 on the next; a third does not read it and takes 2, N//2, N-3 instead. "
        "Off by one cost 10% against 45% at position 0 (vllm#43671); another recipe two thirds of all accepted drafts.",
    ),
    (
        "point",
        "The engine captures the stream that training recorded",
        "recipe",
        "SGLang's Gemma3 hands over the MLP branch without the residual (gemma3_causal.py:632-672); its Qwen3-VL has captured before "
        "injected vision features, transformers after them (SpecForge#431).",
        "Serve with an engine that captures this stream, or train on the stream that the engine captures.",
    ),
    (
        "fc-applied",
        "The engine runs fc exactly if training did",
        "wiring",
        "SGLang skips fc and its norms where the fed width equals the drafter's (SGLang llama_eagle3.py:238).",
    ),
    (
        "fc-count",
        "The engine builds fc for as many states as the recipe has",
        "recipe",
        "The count comes from other keys than the ids: num_aux_hidden_states, nested ids, else 3 (vLLM llama_eagle3.py:210).",
    ),
    (
        "fc-bias",
        "The engine's fc has a bias exactly if training's had",
        "wiring",
        "Key `bias` at the top level; without the tensor it is random.",
    ),
    (
        "norms-before-fc",
        "The engine norms the states before fc as training did",
        "wiring",
        "vLLM and SGLang drop input_norm without its flag; the MLA drafter of SGLang does not know that flag (vLLM llama_eagle3.py:465).",
    ),
    (
        "norm-before-residual",
        "The engine's first residual is that of training",
        "wiring",
        "Only vLLM has this switch, with two defaults; SGLang adds the raw state always (vLLM llama_eagle3.py:101).",
    ),
    (
        "feedback",
        "The engine hands the state of training to the next step",
        "wiring",
        "Step 0 is equal either way, so that a one-step test shows nothing.",
    ),
    (
        "double-norm",
        "The engine norms the hidden stream as often as training did",
        "wiring",
        "ModelOpt >= 0.41 trains hidden_norm(input_layernorm(h)); no engine computes it (modelopt modeling_eagle.py:76: off by 0.07 to "
        "0.17).",
    ),
    (
        "later-layer-norm",
        "Layers after the first enter through the norm of training",
        "wiring",
        "vLLM loads input_layernorm, SGLang hidden_norm; a file with only one of them runs with ones in the other.",
    ),
    (
        "final-norm",
        "The engine norms before the head exactly if training did",
        "wiring",
        "Engines always norm before the head (SpecForge llama3_eagle.py:1772).",
    ),
    ("vocab-present", "The engine finds the vocab map that training had", "vocab", "A missing map is the identity, silently."),
    ("vocab-map", "The engine reads the vocab map as training wrote it", "vocab", "Every engine adds the draft id to d2t."),
    (
        "draft-size",
        "The engine's head has the draft vocabulary of training",
        "vocab",
        "Without the key it is the whole vocabulary, or an error.",
    ),
    (
        "embedding",
        "The engine looks tokens up in the table that training used",
        "weights",
        "SGLang always takes the target's, vLLM the drafter's where it differs from the target's (SGLang eagle_worker_v2.py:363).",
    ),
    (
        "lm-head",
        "The engine uses the head that training used",
        "weights",
        "Null or missing sizes, ties and missing tensors make engines take the target's (sglang#27908, SGLang llama_eagle3.py:306).",
    ),
    ("rope-theta", "The engine's rope base is that of training", "rope", "It is 10000 without the key, silently."),
    (
        "rope-type",
        "The engine's rotary scheme is that of training",
        "rope",
        "ModelOpt's export adds YaRN to drafters trained without (modelopt hf_spec_export.py:213).",
    ),
    ("rope-scaling", "The engine scales the rotary frequencies as training did", "rope", "A wrong phase grows with the position."),
    ("table-length", "The engine's rope table is as long as training's", "rope", "Positions beyond it were not trained, or crash."),
    (
        "window",
        "The engine attends to the window of training",
        "rope",
        "SGLang 0.5.23 ignores the drafter's sliding_window; speculators trains with 2048 by default (speculators config/schema.py:145).",
    ),
    ("layers", "The engine runs the layers of training", "shapes", "More layers than weights run on uninitialised memory."),
    (
        "sizes",
        "The engine takes the drafter's sizes to be those of training",
        "shapes",
        "Weights are cut or padded to these sizes, silently.",
    ),
    (
        "numerics",
        "The engine computes with the constants of training",
        "wiring",
        "Epsilon, activation and scales come from keys or defaults.",
    ),
    (
        "attention",
        "The engine builds the attention that training had",
        "wiring",
        "SGLang 0.5.23 has no q/k norms and no q, k, v biases in its Llama drafter and drops such tensors silently. vLLM 0.32.0 builds "
        "EncoderOnlyAttention where is_causal is false (models/llama.py:277-283).",
    ),
    (
        "step-positions",
        "The engine rotates every step at the position of training",
        "alignment",
        "Engines advance the position with each step; SpecForge trained with constant ones once (SpecForge#414).",
        "Train with positions that advance, as engines do.",
    ),
    (
        "dtype",
        "The engine runs the drafter in a dtype that holds the range of training",
        "dtype",
        "float16 ends at 65504: Qwen3's outliers overflow where the states are fused (lmdeploy#4991). SGLang runs a float32 config in "
        "float16 (configs/model_config.py:2284-2330).",
        "Write dtype bfloat16 into config.json, or serve with --dtype bfloat16.",
    ),
)
FIELD_RULES: Final = {row[0]: reading_rule(*row) for row in _TABLE}
