"""The dtype that config.json claims against the one that is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from contract.findings import Check, Severity
from eagle3_contract.check.config_fields import config_rule, one_answer
from eagle3_contract.check.context import CheckContext

STATED: Final = replace(
    config_rule(
        "dtype",
        "dtype of config.json is the dtype of the stored weights",
        "dtype",
        "vLLM 0.32.0 ignores it and runs the drafter in the target's dtype (config/speculative.py:1301); others cast the weights to it. "
        "Real exporters write this (SpecForge 0.2.0 export_hf says bfloat16 over float32 tensors), so it warns; the contract's own dtypes "
        "are held against the headers by tensors.dtype, and `check --engine` says in what an engine would run.",
        "Write the stored dtype into config.json.",
    ),
    severity=Severity.WARNING,
    depth=None,
)
RULES: Final = (STATED,)
FLOATS: Final = ("bfloat16", "float16", "float32", "float64")


def check_dtypes(ctx: CheckContext) -> Iterator[Check]:
    """``dtype`` (transformers 5) and ``torch_dtype`` (4), at the top or in the layer config."""
    if ctx.drafter.config is None:
        return
    answers = [*ctx.config.top("dtype"), *ctx.config.top("torch_dtype")] or ctx.config.decoder("dtype", "torch_dtype")
    answers = [a for a in answers if a.value is not None]
    yield from one_answer(ctx, answers)
    stored = Counter(t.dtype for t in ctx.drafter.tensors if t.dtype in FLOATS)
    if not stored:
        return
    if not answers:
        yield STATED.passed(f"config.json claims no dtype; stored is {', '.join(sorted(stored))}")
        return
    claimed = str(answers[0].value).removeprefix("torch.")
    others = sorted(set(stored) - {claimed})
    if not others:
        yield STATED.passed(f"config.json says {claimed}, and all {stored[claimed]} float tensors are", expected=claimed, actual=claimed)
        return
    example = next(t for t in ctx.drafter.tensors if t.dtype in others)
    yield STATED.failed(
        f"config.json says {claimed}, but {sum(stored[d] for d in others)} of {sum(stored.values())} float tensors are "
        f"{', '.join(others)} "
        f"({example.name})",
        expected=claimed,
        actual=others,
        where=ctx.config_place(answers[0].key),
    )
