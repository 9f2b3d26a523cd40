"""Trees: the score of every node is the probability of its path, as a chain that is fed this path computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from contract.errors import UsageError
from eagle3_contract.verify.engine_runs.tree import Shape, TreeDrafter
from verify.engine_runs.conftest import Demo


@pytest.fixture(scope="module")
def prefilled(demo: Demo) -> TreeDrafter:
    request = demo.plain[1]
    states_TC = torch.cat([request.tensors[f"slot.{i}"] for i in range(3)], dim=-1)
    ours = TreeDrafter(demo.drafter)
    ours.prefill(torch.tensor(request.text[:41]), states_TC[:40])
    return ours


def path_of(tokens: Sequence[int], parents: Sequence[int], node: int) -> list[int]:
    path = []
    while node >= 0:
        path.append(tokens[node])
        node = parents[node]
    return path[::-1]


def probability(ours: TreeDrafter, demo: Demo, path: list[int]) -> float:
    """Of a path, by the chain that is fed it."""
    chain = ours.draft(len(path), fed_tokens=torch.tensor(path[:-1], dtype=torch.int64))
    draft_id = {int(t): i for i, t in enumerate(demo.drafter.target_ids)}
    each: Tensor = chain.logits.softmax(-1)
    return math.prod(float(each[step, draft_id[token]]) for step, token in enumerate(path))


def test_one_branch_is_the_chain(prefilled: TreeDrafter) -> None:
    tree = prefilled.grow(Shape(steps=4, branches=1, nodes=4))
    assert tree.tokens == prefilled.draft(4).tokens.tolist()
    assert tree.parents == [-1, 0, 1, 2]


@pytest.mark.parametrize(("steps", "branches", "nodes"), [(2, 3, 7), (3, 2, 8), (4, 3, 12), (1, 4, 4)])
def test_nodes_are_the_most_probable_paths(demo: Demo, prefilled: TreeDrafter, steps: int, branches: int, nodes: int) -> None:
    """With their own ancestors in sight: no node that was left out and whose parent went on is more probable than one that was taken."""
    shape = Shape(steps, branches, nodes)
    every = prefilled.grow(Shape(steps, branches, branches + (steps - 1) * branches**2), by_ancestors=True)
    chosen = prefilled.grow(shape, by_ancestors=True)
    paths = {tuple(path_of(every.tokens, every.parents, i)) for i in range(len(every.tokens))}
    assert len(paths) == len(every.tokens)
    score = {path: probability(prefilled, demo, list(path)) for path in paths}
    taken = [tuple(path_of(chosen.tokens, chosen.parents, i)) for i in range(nodes)]
    assert len(set(taken)) == nodes
    least = min(score[p] for p in taken)
    assert all(score[p] <= least * (1 + 1e-4) for p in paths - set(taken))
    # Which nodes went on: in each step the most probable of all that it could have.
    for level in range(1, steps):
        parents = {p[:-1] for p in paths if len(p) == level + 1}
        best = sorted((p for p in paths if len(p) == level), key=lambda p: score[p], reverse=True)[:branches]
        assert parents == set(best)


def test_branches_that_keep_their_place_see_other_rows(demo: Demo) -> None:
    """What SGLang does is another forward wherever a branch goes on from another one; some place of these texts shows it."""
    shape, differ = Shape(steps=5, branches=4, nodes=20), []
    for request in demo.plain[:3]:
        states_TC = torch.cat([request.tensors[f"slot.{i}"] for i in range(3)], dim=-1)
        for rows in range(24, 48, 4):
            ours = TreeDrafter(demo.drafter)
            ours.prefill(torch.tensor(request.text[: rows + 1]), states_TC[:rows])
            differ.append(ours.grow(shape) != ours.grow(shape, by_ancestors=True))
    assert any(differ)


def test_two_steps_cannot_differ(prefilled: TreeDrafter) -> None:
    """Step 1 has nothing but its own row and what is committed."""
    shape = Shape(steps=2, branches=3, nodes=9)
    assert prefilled.grow(shape) == prefilled.grow(shape, by_ancestors=True)


def test_growing_changes_nothing(prefilled: TreeDrafter) -> None:
    before = prefilled.draft(3).tokens.tolist()
    prefilled.grow(Shape(3, 4, 9))
    assert prefilled.draft(3).tokens.tolist() == before


def test_tree_before_prefill(demo: Demo) -> None:
    with pytest.raises(UsageError, match="before prefill"):
        TreeDrafter(demo.drafter).grow(Shape(2, 2, 4))


def test_trees_of_the_running_engine(demo: Demo) -> None:
    """SGLang 0.5.23 drafted these for the demo pair (steps 3, topk 4, 12 draft tokens): node for node the same, parents too."""
    held = load_file(Path(__file__).parent / "data" / "sglang_tree.safetensors")
    text, states_TC, shape = held["input_ids"].tolist(), held["states"], Shape(steps=3, branches=4, nodes=11)
    ours, at = TreeDrafter(demo.drafter), 25
    ours.prefill(torch.tensor(text[:at]), states_TC[: at - 1])
    rounds = zip(held["round.proposed"].tolist(), held["round.parents"].tolist(), held["round.emitted"].tolist(), strict=True)
    for number, (proposed, parents, emitted) in enumerate(rounds):
        tree = ours.grow(shape)
        assert (tree.tokens, tree.parents) == (proposed, parents), number
        given = [t for t in emitted if t >= 0]
        if at + len(given) > len(text):  # the last bonus: nothing was drafted behind it
            break
        ours.commit(torch.tensor(given), states_TC[at - 1 : at - 1 + len(given)])
        at += len(given)
    assert number > 15
