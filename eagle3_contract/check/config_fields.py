"""Fields of config.json that a reader takes as they are, compared with the contract one by one.

A missing key is no missing value: every reader falls back to something. Where all readers fall back to the same, that is what is
compared; where there is no common fallback, the missing key is the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.compare import agree, said, same
from eagle3_contract.check.config_view import ConfigView, Setting
from eagle3_contract.check.context import CheckContext

NO_FALLBACK: Final = object()
"""A key that every reader needs."""
Fallback = Callable[[CheckContext], Any]


def nothing(_: CheckContext) -> Any:
    """No common fallback."""
    return NO_FALLBACK


def always(value: Any) -> Fallback:
    """The same fallback for every config."""
    return lambda _: value


def from_config(key: str) -> Fallback:
    """The fallback is another key of the decoder."""

    def fallback(ctx: CheckContext) -> Any:
        found = ctx.config.decoder(key)
        return found[0].value if found else NO_FALLBACK

    return fallback


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """One field. ``null`` values count as absent where ``null_is_absent``."""

    rule: Rule
    path: tuple[str, ...]
    find: Callable[[ConfigView], list[Setting]]
    fallback: Fallback = nothing
    null_is_absent: bool = True
    applies: Callable[[CheckContext], bool] = lambda _: True
    consequence: str = ""


def decoder_keys(*keys: str) -> Callable[[ConfigView], list[Setting]]:
    return lambda view: view.decoder(*keys)


def top_keys(key: str) -> Callable[[ConfigView], list[Setting]]:
    return lambda view: view.top(key)


def config_rule(name: str, title: str, dimension: str, why: str, remedy: str = "") -> Rule:
    """A rule ``config.<name>``."""
    text = remedy or "Correct config.json, or the contract if it is the contract that is wrong about the training run."
    return Rule(id=f"config.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=text)


ONE_ANSWER: Final = config_rule(
    "one-answer",
    "config.json answers each question once, or twice the same",
    "keys",
    "Readers prefer different keys: SGLang 0.5.23 takes rope_parameters before rope_theta and nested EAGLE keys before top-level ones, "
    "vLLM 0.32.0 V1 a nested list of layer ids before an empty top-level one, V2 does not look at the nested one "
    "(gpu_model_runner.py:5268, eagle3_utils.py:100). Two answers make two drafters.",
    "Keep one of the two keys, or give both the value of training.",
)


def check_field(ctx: CheckContext, field: ConfigField) -> Iterator[Check]:
    """The checks of one field: its answers agree with each other, and the first with the contract."""
    if not field.applies(ctx):
        yield field.rule.skipped(f"{'.'.join(field.path)} has no key in config.json for this attention")
        return
    answers = [s for s in field.find(ctx.config) if not (s.value is None and field.null_is_absent)]
    yield from one_answer(ctx, answers)
    if answers:
        first = answers[0]
        yield agree(
            ctx,
            field.rule,
            field.path,
            first.value,
            found_in=f"config.json ({first.key})",
            where=ctx.config_place(first.key),
            consequence=field.consequence,
        )
        return
    yield _absent(ctx, field)


def _absent(ctx: CheckContext, field: ConfigField) -> Check:
    fallback, name = field.fallback(ctx), ".".join(field.path)
    stated = ctx.stated(*field.path)
    key = field.rule.id.removeprefix("config.").replace("-", "_")
    if fallback is NO_FALLBACK:
        return field.rule.failed(
            f"config.json has no key for {name}; readers refuse the file or guess. The contract says {said(stated.value)}",
            expected=stated.value,
            where=ctx.config_place(key),
            fix=f"Write {name} into config.json.",
        )
    return agree(
        ctx,
        field.rule,
        field.path,
        fallback,
        found_in=f"config.json (no key for {name}: readers fall back)",
        where=ctx.config_place(key),
        fix=f"Write {said(stated.value)} into config.json for {name}.",
        consequence=field.consequence,
    )


def one_answer(ctx: CheckContext, answers: list[Setting]) -> Iterator[Check]:
    """A check of ``ONE_ANSWER`` where there are two answers."""
    for other in answers[1:]:
        first = answers[0]
        if same(first.value, other.value):
            yield ONE_ANSWER.passed(f"{first.key} and {other.key} both say {said(first.value)}")
        else:
            yield ONE_ANSWER.failed(
                f"config.json contradicts itself: {first.key} is {said(first.value)}, {other.key} is {said(other.value)}",
                expected=first.value,
                actual=other.value,
                where=ctx.config_place(other.key),
            )


def check_fields(ctx: CheckContext, fields: Iterable[ConfigField]) -> Iterator[Check]:
    """The checks of several fields; nothing if there is no config.json to look at (another rule says so)."""
    if ctx.drafter.config is None:
        return
    for field in fields:
        yield from check_field(ctx, field)
