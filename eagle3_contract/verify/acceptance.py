"""Accepted length of a greedy chain, in rounds as an engine makes them.

Definition (one for both paths, so that they can be compared): a round starts at row t with the token x[t+1] just sampled,
proposes k greedy drafts, and accepts the leading ones that equal the sample's own next tokens x[t+2], x[t+3], ...; the next round
starts behind the accepted drafts and the one token that the target gives in any case (the bonus). tau = 1 + accepted / rounds,
pooled over samples: the bonus is counted, the prefill's token is not. vLLM's mean acceptance length is this figure
(v1/spec_decode/metrics.py, 0.32.0); SGLang's ``spec_accept_length`` counts the prefill's token too and is too high on short outputs
(0.5.23 tokenizer_manager.py:3138-3200).

Legend: T tokens, S steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

NO_DRAFT: Final = -1
"""A draft id where a step has no row (the tail of a document)."""
DEFINITION: Final = "chain, greedy, pooled over samples, in rounds; counts the bonus token, not the prefill's"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Rounds and accepted drafts; adds up over samples."""

    rounds: int = 0
    accepted: int = 0

    def __add__(self, other: Acceptance) -> Acceptance:
        return Acceptance(self.rounds + other.rounds, self.accepted + other.accepted)

    @property
    def length(self) -> float:
        """tau = 1 + accepted / rounds, in tokens per round; NaN without a round."""
        return 1 + self.accepted / self.rounds if self.rounds else float("nan")


def first_round(loss_mask_T: Sequence[int] | None) -> int:
    """The row of the first round: the one whose first draft is the second generated token.

    The prefill gives the first generated token x[p]; the round then starts at the row that pairs it, t = p - 1.
    """
    if loss_mask_T is None:
        return 0
    return max(0, next((p for p, m in enumerate(loss_mask_T) if m), len(loss_mask_T)) - 1)


def chain(tokens_T: Sequence[int], drafts_ST: Sequence[Sequence[int]], *, start: int = 0) -> Acceptance:
    """Accepted drafts of one sample.

    Args:
        tokens_T: the sample's token ids.
        drafts_ST: for each step s, row t: the target id of the draft for x[t+2+s], teacher forced (rows whose earlier drafts were
            accepted have been fed exactly those drafts, so the leading agreement is the engine's), or ``NO_DRAFT``.
        start: row of the first round.

    Only whole rounds count: a round whose k drafts have no k true tokens behind them would be cut by the end of the text.
    """
    steps, tokens = len(drafts_ST), len(tokens_T)
    rounds = accepted = 0
    row = start
    while row + 1 + steps < tokens:
        lead = 0
        while lead < steps and drafts_ST[lead][row] == tokens_T[row + 2 + lead]:
            lead += 1
        rounds += 1
        accepted += lead
        row += lead + 1
    return Acceptance(rounds, accepted)


def pooled(parts: Iterable[Acceptance]) -> Acceptance:
    return sum(parts, Acceptance())
