"""Our drafter in the rounds that the engine made: the same committed tokens, the same states, the same number of drafts.

At each round of the engine our drafter is in the state that the engine's should be in: everything committed comes from the target's states,
and the text is the target's own greedy continuation, which the request itself holds. What it proposes there, and how much of it the text
accepts, can be compared round by round. Only rounds count whose drafts all have true tokens behind them: at the end of the text nobody
knows what else would have been accepted.

Legend: T tokens, C width of what reaches fc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_runs.definitions import Counts, from_rounds
from eagle3_contract.verify.engine_runs.rounds import Kind, Round, accepted_path, depth
from eagle3_contract.verify.engine_runs.tree import Shape, Tree, TreeDrafter


@dataclass(frozen=True, slots=True)
class Pair:
    """One round both ways: what the engine did, what our drafter proposed, and how much of that the text accepts."""

    round: Round
    ours: Tree
    accepted: int

    @property
    def parts_at(self) -> int | None:
        """Index of the first proposal that is another one; None if all are the same."""
        theirs = list(zip(self.round.proposed, self.round.parents or [-1] * len(self.round.proposed), strict=True))
        own = list(
            zip(self.ours.tokens, self.ours.parents if self.round.parents is not None else [-1] * len(self.ours.tokens), strict=True)
        )
        if theirs == own:
            return None
        return next((i for i, (a, b) in enumerate(zip(theirs, own, strict=False)) if a != b), min(len(theirs), len(own)))

    def step_of(self, index: int) -> int:
        """The draft step that made a proposal: its depth in the tree, minus one."""
        parents = self.round.parents
        if parents is None:
            return index
        return depth(self.round.proposed[: index + 1], parents[: index + 1]) - 1 if index < len(parents) else 0


def paired(
    drafter: Drafter, text: Sequence[int], prompt: int, states_TC: Tensor, rounds: Sequence[Round], shape: Shape | None, *,
    by_ancestors: bool = False,
) -> list[Pair]:  # fmt: skip
    """Our drafter at each of the engine's rounds that count.

    Args:
        drafter: weights under the contract's wiring.
        text: every token that is known, from position 0 on.
        prompt: tokens of the prompt.
        states_TC: what reaches fc, for each token from position 0 on.
        rounds: of the request.
        shape: of the tree, None for chains.
        by_ancestors: see ``TreeDrafter.grow``.
    """
    ours = _started(drafter, text, prompt, states_TC)
    found, at = [], prompt + 1
    for each in rounds:
        # A token between two rounds was given by a prefill, after a preemption.
        if each.at - 1 > len(states_TC) or (each.at > at and not _commit(ours, text, states_TC, at, each.at - at)):
            break
        reach = depth(each.proposed, each.parents)
        if each.kind is Kind.DRAFTED and each.at + reach <= len(text):
            proposed = _propose(ours, len(each.proposed), shape, by_ancestors)
            truth = text[each.at : each.at + reach]
            found.append(Pair(each, proposed, len(accepted_path(proposed.tokens, proposed.parents if shape else None, truth))))
        if not _commit(ours, text, states_TC, each.at, len(each.emitted)):
            break
        at = each.at + len(each.emitted)
    return found


def free_running(
    drafter: Drafter, text: Sequence[int], prompt: int, states_TC: Tensor, rounds: Sequence[Round], shape: Shape | None
) -> Counts:  # fmt: skip
    """Our drafter in rounds of its own over the same text: what an engine would measure that ran it as it was trained.

    The number of drafts is the one that the engine mostly made.
    """
    drafted = Counter(len(r.proposed) for r in rounds if r.kind is Kind.DRAFTED)
    if not drafted:
        return from_rounds([])
    drafts = drafted.most_common(1)[0][0]
    reach = shape.steps if shape is not None else drafts
    ours, at, accepted = _started(drafter, text, prompt, states_TC), prompt + 1, []
    while at + reach <= len(text) and at - 1 <= len(states_TC):
        proposed = _propose(ours, drafts, shape, False)
        lead = len(accepted_path(proposed.tokens, proposed.parents if shape else None, text[at : at + reach]))
        accepted.append(lead)
        if not _commit(ours, text, states_TC, at, lead + 1):
            break
        at += lead + 1
    return from_rounds(accepted, drafted=drafts * len(accepted))


def _started(drafter: Drafter, text: Sequence[int], prompt: int, states_TC: Tensor) -> TreeDrafter:
    ours = TreeDrafter(drafter)
    ours.prefill(torch.tensor(text[: prompt + 1], dtype=torch.int64), states_TC[:prompt])
    return ours


def _propose(ours: TreeDrafter, drafts: int, shape: Shape | None, by_ancestors: bool) -> Tree:
    if shape is not None:
        return ours.grow(shape, by_ancestors=by_ancestors)
    tokens = ours.draft(drafts).tokens.tolist()
    return Tree(tokens, list(range(-1, len(tokens) - 1)))


def _commit(ours: TreeDrafter, text: Sequence[int], states_TC: Tensor, at: int, count: int) -> bool:
    """Commit the tokens from ``at`` on; False where their states are not at hand."""
    if count < 1 or at + count > len(text) or at - 1 + count > len(states_TC):
        return False
    ours.commit(torch.tensor(text[at : at + count], dtype=torch.int64), states_TC[at - 1 : at - 1 + count])
    return True
