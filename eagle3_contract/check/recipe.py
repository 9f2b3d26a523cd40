"""The recipe by itself: known, inside the target, no state twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.compare import said
from eagle3_contract.check.context import CheckContext
from eagle3_contract.model.states import FINAL_NORM, State, recipe_text

_E, _D = Severity.ERROR, "recipe"
KNOWN: Final = Rule(
    id="recipe.known",
    title="The contract says which states training fed, in order",
    severity=_E,
    dimension=_D,
    why="Which states are fed, and how ids count them, is the first cause of more public reports than anything else, most of them silent "
    "(vllm#43671, vllm#50170, sglang#25454); nothing in the weights tells it.",
    remedy="State hidden_states.boundaries: which states were concatenated, in which order.",
)
IN_RANGE: Final = Rule(
    id="recipe.in-range",
    title="Every boundary of the recipe exists in the target",
    severity=_E,
    dimension=_D,
    why="Boundaries run from 0 (embedding) to N (all layers). An engine that is asked for one beyond never captures it and fails at the "
    "first request, or runs with a state fewer (sglang#32226).",
    remedy="Translate the trainer's ids into boundaries: output of layer k is boundary k+1.",
)
DISTINCT: Final = Rule(
    id="recipe.distinct",
    title="No state is in the recipe twice",
    severity=_E,
    dimension=_D,
    why="Shallow targets make default ids coincide (Automodel#2256: [1,1,1]); engines collapse duplicates, and fc is one state short.",
    remedy="Check the recipe against the trainer's ids.",
)
RULES: Final = (KNOWN, IN_RANGE, DISTINCT)


def check_recipe(ctx: CheckContext) -> Iterator[Check]:
    """Known, in range, without repetition."""
    stated, where = ctx.stated("hidden_states", "boundaries"), ctx.place("hidden_states", "boundaries")
    if not stated.known:
        yield KNOWN.undecided(f"the recipe is unknown: {stated.reason}", where=where)
    elif not stated.value:
        yield KNOWN.failed("the recipe is empty", where=where)
    else:
        yield KNOWN.passed(f"training fed {recipe_text(stated.value)}", expected=stated.value)
        yield from _by_itself(ctx, stated.value)


def _by_itself(ctx: CheckContext, recipe: Sequence[State]) -> Iterator[Check]:
    layers, where = ctx.value("target", "layers"), ctx.place("hidden_states", "boundaries")
    beyond = [b for b in recipe if layers is not None and b != FINAL_NORM and isinstance(b, int) and b > layers]
    if layers is None:
        yield IN_RANGE.undecided("the contract does not say how many layers the target has", where=ctx.place("target", "layers"))
    elif beyond:
        yield IN_RANGE.failed(
            f"the target has boundaries 0 to {layers}; the recipe names {said(beyond)}", expected=layers, actual=recipe, where=where
        )
    else:
        yield IN_RANGE.passed(f"every state of {recipe_text(recipe)} exists in a target of {layers} layers")
    twice = sorted({str(b) for b in recipe if list(recipe).count(b) > 1})
    if twice:
        yield DISTINCT.failed(f"the recipe {recipe_text(recipe)} has {', '.join(twice)} twice", actual=recipe, where=where)
    else:
        yield DISTINCT.passed(f"{len(recipe)} different states")
