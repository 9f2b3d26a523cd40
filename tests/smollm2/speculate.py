"""Speculative decoding as an engine does it: drafter and target each with its own cache, the states from hooks.

Legend: N tokens run, C width of the concatenated states, S drafts a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature

import torch
from torch import Tensor
from transformers import DynamicCache

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.engines.recorder import StreamRecorder
from eagle3_contract.engines.target import Target
from eagle3_contract.model.states import Recipe


@dataclass(frozen=True)
class Speculated:
    """The text, and how it came about."""

    tokens: list[int]
    rounds: int
    accepted: int


class Verifier:
    """The target with a KV cache that can be cut back to what was accepted."""

    def __init__(self, target: Target, recipe: Recipe) -> None:
        self._target, self._recipe = target, recipe
        self._cache = DynamicCache(config=target.model.config)
        # transformers 5.2x renamed the argument; the old name warns there.
        self._name = "cache" if "cache" in signature(target.model.forward).parameters else "past_key_values"

    @torch.no_grad()
    def run(self, tokens: list[int]) -> tuple[Tensor, list[int]]:
        """Run N more tokens: the states that the drafter is fed [N, C], and the target's argmax after each token."""
        with StreamRecorder(self._target.stream, set(self._recipe)) as recorder:
            output = self._target.model(input_ids=torch.tensor([tokens]), use_cache=True, **{self._name: self._cache})
            states = recorder.take(len(tokens))
        return torch.cat([states[s] for s in self._recipe], dim=-1), output.logits[0].argmax(-1).tolist()

    def forget(self, tokens: int) -> None:
        """Forget the last ``tokens`` that were run."""
        if tokens:
            self._cache.crop(-tokens)


def speculate(target: Target, drafter: Drafter, recipe: Recipe, prompt: list[int], new_tokens: int, drafts: int = 3) -> Speculated:
    """Greedy text of at least ``new_tokens`` tokens, cut to that."""
    verifier, drafting = Verifier(target, recipe), IncrementalDrafter(drafter)
    states_NC, said = verifier.run(prompt)
    text = [*prompt, said[-1]]
    drafting.prefill(torch.tensor(text), states_NC)
    rounds = accepted = 0
    while len(text) < len(prompt) + new_tokens:
        proposed_S = drafting.draft(drafts).tokens.tolist()
        states_NC, said = verifier.run([text[-1], *proposed_S])
        lead = 0
        while lead < drafts and proposed_S[lead] == said[lead]:
            lead += 1
        verified = said[: lead + 1]  # the accepted drafts and the target's own next token
        verifier.forget(drafts - lead)
        drafting.commit(torch.tensor(verified), states_NC[: lead + 1])
        text += verified
        rounds, accepted = rounds + 1, accepted + lead
    return Speculated(text[len(prompt) :][:new_tokens], rounds, accepted)
