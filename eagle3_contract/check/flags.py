"""EAGLE's own switches in config.json against the contract's wiring, each with what its two readings compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Json, Rule
from eagle3_contract.check.compare import said
from eagle3_contract.check.config_fields import config_rule, one_answer
from eagle3_contract.check.config_view import Layout, Setting
from eagle3_contract.check.context import CheckContext

_W: Final = "wiring"

NORM_BEFORE_RESIDUAL: Final = config_rule(
    "norm-before-residual",
    "norm_before_residual says which residual training used",
    _W,
    "true: the first residual is the normed hidden state; false: the raw one. Only speculators trains with it (default true) and only "
    "vLLM serves it (default true for a speculators config, false for a plain one, llama_eagle3.py:101, algos.py:34); SGLang 0.5.23 has "
    "no such code. Flipping it moves logits by 5 to 7 (speculators config/schema.py:145, vLLM algos.py:33); the weights show no trace "
    "of it.",
    "Write norm_before_residual with the value of training.",
)
NORM_BEFORE_FC: Final = config_rule(
    "norm-before-fc",
    "norm_before_fc says whether one norm runs over the concatenated states",
    _W,
    "true: input_norm over the concatenation, then fc; false: fc on the raw states. vLLM 0.32.0 and SGLang 0.5.23 drop input_norm.weight "
    "silently without the flag, and run with ones if the flag is set without the weight (vLLM llama_eagle3.py:465).",
    "Write norm_before_fc with the value of training (nested in eagle_config if that mapping exists).",
)
FC_NORM: Final = config_rule(
    "fc-norm",
    "fc_norm says whether each state is normed before fc",
    _W,
    "true: a norm per state (EAGLE-3.1); false: none. Without the flag SGLang 0.5.23 drops the weights, vLLM 0.32.0 refuses them.",
    "Write fc_norm at the top level with the value of training.",
)
NORM_OUTPUT: Final = config_rule(
    "norm-output",
    "norm_output says what training fed back",
    _W,
    "Two meanings (SpecForge llama3_eagle.py:1690, SpecForge llama3_eagle.py:1772). vLLM, SGLang and speculators: feed the state after "
    "the final norm to the next step. SpecForge: apply the norm before the head; its fed-back state is always pre-norm. Read the "
    "serving way, a SpecForge drafter with norm_output true is equal at step 0 and off by 0.95 and 1.46 in the logits from step 1 on.",
    "Write norm_output as the engines read it: true only if later steps were trained on the state after the final norm.",
)
LAST_NORM: Final = config_rule(
    "last-layernorm",
    "use_last_layernorm says whether training normed before the head",
    _W,
    "ModelOpt's nested key. false: the head sees the raw state; true or absent: the normed one. Off by 36 in the logits at step 0 where "
    "they differ (SpecForge llama3_eagle.py:1772). No engine reads the key.",
    "Write use_last_layernorm with the value of training, or correct wiring.final_norm in the contract.",
)


def _truth(answers: list[Setting], fallback: bool) -> Json:
    given = [a.value for a in answers if a.value is not None]
    return given[0] if given else fallback


def check_flags(ctx: CheckContext) -> Iterator[Check]:
    """Every switch of config.json that changes the arithmetic around fc and the final norm."""
    if ctx.drafter.config is None:
        return
    view = ctx.config
    yield from _flag(
        ctx,
        NORM_BEFORE_RESIDUAL,
        view.top("norm_before_residual"),
        view.layout is Layout.SPECULATORS,
        ("wiring", "norm_before_residual"),
        ("the first residual is the normed hidden state", "the first residual is the raw hidden state"),
    )
    yield from _norms_before_fc(ctx)
    yield from _norm_output(ctx)


def _flag(
    ctx: CheckContext, rule: Rule, answers: list[Setting], fallback: bool, path: tuple[str, ...], meanings: tuple[str, str]
) -> Iterator[Check]:
    yield from one_answer(ctx, answers)
    stated = ctx.stated(*path)
    yield _decide(ctx, rule, answers, fallback, stated.value if stated.known else None, stated.reason, path, meanings)


def _decide(
    ctx: CheckContext,
    rule: Rule,
    answers: list[Setting],
    fallback: bool,
    expected: Json,
    reason: str | None,
    path: tuple[str, ...],
    meanings: tuple[str, str],
) -> Check:
    key = rule.id.removeprefix("config.").replace("-", "_")
    found = f"{answers[0].key} is {said(answers[0].value)}" if answers else f"{key} is absent, which readers take as {said(fallback)}"
    actual = _truth(answers, fallback)
    if expected is None:
        return rule.undecided(f"{found}; the contract does not say {'.'.join(path)}: {reason}", where=ctx.place(*path))
    if actual is expected:
        return rule.passed(f"{found}: {meanings[0 if expected else 1]}, as in training", expected=expected, actual=actual)
    reads = meanings[0] if actual is True else meanings[1] if actual is False else "no reader's boolean"
    return rule.failed(
        f"config.json: {found} ({reads}), but in training {meanings[0 if expected else 1]}",
        expected=expected,
        actual=actual,
        where=ctx.config_place(answers[0].key if answers else key),
        evidence={"contract": ctx.place(*path).as_dict()},
    )


def _norms_before_fc(ctx: CheckContext) -> Iterator[Check]:
    path = ("wiring", "norms_before_fc")
    stated = ctx.stated(*path)
    cases = (
        (NORM_BEFORE_FC, ctx.config.eagle("norm_before_fc"), "input_norm", "one norm runs over the concatenated states"),
        (FC_NORM, [*ctx.config.top("fc_norm"), *ctx.config.top("use_aux_norm")], "fc_norm", "each state is normed before fc"),
    )
    for rule, answers, norm, on in cases:
        yield from one_answer(ctx, answers)
        expected = norm in stated.value if stated.known else None
        yield _decide(ctx, rule, answers, False, expected, stated.reason, path, (on, f"no {norm} runs before fc"))


def _norm_output(ctx: CheckContext) -> Iterator[Check]:
    answers = ctx.config.top("norm_output")
    value = _truth(answers, False)
    feedback, final = ctx.stated("wiring", "feedback"), ctx.stated("wiring", "final_norm")
    found = f"norm_output is {said(value)}" if answers else "norm_output is absent (readers: false)"
    if not feedback.known:
        yield NORM_OUTPUT.undecided(
            f"{found}; the contract does not say what was fed back: {feedback.reason}", where=ctx.place("wiring", "feedback")
        )
    elif (value is True) == (feedback.value == "post_norm") and isinstance(value, bool):
        yield NORM_OUTPUT.passed(f"{found}: engines feed back the {feedback.value} state, as in training", expected=feedback.value)
    else:
        served = "post_norm" if value is True else "pre_norm"
        yield NORM_OUTPUT.failed(
            f"{found}: engines will feed back the {served} state, training fed back {feedback.value}. Step 0 is equal, every later step "
            "is not"
            + (
                ". SpecForge writes norm_output true for another thing (the norm before the head) and trains pre-norm"
                if value is True
                else ""
            ),
            expected=feedback.value,
            actual=served,
            where=ctx.config_place("norm_output"),
            evidence={"contract": ctx.place("wiring", "feedback").as_dict()},
        )
    last = [s for s in ctx.config.eagle("use_last_layernorm") if s.value is not None]
    if not final.known:
        yield LAST_NORM.undecided(
            f"the contract does not say whether there is a final norm: {final.reason}", where=ctx.place("wiring", "final_norm")
        )
    elif last and last[0].value is not final.value:
        yield LAST_NORM.failed(
            f"{last[0].key} is {said(last[0].value)}, the contract says final_norm {said(final.value)}",
            expected=final.value,
            actual=last[0].value,
            where=ctx.config_place(last[0].key),
        )
    else:
        yield LAST_NORM.passed(f"nothing in config.json contradicts final_norm {said(final.value)}", expected=final.value)


RULES: Final = (NORM_BEFORE_RESIDUAL, NORM_BEFORE_FC, FC_NORM, NORM_OUTPUT, LAST_NORM)
