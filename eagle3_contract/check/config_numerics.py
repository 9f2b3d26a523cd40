"""What config.json says about the arithmetic inside the layer, against the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from contract.findings import Check, Json
from eagle3_contract.check.compare import agree, said, same
from eagle3_contract.check.config_fields import ConfigField, always, check_fields, config_rule, decoder_keys, one_answer, top_keys
from eagle3_contract.check.config_view import Layout
from eagle3_contract.check.consequences import Consequence
from eagle3_contract.check.context import CheckContext
from eagle3_contract.readings.config_classes import CLASS_DEFAULTS, has_class, window_of_class

_W: Final = "wiring"

EPS: Final = config_rule(
    "rms-norm-eps",
    "rms_norm_eps is that of training",
    _W,
    "The epsilon of every norm; readers fall back to LlamaConfig's 1e-6 without the key. Small states feel it most.",
)
ACT: Final = config_rule("hidden-act", "hidden_act is that of training", _W, "The activation of the MLP; readers fall back to silu.")
MLP_BIAS: Final = config_rule(
    "mlp-bias",
    "mlp_bias says whether the MLP has biases",
    _W,
    "If it is true and the tensors are missing, vLLM 0.32.0 runs with uninitialised biases, silently (observed).",
)
ATTENTION_BIAS: Final = config_rule(
    "attention-bias",
    "attention_bias says whether the attention has biases",
    _W,
    "SGLang 0.5.23 loads the bias of o_proj and drops those of q, k, v; vLLM 0.32.0 runs with uninitialised ones if the tensors are "
    "missing (observed on both).",
)
FC_BIAS: Final = config_rule(
    "fc-bias",
    "bias says whether fc has a bias",
    _W,
    "Key `bias` at the top level. If it is true and fc.bias is missing, SGLang 0.5.23 runs with a random one (observed).",
)
LOGIT_SCALE: Final = config_rule(
    "logit-scale", "logit_scale is that of training", _W, "Engines multiply the logits by it; sampling and top-k trees feel it."
)
TIE: Final = config_rule(
    "tie-word-embeddings",
    "tie_word_embeddings says whether the head is the embedding",
    "weights",
    "With true SGLang 0.5.23 makes lm_head the embedding, and a [draft vocabulary, hidden] lm_head of the file matches no parameter and "
    "is dropped silently (SGLang llama_eagle3.py:306); 14 AngelSlim templates combine it with a reduced vocabulary. vLLM 0.32.0 ignores "
    "the key.",
    "Set tie_word_embeddings to false unless the head really is the embedding.",
)
WINDOW: Final = config_rule(
    "sliding-window",
    "The sliding window of config.json is that of training",
    "rope",
    "speculators 0.9.0 trains with a window of 2048 by default (speculators config/schema.py:145). SGLang 0.5.23 ignores the drafter's "
    "sliding_window, older vLLM took the target's: acceptance at 20k tokens 1.08 against 1.54 (speculators#684).",
)

FIELDS: Final = (
    ConfigField(rule=EPS, path=("wiring", "rms_norm_eps"), find=decoder_keys("rms_norm_eps"), fallback=always(1e-6)),
    ConfigField(rule=ACT, path=("wiring", "hidden_act"), find=decoder_keys("hidden_act"), fallback=always("silu")),
    ConfigField(rule=MLP_BIAS, path=("wiring", "mlp_bias"), find=decoder_keys("mlp_bias"), fallback=always(False)),
    ConfigField(rule=FC_BIAS, path=("wiring", "fc_bias"), find=top_keys("bias"), fallback=always(False)),
    ConfigField(rule=LOGIT_SCALE, path=("wiring", "logit_scale"), find=decoder_keys("logit_scale"), fallback=always(1.0)),
)


def check_config_numerics(ctx: CheckContext) -> Iterator[Check]:
    """Epsilon, activation, biases, tie and window of config.json."""
    yield from check_fields(ctx, FIELDS)
    if ctx.drafter.config is None:
        return
    yield _attention_bias(ctx)
    yield from _tie(ctx)
    yield _window(ctx)


def _attention_bias(ctx: CheckContext) -> Check:
    found = ctx.config.decoder("attention_bias")
    value = found[0].value if found and found[0].value is not None else False
    qkv, o = ctx.stated("wiring", "qkv_bias"), ctx.stated("wiring", "o_bias")
    if not qkv.known or not o.known:
        return ATTENTION_BIAS.undecided(
            f"the contract does not say which biases the attention has: {qkv.reason or o.reason}", where=ctx.place("wiring", "qkv_bias")
        )
    # A Qwen2-style layer has biases on q, k and v although no key says so; one that has any and a key must say true.
    stated = bool(qkv.value or o.value)
    if value is stated or (not found and stated):
        return ATTENTION_BIAS.passed(
            f"attention_bias is {said(value)}; the contract has qkv_bias {said(qkv.value)}, o_bias {said(o.value)}"
        )
    return ATTENTION_BIAS.failed(
        f"config.json says attention_bias {said(value)}, the contract qkv_bias {said(qkv.value)} and o_bias {said(o.value)}",
        expected=stated,
        actual=value,
        where=ctx.config_place(found[0].key if found else "attention_bias"),
    )


def _tie(ctx: CheckContext) -> Iterator[Check]:
    answers = [*ctx.config.top("tie_word_embeddings")]
    if ctx.config.layout is Layout.SPECULATORS:
        answers += ctx.config.decoder("tie_word_embeddings")
    answers = [a for a in answers if a.value is not None]
    yield from one_answer(ctx, answers)
    head = ctx.stated("wiring", "lm_head")
    if not head.known:
        yield TIE.undecided(f"the contract does not say whose head training used: {head.reason}", where=ctx.place("wiring", "lm_head"))
        return
    value: Json = answers[0].value if answers else False
    expected = head.value in ("tied_to_own", "tied_to_target")
    if value is expected:
        yield TIE.passed(f"tie_word_embeddings is {said(value)} and the head of training was {head.value}")
        return
    yield TIE.failed(
        f"config.json says tie_word_embeddings {said(value)}, but the head of training was {head.value}"
        + (": SGLang drops the drafter's own lm_head" if value is True else ""),
        expected=expected,
        actual=value,
        where=ctx.config_place(answers[0].key if answers else "tie_word_embeddings"),
    )


def config_window(ctx: CheckContext) -> Json:
    """The window that config.json gives the drafter's layers, as transformers reads it; None is full attention."""
    size = ctx.config.decoder("sliding_window")
    use = ctx.config.decoder("use_sliding_window")
    types = ctx.config.decoder("layer_types")
    if not size or size[0].value is None:
        return None
    if types and isinstance(types[0].value, list):
        return size[0].value if "sliding_attention" in types[0].value else None
    if use:
        return size[0].value if use[0].value is True else None
    return size[0].value


