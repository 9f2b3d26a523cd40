"""Tree drafting as SGLang 0.5.23 builds it: each step goes on with the best continuations of all branches; the best nodes are verified.

From eagle_worker_v2.py:742-870 (draft_forward), spec_utils.py:417-471 (select_top_k_tokens) and eagle_utils.py:100-129
(organize_draft_results): the score of a node is the product of the softmax probabilities on its path; a step runs one row a branch; of all
nodes the ``nodes`` best are verified, in the order in which they were made.

A branch keeps its place in the cache (eagle_utils.py:57-78): the row of branch j at step s sees the rows that branch j wrote in the earlier
steps, also where its token continues another branch. ``by_ancestors`` lets it see its own ancestors' rows instead, as in training.

Legend: B branches, H hidden size, DV draft vocabulary, N heads, D head dim, M nodes made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from contract.errors import UsageError
from eagle3_contract.drafter.attention import KeyValue, Sight, attend
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.layer import Attend
from eagle3_contract.model.wiring import StepPositions


@dataclass(frozen=True, slots=True)
class Shape:
    """``steps`` deep, ``branches`` wide, ``nodes`` of it verified (SGLang: num_steps, eagle_topk, num_draft_tokens - 1)."""

    steps: int
    branches: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Tree:
    """Proposed target ids, and the index of each one's parent among them, -1 for the root."""

    tokens: list[int]
    parents: list[int]


@dataclass(slots=True)
class _Grown:
    """Every node made, in SGLang's order: target id, score, node that it continues (-1: none)."""

    tokens: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def add(self, tokens_BB: Tensor, scores_BB: Tensor, parents: list[int]) -> int:
        """Add the continuations [B, B] of some nodes; returns the number of the first."""
        first = len(self.tokens)
        self.tokens += tokens_BB.flatten().tolist()
        self.scores += scores_BB.flatten().tolist()
        self.parents += [p for p in parents for _ in range(tokens_BB.shape[1])]
        return first

    def best(self, nodes: int) -> Tree:
        order = torch.tensor(self.scores).topk(min(nodes, len(self.scores))).indices.sort().values.tolist()
        number = {node: i for i, node in enumerate(order)}
        return Tree([self.tokens[n] for n in order], [number.get(self.parents[n], -1) for n in order])


class TreeDrafter(IncrementalDrafter):
    """``IncrementalDrafter`` that drafts trees."""

    def grow(self, shape: Shape, *, by_ancestors: bool = False) -> Tree:
        """Propose a tree after the committed rows, with ``steps - 1`` forwards of B rows.

        Raises:
            UsageError: ``drafter.not-prefilled`` before ``prefill``.
        """
        if self._final_1H is None or self._state_1H is None:
            raise UsageError("draft before prefill", rule="drafter.not-prefilled", fix="Call prefill with the prompt first.")
        d, wide, grown = self._drafter, shape.branches, _Grown()
        probability_1B, ids_1B = d.head(self._final_1H).softmax(-1).topk(wide)
        first = grown.add(d.target_ids[ids_1B], probability_1B, [-1])
        nodes = [first + i for i in range(wide)]
        tokens_B, scores_B = d.target_ids[ids_1B[0]], probability_1B[0]
        states_BH = self._state_1H.expand(wide, -1)
        written: list[list[KeyValue]] = [[] for _ in self._caches]  # per layer: one entry of B rows for each step
        lines = [[i] for i in range(wide)]  # per branch: which row of each step it sees, its own included
        for step in range(1, shape.steps):
            final_BH, state_BH = self._rows(step, tokens_B, states_BH, written, lines)
            probability_BB, ids_BB = d.head(final_BH).softmax(-1).topk(wide)
            tokens_BB, scores_BB = d.target_ids[ids_BB], scores_B[:, None] * probability_BB
            first = grown.add(tokens_BB, scores_BB, nodes)
            scores_B, chosen_B = scores_BB.flatten().topk(wide)
            chosen = chosen_B.tolist()
            nodes = [first + i for i in chosen]
            tokens_B, states_BH = tokens_BB.flatten()[chosen_B], state_BH[chosen_B // wide]
            lines = [[*(lines[i // wide] if by_ancestors else lines[j]), j] for j, i in enumerate(chosen)]
        return grown.best(shape.nodes)

    def _rows(
        self, step: int, tokens_B: Tensor, states_BH: Tensor, written: list[list[KeyValue]], lines: list[list[int]]
    ) -> tuple[Tensor, Tensor]:
        d, w = self._drafter, self._drafter.wiring
        advance = step if w.step_positions is StepPositions.ADVANCE else 0
        position_B = torch.full((len(tokens_B),), self.rows - 1 + advance + w.positions_start, dtype=torch.int64, device=d.device)
        sight = Sight(self.rows - 1, w.window, step if w.window_follows_steps else 0)
        attends = [self._branches(cache.first(self.rows), rows, sight, lines) for cache, rows in zip(self._caches, written, strict=True)]
        return d.run(tokens_B, states_BH, position_B, attends)

    @staticmethod
    def _branches(shared: KeyValue, written: list[KeyValue], sight: Sight, lines: list[list[int]]) -> Attend:
        def mix(q_BND: Tensor, rows: KeyValue, scale: float) -> Tensor:
            written.append(rows)
            mixed = []
            for j, line in enumerate(lines):
                own = [KeyValue(kv.key[i : i + 1], kv.value[i : i + 1]) for kv, i in zip(written, line, strict=True)]
                mixed.append(attend(q_BND[j : j + 1], shared, sight, scale, own))
            return torch.cat(mixed)

        return mix
