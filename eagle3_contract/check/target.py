"""The target of the contract against the target that is to be served, with ``--target``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from contract.findings import Check, Rule, Severity, Where
from eagle3_contract.check.compare import agree, said
from eagle3_contract.check.context import CheckContext, TargetFacts

_E = Severity.ERROR


def _rule(name: str, title: str, dimension: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"target.{name}", title=title, severity=_E, dimension=dimension, why=why, remedy=remedy)


_OTHER: Final = "Serve the drafter with the target it was trained on, or correct the contract."
MODEL_TYPE: Final = _rule(
    "model-type", "The target is of the family of the contract", "pairing",
    "The family selects the engine's capture code: on SGLang 0.5.23 id k is boundary k for DeepSeek types, k+1 for Llama types.", _OTHER,
)  # fmt: skip
LAYERS: Final = _rule(
    "layers", "The target has the number of layers of the contract", "pairing",
    "Default boundaries and the range of ids follow from it; a drafter for another size is silent garbage.", _OTHER,
)  # fmt: skip
HIDDEN: Final = _rule(
    "hidden-size", "The target's states are as wide as the contract says", "pairing",
    "fc takes count x this width (vllm#17740: assertion in the embedding otherwise).", _OTHER,
)  # fmt: skip
VOCAB: Final = _rule(
    "vocab-size", "The target's vocabulary is that of the contract, padding declared", "vocab",
    "d2t leads into it. Padding rows are no tokens: a contract states both sizes, target_size and target_padded_size.",
    "State both sizes in the contract, or use the right target.",
)  # fmt: skip
TOKENIZER: Final = _rule(
    "tokenizer", "The target's tokenizer is that of the contract", "pairing",
    "Token ids mean other text under another tokenizer.json; the states of training are then states of other text.", _OTHER,
)  # fmt: skip
FINGERPRINT: Final = _rule(
    "fingerprint",
    "The target has the weights of the contract",
    "pairing",
    "A fine-tuned, merged or re-quantised target has the same sizes and other states; the drafter's acceptance goes silently.",
    _OTHER,
)
NAME: Final = Rule(
    id="target.verifier-name",
    title="The verifier that config.json names is the target of the contract",
    severity=Severity.WARNING,
    dimension="pairing",
    why="speculators writes the verifier's name; cards have named another base model than training used "
    "(thoughtworks/Qwen3-Coder-Next-Eagle3).",
    remedy="Check which target training used.",
)
NOT_OBJECT: Final = _rule(
    "config-not-object",
    "The target's config.json is a JSON object",
    "pairing",
    "Without its keys nothing of the target can be compared.",
    "Point --target to the target's folder or its config.json.",
)
"""Under this rule ``open_target`` refuses the file."""
RULES: Final = (MODEL_TYPE, LAYERS, HIDDEN, VOCAB, TOKENIZER, FINGERPRINT, NAME, NOT_OBJECT)


def check_target(ctx: CheckContext) -> Iterator[Check]:
    """The served target, if one was given; the name that config.json carries in any case."""
    yield from _name(ctx)
    yield from _padding(ctx)
    facts = ctx.target
    if facts is None:
        for rule in (MODEL_TYPE, LAYERS, HIDDEN, VOCAB, TOKENIZER, FINGERPRINT):
            yield rule.skipped("no --target was given")
        return
    for rule, path, value in (
        (MODEL_TYPE, ("target", "model_type"), facts.model_type),
        (LAYERS, ("target", "layers"), facts.layers),
        (HIDDEN, ("target", "hidden_size"), facts.hidden_size),
    ):
        yield _fact(ctx, facts, rule, path, value)
    yield from _vocab(ctx, facts)
    if facts.tokenizer_sha256 is None:
        yield TOKENIZER.undecided(f"{facts.source} has no tokenizer.json to compare", required=False)
    else:
        yield _fact(ctx, facts, TOKENIZER, ("target", "tokenizer_sha256"), facts.tokenizer_sha256)
    if facts.fingerprint is None:
        yield FINGERPRINT.skipped(f"{facts.source} has no weights to take a fingerprint of")
    elif not ctx.stated("target", "fingerprint").known:
        yield FINGERPRINT.undecided(f"the contract has no fingerprint; the target's is {facts.fingerprint}", required=False)
    else:
        yield _fact(ctx, facts, FINGERPRINT, ("target", "fingerprint"), facts.fingerprint)


def _fact(ctx: CheckContext, facts: TargetFacts, rule: Rule, path: tuple[str, ...], value: Any) -> Check:
    if value is None:
        return rule.undecided(f"the config of {facts.source} does not say {path[-1]}", where=Where(file=facts.source))
    return agree(ctx, rule, path, value, found_in=f"the target {facts.source}", where=Where(file=facts.source, key=path[-1]))


def _vocab(ctx: CheckContext, facts: TargetFacts) -> Iterator[Check]:
    size, padded = ctx.value("vocab", "target_size"), ctx.value("vocab", "target_padded_size")
    if facts.embedding_rows is not None and padded is not None and facts.embedding_rows != padded:
        yield VOCAB.failed(
            f"the target's embedding has {facts.embedding_rows} rows; the contract has target_padded_size {padded}",
            expected=padded,
            actual=facts.embedding_rows,
            where=ctx.place("vocab", "target_padded_size"),
        )
    for what, value in (("vocab_size", facts.vocab_size), ("rows of the embedding", facts.embedding_rows)):
        if value is None:
            if what == "vocab_size":
                yield VOCAB.undecided(f"the config of {facts.source} does not say vocab_size", where=Where(file=facts.source))
            continue
        exact = what != "vocab_size" and padded is not None  # the padded size is the number of rows
        if value in ((padded,) if exact else (size, padded)):
            yield VOCAB.passed(f"{what} {value} of the target is one of the contract's sizes", expected=[size, padded], actual=value)
        elif size is None or padded is None:
            yield VOCAB.undecided(f"{what} of the target is {value}; the contract does not know both sizes", where=ctx.place("vocab"))
        else:
            yield VOCAB.failed(
                f"{what} of the target is {value}; the contract has target_size {size} and target_padded_size {padded}",
                expected=[size, padded],
                actual=value,
                where=Where(file=facts.source, key="vocab_size"),
            )


def _padding(ctx: CheckContext) -> Iterator[Check]:
    """The padded vocabulary is no smaller than the one it pads: true of any target."""
    size, padded = ctx.value("vocab", "target_size"), ctx.value("vocab", "target_padded_size")
    if size is not None and padded is not None and padded < size:
        yield VOCAB.failed(
            f"the contract has target_padded_size {padded} below target_size {size}",
            expected=f"at least {size}",
            actual=padded,
            where=ctx.place("vocab", "target_padded_size"),
        )


def _name(ctx: CheckContext) -> Iterator[Check]:
    section = ctx.config.raw.get("speculators_config")
    verifier = section.get("verifier") if isinstance(section, dict) else None
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    stated = ctx.value("target", "id")
    if not isinstance(name, str) or stated is None:
        return
    if name.rstrip("/").rsplit("/", 1)[-1].casefold() == stated.rsplit("/", 1)[-1].casefold():
        yield NAME.passed(f"config.json names the verifier {name}")
    else:
        yield NAME.failed(
            f"config.json names the verifier {name}, the contract the target {said(stated)}",
            where=ctx.config_place("speculators_config.verifier.name_or_path"),
        )
