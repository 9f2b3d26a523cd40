"""Rounds as they were recorded: which count, what they accepted, and which were cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.verify.engine_drafter.fills import fills
from eagle3_contract.verify.engine_runs.rounds import Kind, accepted_path, counts, depth, rounds_of, was_cut

TOKENS = st.integers(0, 3)


class Fake:
    """What ``rounds_of`` asks of a request."""

    def __init__(self, proposed: list[list[int]], emitted: list[list[int]], tree: list[list[int]] | None = None, prompt: int = 5) -> None:
        self.proposed, self.emitted, self.tree, self.prompt = proposed, emitted, tree or [], prompt
        self.fills = fills([], prompt=prompt, prefix=0, tokens=[], emitted=emitted)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Tokens and parents; siblings differ, as a top-k gives them."""
    tokens: list[int] = []
    parents: list[int] = []
    for i in range(draw(st.integers(1, 8))):
        parent = draw(st.integers(-1, i - 1))
        free = sorted({0, 1, 2, 3} - {t for t, p in zip(tokens, parents, strict=True) if p == parent})
        if free:
            tokens.append(draw(st.sampled_from(free)))
            parents.append(parent)
        else:
            break
    return tokens, parents


def longest(tokens: list[int], parents: list[int], truth: list[int]) -> int:
    """Over all nodes: the longest path from the root that spells the beginning of the truth."""
    best = 0
    for node in range(len(tokens)):
        path, at = [], node
        while at >= 0:
            path.append(tokens[at])
            at = parents[at]
        if path[::-1] == truth[: len(path)]:
            best = max(best, len(path))
    return best


@given(trees(), st.lists(TOKENS, max_size=8))
def test_path_in_a_tree_is_the_longest(tree: tuple[list[int], list[int]], truth: list[int]) -> None:
    tokens, parents = tree
    path = accepted_path(tokens, parents, truth)
    assert len(path) == longest(tokens, parents, truth)
    assert [tokens[i] for i in path] == truth[: len(path)]
    assert len(path) <= depth(tokens, parents)


@given(st.lists(TOKENS, min_size=1, max_size=6), st.lists(TOKENS, min_size=7, max_size=9), st.integers(1, 7))
def test_a_cut_round_is_told_from_a_whole_one(proposed: list[int], truth: list[int], keep: int) -> None:
    lead = len(accepted_path(proposed, None, truth))
    whole = truth[: lead + 1]
    assert not was_cut(proposed, None, whole)
    cut = whole[:keep]
    assert was_cut(proposed, None, cut) == (keep < len(whole))


def test_chain_is_a_tree_with_one_branch() -> None:
    assert accepted_path([7, 8, 9], None, [7, 8, 1]) == accepted_path([7, 8, 9], [-1, 0, 1], [7, 8, 1]) == [0, 1]
    assert depth([7, 8, 9], None) == depth([7, 8, 9], [-1, 0, 1]) == 3
    assert depth([7, 8, 9], [-1, -1, 1]) == 2
    assert depth([], None) == depth([], []) == 0


def test_only_whole_rounds_with_drafts_count() -> None:
    proposed = [[1, 2, 3], [], [0, 0, 0], [4, 5, 6]]
    emitted = [[1, 9], [8], [7], [4, 5]]
    found = rounds_of(Fake(proposed, emitted), [2])  # type: ignore[arg-type]
    assert [r.kind for r in found] == [Kind.DRAFTED, Kind.WITHOUT, Kind.SKIPPED, Kind.CUT]
    assert [r.at for r in found] == [6, 8, 9, 10]
    assert [r.accepted for r in found] == [1, 0, 0, 2]
    measured = counts(found)
    assert (measured.rounds, measured.accepted, measured.drafted, measured.length) == (1, 1, 3, 2.0)


def test_tree_rounds_have_their_parents() -> None:
    (found,) = rounds_of(Fake([[1, 2, 3]], [[2, 3, 9]], [[-1, -1, 1]]), [])  # type: ignore[arg-type]
    assert found.parents == (-1, -1, 1)
    assert (found.kind, found.accepted) == (Kind.DRAFTED, 2)
