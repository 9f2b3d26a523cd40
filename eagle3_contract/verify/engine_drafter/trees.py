"""Trees of drafts: which row each proposal was drafted from, and whether the likeliest branches were taken.

A tree grows by steps: of every row's first ``width`` tokens the ``width`` likeliest branches go on, and of all of them together the
likeliest are proposed, by the product of the draft probabilities along the branch (EAGLE-2; SGLang 0.5.23
srt/speculative/spec_utils.py:438-471 and eagle_utils.py organize_draft_results).

Legend: W width of the logits shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch import Tensor

from eagle3_contract.verify.engine_drafter import rules
from eagle3_contract.verify.engine_drafter.account import ROOT
from eagle3_contract.verify.engine_drafter.ledger import Difference, Ledger
from eagle3_contract.verify.engine_drafter.maps import Maps
from eagle3_contract.verify.engine_drafter.subject import Subject

SLACK: Final = 1e-3
"""Log-probabilities nearer than this are ties: an engine takes products of rounded probabilities."""
Path = tuple[int, ...]
"""The tokens of a branch behind the root."""


def branches(
    subject: Subject,
    rows: Sequence[int],
    proposed: Sequence[int],
    tree: Sequence[int],
    logits: dict[int, Tensor],
    width: int,
    maps: Maps,
    ledger: Ledger,
) -> None:
    """Whether no branch that was left out is likelier than one that was proposed."""
    if any(i not in logits for i in rows):
        return  # their absence is said where the proposals are held against them
    scores = _scores(subject, rows, logits, width, maps)
    chosen = nodes(proposed, tree)
    place = subject.place(subject.account.rows[rows[0]])
    ledger.compared(rules.PROPOSALS, place)
    taken = [scores[path] for path in chosen if path in scores]
    left = max(((score, path) for path, score in scores.items() if path not in set(chosen)), default=None)
    if taken and left is not None and left[0] > min(taken) + SLACK:
        says = f"log probability {left[0]:.4g} of {list(left[1])}, {min(taken):.4g} of one that was proposed"
        ledger.differs(
            rules.PROPOSALS,
            Difference(place=place, tensor="proposed", cause="leaves out a branch likelier than one that it holds", says=says),
        )


def _scores(subject: Subject, rows: Sequence[int], logits: dict[int, Tensor], width: int, maps: Maps) -> dict[Path, float]:
    """Every branch that was looked at, with its log probability: the first tokens of the root, and of every row that was drafted."""
    scores: dict[Path, float] = {(): 0.0}
    for i in rows:
        path = _path(subject, i)
        if path not in scores:  # drafted from a branch that the logits do not rank: said elsewhere
            continue
        tokens, chances = maps.ranked(logits[i], width)
        for token, chance in zip(tokens, chances, strict=True):
            scores.setdefault((*path, token), scores[path] + chance)
    del scores[()]
    return scores


def nodes(proposed: Sequence[int], tree: Sequence[int]) -> list[Path]:
    """The branch that ends in each proposal."""
    found: list[Path] = []
    for token, parent in zip(proposed, tree, strict=False):
        above = () if parent == ROOT or parent >= len(found) else found[parent]
        found.append((*above, token))
    return found


def tree_sources(subject: Subject, rows: Sequence[int], proposed: Sequence[int], tree: Sequence[int]) -> list[int | None]:
    """The row that each node of a tree was drafted from: the root's, or the draft row that was fed the node's parent on the same path."""
    paths: dict[Path, int] = {}
    for i in rows:
        paths.setdefault(_path(subject, i), i)
    sources: list[int | None] = [paths.get(node[:-1]) for node in nodes(proposed, tree)]
    return [*sources, *([None] * (len(proposed) - len(sources)))]


def _path(subject: Subject, i: int) -> Path:
    tokens: list[int] = []
    at: int | None = i
    while at is not None and subject.account.rows[at].drafted:
        token = subject.value(subject.account.rows[at], "input_ids")
        tokens.append(ROOT if token is None else int(token))
        at = subject.account.rows[at].parent
    return tuple(reversed(tokens))
