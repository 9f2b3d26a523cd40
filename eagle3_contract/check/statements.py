"""What the contract leaves open or takes for granted, so that nobody reads ``kept`` as more than it is; and what no engine computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from contract.findings import Check, Rule, Severity
from contract.statement import Fact, Statement, fact
from eagle3_contract.check.compare import said
from eagle3_contract.check.context import CheckContext
from eagle3_contract.model.spec import Contract

Path: TypeAlias = tuple[str, ...]

ARITHMETIC: Final = Rule(
    id="contract.arithmetic-known",
    title="The contract states everything that decides the drafter's arithmetic",
    severity=Severity.ERROR,
    dimension="contract",
    why="norm_before_residual, feedback, double_norm, positions and the rest leave no trace in the weights; an unknown one is a wiring "
    "that nothing can verify.",
    remedy="Answer the statement; the reason given beside it says where to look.",
)
UNKNOWN: Final = Rule(
    id="contract.unknown-statements",
    title="The contract states everything else too",
    severity=Severity.NOTE,
    dimension="contract",
    why="What is unknown is not verified.",
    remedy="Answer the statement when it becomes known.",
    depth=None,
)
ASSUMED: Final = Rule(
    id="contract.assumed-statements",
    title="No statement of the contract is an assumption",
    severity=Severity.NOTE,
    dimension="contract",
    why="An assumed value was not read, measured or declared by whoever trained the drafter.",
    remedy="Replace the assumption by evidence.",
    depth=None,
)
SERVABLE: Final = Rule(
    id="wiring.servable",
    title="An engine exists that computes the wiring of the contract",
    severity=Severity.WARNING,
    dimension="wiring",
    why="Neither SGLang 0.5.23 nor vLLM 0.32.0 skips the final norm, norms the hidden stream twice (ModelOpt >= 0.41, modelopt "
    "modeling_eagle.py:76), puts the hidden state first, keeps positions constant over the steps, feeds states out of order or reads "
    "absolute ids in d2t.",
    remedy="Check with --engine which engine computes it, or train again in a wiring that engines have.",
)
DRAFTS: Final = Rule(
    id="serving.draft-tokens",
    title="In a chain, one token more is verified than steps are drafted",
    severity=Severity.ERROR,
    dimension="flags",
    why="At topk 1 SGLang overwrites num_draft_tokens by num_steps + 1 with one warning line (0.5.23 "
    "arg_groups/speculative_hook.py:1255-1266): the "
    "incident asked for 16 draft tokens with one step and got 2. vLLM knows the number of steps only.",
    remedy="State draft_tokens as steps + 1, or raise steps.",
)
RULES: Final = (ARITHMETIC, UNKNOWN, ASSUMED, SERVABLE, DRAFTS)

_DECIDES_ARITHMETIC: Final = ("wiring.", "alignment.", "vocab.map", "hidden_states.boundaries", "target.hidden_size")
_UNSERVED: Final = (
    (("wiring", "final_norm"), False, "no norm before the head; engines always apply one"),
    (("wiring", "double_norm"), True, "the hidden stream is normed twice; engines compute hidden_norm(h)"),
    (("wiring", "concat_order"), "hidden_first", "the hidden state comes first; engines put the embedding first"),
    (("alignment", "step_positions"), "constant", "later steps keep their position; engines advance it"),
    (("vocab", "map"), "absolute", "d2t holds target ids; engines add the draft id to it"),
    (("alignment", "token_shift"), 0, "states are paired with their own token; engines pair g[t] with x[t+1]"),
)


def check_statements(ctx: CheckContext) -> Iterator[Check]:
    """Unknown and assumed statements by name; wirings that no engine has."""
    open_questions = 0
    for paths, known in grouped(ctx.contract):
        name, where = group_name(paths), ctx.place(*paths[0])
        if not known.known and name.startswith(_DECIDES_ARITHMETIC):
            open_questions += 1
            yield ARITHMETIC.undecided(f"{name} is unknown: {known.reason}", where=where)
        elif not known.known:
            yield UNKNOWN.failed(f"{name} is unknown: {known.reason}", where=where)
        elif known.evidence == "assumed":
            because = f": {known.note}" if known.note else ""
            yield ASSUMED.failed(f"{name} is assumed to be {said(known.value)}{because}", where=where)
    if not open_questions:
        yield ARITHMETIC.passed("every statement that decides the arithmetic is known")
    steps, topk, drafts = (ctx.value("serving", name) for name in ("steps", "topk", "draft_tokens"))
    if topk == 1 and steps is not None and drafts is not None:
        text = f"serving states {steps} steps with topk 1 and {drafts} draft tokens"
        if drafts == steps + 1:
            yield DRAFTS.passed(text)
        else:
            place = ctx.place("serving", "draft_tokens")
            yield DRAFTS.failed(f"{text}; engines verify {steps + 1}", expected=steps + 1, actual=drafts, where=place)
    yield from _servable(ctx)


def walk(node: Any, path: Path = ()) -> Iterator[tuple[Path, Statement[Any]]]:
    """Every explicit statement of a contract with its path, in the order of the file."""
    if isinstance(node, Statement):
        yield path, node
    elif isinstance(node, msgspec.Struct):
        for name in node.__struct_fields__:
            yield from walk(getattr(node, name), (*path, name))
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from walk(child, (*path, str(name)))


def grouped(contract: Contract) -> list[tuple[list[Path], Fact]]:
    """Every explicit statement, those of several tensors that say the same in one group, in the order of the file."""
    groups: dict[tuple[str, ...], tuple[list[Path], Fact]] = {}
    for path, statement in walk(contract):
        known = fact(statement)
        same = ("tensors", path[-1], repr(known)) if path[0] == "tensors" else path
        groups.setdefault(same, ([], known))[0].append(path)
    return list(groups.values())


def group_name(paths: list[Path]) -> str:
    """``wiring.head_dim``; for several tensors ``tensors.fc.weight.dtype and 12 more``."""
    first = ".".join(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _servable(ctx: CheckContext) -> Iterator[Check]:
    served = True
    for path, value, message in _UNSERVED:
        stated = ctx.stated(*path)
        if stated.known and stated.value == value and type(stated.value) is type(value):
            served = False
            yield SERVABLE.failed(message, actual=value, where=ctx.place(*path))
    if ctx.value("wiring", "window") is not None and ctx.value("wiring", "window_follows_steps") is False:
        served = False
        yield SERVABLE.failed(
            "the window of a later step stays where the row is (speculators 0.9.0 trains so); engines move it on with the step",
            actual=False,
            where=ctx.place("wiring", "window_follows_steps"),
        )
    recipe = [b for b in ctx.value("hidden_states", "boundaries") or [] if isinstance(b, int)]
    if recipe != sorted(recipe):
        served = False
        yield SERVABLE.failed(
            f"the recipe {said(recipe)} is not ascending; SGLang and vLLM concatenate in ascending order whatever the list says",
            actual=recipe,
            where=ctx.place("hidden_states", "boundaries"),
        )
    if len(ctx.value("hidden_states", "boundaries") or []) > 1 and "final_norm" in ctx.value("hidden_states", "boundaries"):
        served = False
        yield SERVABLE.failed(
            "the normed final state is one of several; engines feed it alone or not at all", where=ctx.place("hidden_states", "boundaries")
        )
    if served:
        yield SERVABLE.passed("nothing in recipe and wiring that neither SGLang nor vLLM computes")