def _nobody_slides(ctx: CheckContext) -> bool:
    """Whether a sliding_window reaches no layer of any engine: vLLM 0.32.0 (models/llama.py:185-203) asks layer_types, which neither the
    file nor the class of its model_type gives, SGLang 0.5.23 (models/llama_eagle3.py:294-300) a flag. What trainers' own code does with
    the speculators layout is another matter."""
    types, name = ctx.config.decoder("layer_types"), ctx.config.raw.get("model_type")
    if ctx.config.layout is Layout.SPECULATORS or not has_class(ctx.config.raw) or (types and types[0].value is not None):
        return False
    by_class = window_of_class(str(name), ctx.config.raw, CLASS_DEFAULTS.get(str(name), {}))
    return "sliding_attention" not in by_class.get("layer_types", ())


def _beyond_the_table(ctx: CheckContext, window: Json) -> bool:
    """No window at all, or one that no position of the rope table outgrows: both see every key."""
    table = ctx.value("wiring", "rope", "table_length")
    return window is None or (_whole(window) and _whole(table) and window >= table)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _window(ctx: CheckContext) -> Check:
    stated, found = ctx.stated("wiring", "window"), config_window(ctx)
    if stated.known and not same(stated.value, found):
        says = f"config.json says sliding_window {said(found)}, the contract (wiring.window) {said(stated.value)}"
        evidence: dict[str, Json] = {"outcome": Consequence.HARMLESS.value}
        if stated.value is None and _nobody_slides(ctx):
            reason = "no engine reads it without layer_types, and all of them attend to every key, as training did"
            return WINDOW.passed(f"{says}. Harmless: {reason}", expected=None, actual=found, evidence=evidence | {"reason": reason})
        if _beyond_the_table(ctx, stated.value) and _beyond_the_table(ctx, found):
            reason = f"no position outgrows the window: the rope table ends at {said(ctx.value('wiring', 'rope', 'table_length'))}"
            return WINDOW.passed(f"{says}. Harmless: {reason}", expected=stated.value, actual=found, evidence=evidence | {"reason": reason})
    return agree(
        ctx, WINDOW, ("wiring", "window"), config_window(ctx), found_in="config.json (sliding_window, layer_types)",
        where=ctx.config_place("sliding_window"),
    )  # fmt: skip


RULES: Final = (EPS, ACT, MLP_BIAS, ATTENTION_BIAS, FC_BIAS, LOGIT_SCALE, TIE, WINDOW)
