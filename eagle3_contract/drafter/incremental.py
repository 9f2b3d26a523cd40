"""Step by step with a KV cache: the drafter as an engine runs it.

SGLang 0.5.23 and vLLM 0.32.0 alike: row t = (g[t], x[t+1]) at position t; a draft step feeds the token just proposed and the previous
step's state one position further, into the next slot of the cache; after the target has verified, the speculative slots are
rewritten from the target's true states.
Legend: P rows, C width of the captured states, H hidden size, DV draft vocabulary, S draft steps, N heads, D head dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import InputRejected, InternalError, UsageError
from eagle3_contract.drafter.attention import KeyValue, Sight, attend
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.layer import Attend
from eagle3_contract.model.wiring import StepPositions


@dataclass(frozen=True, slots=True)
class Drafted:
    """What one round proposed: target token ids [S], draft ids [S] (the argmax itself), draft logits [S, DV] float32."""

    tokens: Tensor
    draft_ids: Tensor
    logits: Tensor


class KvCache:
    """Keys and values of one layer by slot, in buffers that double when they are full."""

    def __init__(self) -> None:
        self._buffers: KeyValue | None = None

    def write(self, slot: int, rows: KeyValue) -> KeyValue:
        """Put rows at ``slot`` and after; whatever stood there is overwritten. Returns all rows up to the last one written."""
        end = slot + rows.key.shape[0]
        old = self._buffers
        buffers = old
        if buffers is None or buffers.key.shape[0] < end:
            capacity = max(end, 0 if old is None else 2 * old.key.shape[0])
            buffers = KeyValue(*(new.new_empty((capacity, *new.shape[1:])) for new in rows))
            for buffer, value in zip(buffers, old or (), strict=False):
                buffer[:slot] = value[:slot]
            self._buffers = buffers
        for buffer, value in zip(buffers, rows, strict=True):
            buffer[slot:end] = value
        return buffers.first(end)

    def first(self, rows: int) -> KeyValue:
        """The first ``rows`` rows, which must have been written."""
        if self._buffers is None:
            raise InternalError("nothing was written to this cache")
        return self._buffers.first(rows)


class IncrementalDrafter:
    """One request: ``prefill``, then rounds of ``draft`` and ``commit``.

    ``rows`` is the number P of committed rows, each computed from true target states; drafting never changes it.
    """

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._caches = [KvCache() for _ in drafter.layers]
        self._state_1H: Tensor | None = None
        self._final_1H: Tensor | None = None
        self.rows = 0

    def prefill(self, input_ids_P1: Tensor, states_PC: Tensor) -> None:
        """Start a request: the prompt and the token that the target sampled after it ([P+1] int64), and the prompt's states [P, C].

        Raises:
            InputRejected: ``drafter.input-shape``, ``drafter.token-out-of-range``.
        """
        self.rows = 0
        shift = self._drafter.wiring.token_shift
        if input_ids_P1.ndim != 1 or states_PC.ndim != 2 or input_ids_P1.shape[0] != states_PC.shape[0] + shift:
            raise _bad_shape(f"prefill wants [P + {shift}] tokens and [P, C] states; got {_shapes(input_ids_P1, states_PC)}")
        self.commit(input_ids_P1[shift:], states_PC)

    def commit(self, tokens_N: Tensor, states_NC: Tensor) -> None:
        """Add what the target has verified: N new tokens and the N states that it computed them from.

        After a round that accepted m drafts: d_1 ... d_m and the target's own next token, and the states of the m + 1 tokens that it
        verified (the last committed token and d_1 ... d_m). The speculative rows of the round are overwritten.

        Raises:
            InputRejected: ``drafter.input-shape``, ``drafter.token-out-of-range``.
        """
        d = self._drafter
        width = d.states_width
        if tokens_N.shape != states_NC.shape[:1] or states_NC.ndim != 2 or states_NC.shape[1] != width or not tokens_N.numel():
            raise _bad_shape(f"commit wants [N] tokens and [N, {width}] states, N at least 1; got {_shapes(tokens_N, states_NC)}")
        if tokens_N.dtype is not torch.int64 or not states_NC.is_floating_point():
            raise _bad_shape(f"commit wants int64 tokens and float states; got {tokens_N.dtype} and {states_NC.dtype}")
        count = tokens_N.shape[0]
        slots_N = torch.arange(self.rows, self.rows + count, device=d.device)
        sight = Sight(self.rows, d.wiring.window)
        attends = [self._attend(cache, self.rows, sight) for cache in self._caches]
        final_NH, state_NH = d.run(tokens_N.to(d.device), d.fuse(states_NC), slots_N + d.wiring.positions_start, attends)
        self._final_1H, self._state_1H = final_NH[-1:], state_NH[-1:]
        self.rows += count

    def draft(self, steps: int, *, fed_tokens: Tensor | None = None) -> Drafted:
        """Propose ``steps`` tokens greedily after the committed rows, with ``steps - 1`` forwards.

        Args:
            steps: tokens to propose, at least 1. The first comes from the last committed row.
            fed_tokens: target ids [steps - 1] to feed instead of the drafter's own proposals (an engine's proposals, or a teacher's).

        Raises:
            UsageError: ``drafter.steps``; ``drafter.not-prefilled`` before ``prefill``.
            InputRejected: ``drafter.input-shape``, ``drafter.vocab-map``.
        """
        d = self._drafter
        final_1H, state_1H = self._final_1H, self._state_1H
        if final_1H is None or state_1H is None:
            raise UsageError("draft before prefill", rule="drafter.not-prefilled", fix="Call prefill with the prompt first.")
        if steps < 1:
            raise UsageError(f"{steps} tokens cannot be drafted", rule="drafter.steps", fix="Ask for at least one token.")
        if fed_tokens is not None and (fed_tokens.shape != (steps - 1,) or fed_tokens.dtype is not torch.int64):
            raise _bad_shape(f"fed_tokens must be int64 [{steps - 1}]; got {fed_tokens.dtype} {list(fed_tokens.shape)}")
        logits = [d.head(final_1H)]
        for step in range(1, steps):
            if fed_tokens is None:
                token_1 = d.target_ids[logits[-1].argmax(dim=-1)]
            else:
                token_1 = fed_tokens[step - 1 : step].to(d.device)
            final_1H, state_1H = self._speculate(step, token_1, state_1H)
            logits.append(d.head(final_1H))
        logits_SV = torch.cat(logits)
        draft_ids_S = logits_SV.argmax(dim=-1)
        return Drafted(d.target_ids[draft_ids_S], draft_ids_S, logits_SV)

    def _speculate(self, step: int, token_1: Tensor, state_1H: Tensor) -> tuple[Tensor, Tensor]:
        """One draft forward: the row of the last committed one, ``step`` steps on, in the slot that many further."""
        d, w = self._drafter, self._drafter.wiring
        slot = self.rows - 1 + step
        advance = step if w.step_positions is StepPositions.ADVANCE else 0
        position_1 = torch.full((1,), self.rows - 1 + advance + w.positions_start, dtype=torch.int64, device=d.device)
        sight = Sight(slot, w.window, 0 if w.window_follows_steps else -step)
        return d.run(token_1, state_1H, position_1, [self._attend(cache, slot, sight) for cache in self._caches])

    @staticmethod
    def _attend(cache: KvCache, slot: int, sight: Sight) -> Attend:
        def mix(q_LND: Tensor, rows: KeyValue, scale: float) -> Tensor:
            return attend(q_LND, cache.write(slot, rows), sight, scale)

        return mix


def _shapes(*tensors: Tensor) -> str:
    return " and ".join(str(list(t.shape)) for t in tensors)


def _bad_shape(message: str) -> InputRejected:
    return InputRejected(
        message, rule="drafter.input-shape", fix="Give one state for each token that the target has run over, in their order."
    )
