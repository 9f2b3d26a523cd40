"""Teacher forced: the drafter over a whole sequence, step after step, as a trainer runs it.

Legend: T tokens, R = T - 1 rows, L alive rows of a step, C width of the captured states, H hidden size, DV draft vocabulary,
N key heads, D head dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from contract.errors import InputRejected, UsageError
from eagle3_contract.drafter.attention import KeyValue, Sight, attend
from eagle3_contract.drafter.documents import Document, alive, documents, rows_of
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.layer import Attend
from eagle3_contract.drafter.taps import Note, Taps, ignore, spread
from eagle3_contract.model.wiring import Rollout, StepPositions


@dataclass(frozen=True, slots=True)
class StepOutput:
    """One step, alive rows only: row numbers [L] int64, tokens fed [L] int64, logits [L, DV] float32, state handed on [L, H]."""

    step: int
    rows: Tensor
    fed_ids: Tensor
    logits: Tensor
    state: Tensor


@dataclass(frozen=True, slots=True)
class DraftOutput:
    """All steps over all R rows: ``logits_steps[s]`` [R, DV] float32, NaN where row t has no token to be fed; ``fed_ids_steps[s]`` [R]
    int64, -1 there."""

    logits_steps: list[Tensor]
    fed_ids_steps: list[Tensor]


def teacher_forced(
    drafter: Drafter,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    *,
    position_ids_T: Tensor | None = None,
    document_ids_T: Tensor | None = None,
    steps: int = 3,
    rollout: Rollout = Rollout.TEACHER,
    taps: Taps | None = None,
) -> DraftOutput:
    """Run ``steps`` steps over a sequence; arguments and errors as ``draft_steps``."""
    rows = max(0, input_ids_T.shape[0] - 1)
    logits_steps: list[Tensor] = []
    fed_ids_steps: list[Tensor] = []
    for out in draft_steps(
        drafter,
        input_ids_T,
        hidden_states_TC,
        position_ids_T=position_ids_T,
        document_ids_T=document_ids_T,
        steps=steps,
        rollout=rollout,
        taps=taps,
    ):
        logits_steps.append(spread(out.logits, out.rows, rows))
        fed_R = torch.full((rows,), -1, dtype=torch.int64, device=drafter.device)
        fed_R[out.rows] = out.fed_ids
        fed_ids_steps.append(fed_R)
    return DraftOutput(logits_steps, fed_ids_steps)


def draft_steps(
    drafter: Drafter,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    *,
    position_ids_T: Tensor | None = None,
    document_ids_T: Tensor | None = None,
    steps: int = 3,
    rollout: Rollout = Rollout.TEACHER,
    taps: Taps | None = None,
) -> Iterator[StepOutput]:
    """The steps one by one, so that a caller can reduce each step's logits before the next one is computed.

    Row t pairs state g[t] with token x[t + shift] (shift 1 in the field). At step s it is fed x[t + shift + s] and the state of step
    s - 1; its query and own key are rotated at position_ids[t] + s (``StepPositions.CONSTANT``: position_ids[t]); it sees the step-0
    keys of its document up to row t, within the window, and its own keys of steps 1 ... s.

    Args:
        drafter: the drafter.
        input_ids_T: target token ids, int64, unshifted.
        hidden_states_TC: what reaches fc, unshifted; any float dtype.
        position_ids_T: rotary position of each row, int64. Default: ``positions_start`` + the token's place in its document.
        document_ids_T: int64, one id per run of tokens, -1 = padding. Default: one document.
        steps: number of steps, at least 1.
        rollout: ``TEACHER``: the true tokens; a row that has none at a step is dead from then on. ``OWN_ARGMAX``: from step 1 on the
            token that the row's own argmax proposed, through the vocab map; every row of step 0 stays alive.
        taps: takes named intermediate tensors.

    Raises:
        InputRejected: ``drafter.input-shape``, ``drafter.document-ids``, ``drafter.token-out-of-range``, ``drafter.position-range``.
        UsageError: ``drafter.steps`` if ``steps`` is below 1.
    """
    if steps < 1:
        raise UsageError(f"{steps} steps cannot be drafted", rule="drafter.steps", fix="Ask for at least one step.")
    check_inputs(drafter, input_ids_T, hidden_states_TC, position_ids_T, document_ids_T)
    return _iterate(drafter, input_ids_T, hidden_states_TC, position_ids_T, document_ids_T, steps, rollout, taps)


def _iterate(
    drafter: Drafter,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    position_ids_T: Tensor | None,
    document_ids_T: Tensor | None,
    steps: int,
    rollout: Rollout,
    taps: Taps | None,
) -> Iterator[StepOutput]:
    w, device = drafter.wiring, drafter.device
    ids_T = input_ids_T.to(device)
    docs = documents(document_ids_T, ids_T.shape[0])
    own_tokens = rollout is Rollout.OWN_ARGMAX
    keys = _StepKeys(drafter, docs)
    position_T = _positions(drafter, docs, position_ids_T, ids_T.shape[0])
    state_LH = proposed_L = torch.zeros(0, device=device)
    before: list[int] = []
    for step in range(steps):
        lengths = [alive(d, step, w.token_shift, own_tokens=own_tokens) for d in docs]
        rows_L = rows_of(docs, lengths, device)
        note = ignore if taps is None else _note(taps, step, rows_L)
        if step == 0:
            state_LH = drafter.fuse(hidden_states_TC[rows_L.to(hidden_states_TC.device)], note)
        else:
            state_LH = _heads(state_LH, before, lengths)
        if step and own_tokens:
            fed_L = proposed_L
        else:
            fed_L = ids_T[rows_L + w.token_shift + step]
        advance = step if w.step_positions is StepPositions.ADVANCE else 0
        final_LH, state_LH = drafter.run(fed_L, state_LH, position_T[rows_L] + advance, keys.attends(step, lengths), note)
        logits_LV = drafter.head(final_LH)
        note("logits", logits_LV)
        if own_tokens and step + 1 < steps:
            proposed_L = drafter.target_ids[logits_LV.argmax(dim=-1)]
        before = lengths
        yield StepOutput(step, rows_L, fed_L, logits_LV, state_LH)


class _StepKeys:
    """Keys and values of every step so far, per layer and document, and who sees which."""

    def __init__(self, drafter: Drafter, docs: list[Document]) -> None:
        self._wiring = drafter.wiring
        self._kept: list[list[list[KeyValue]]] = [[[] for _ in docs] for _ in drafter.layers]  # [layer][document][step]

    def attends(self, step: int, lengths: list[int]) -> list[Attend]:
        """One ``Attend`` per layer for a step whose rows are the first ``lengths[i]`` rows of each document."""
        return [self._attend(kept, step, lengths) for kept in self._kept]

    def _attend(self, kept: list[list[KeyValue]], step: int, lengths: list[int]) -> Attend:
        w = self._wiring
        # From step ``window`` on, a window that moves on has left the row's earliest own steps behind.
        oldest = 1 if w.window is None or not w.window_follows_steps else max(1, step - w.window + 1)
        sight = Sight(0, w.window, step if w.window_follows_steps else 0)

        def mix(q_LND: Tensor, rows: KeyValue, scale: float) -> Tensor:
            out = []
            split = zip(*(torch.split(x, lengths) for x in (q_LND, rows.key, rows.value)), strict=True)
            for of_document, (q_QND, key, value) in zip(kept, split, strict=True):
                of_document.append(KeyValue(key, value))
                own = [kv.first(q_QND.shape[0]) for kv in of_document[oldest:]]
                out.append(attend(q_QND, of_document[0], sight, scale, own))
            return torch.cat(out) if out else q_LND

        return mix


def _note(taps: Taps, step: int, rows_L: Tensor) -> Note:
    def note(name: str, value_LW: Tensor) -> None:
        taps.record(step, name, rows_L, value_LW)

    return note


def _heads(state_LH: Tensor, before: list[int], now: list[int]) -> Tensor:
    """Of each document's rows of the previous step, the first ones, which are still alive."""
    if before == now:
        return state_LH
    return torch.cat([part[:n] for part, n in zip(torch.split(state_LH, before), now, strict=True)])


def _positions(drafter: Drafter, docs: list[Document], position_ids_T: Tensor | None, tokens: int) -> Tensor:
    if position_ids_T is not None:
        return position_ids_T.to(drafter.device)
    position_T = torch.zeros(tokens, dtype=torch.int64, device=drafter.device)
    for d in docs:
        position_T[d.start : d.start + d.tokens] = torch.arange(d.tokens, device=drafter.device) + drafter.wiring.positions_start
    return position_T


def check_inputs(
    drafter: Drafter,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    position_ids_T: Tensor | None,
    document_ids_T: Tensor | None,
) -> None:
    """Refuse inputs of a wrong shape, dtype or range; see ``draft_steps``."""
    tokens = input_ids_T.shape[0] if input_ids_T.ndim == 1 else -1
    integers = {"input_ids": input_ids_T, "position_ids": position_ids_T, "document_ids": document_ids_T}
    for name, value in integers.items():
        if value is not None and (value.dtype is not torch.int64 or value.shape != (tokens,)):
            raise _bad_shape(f"{name} is {value.dtype} {list(value.shape)}, not int64 [T] with the T of input_ids")
    if not hidden_states_TC.is_floating_point() or hidden_states_TC.shape != (tokens, drafter.states_width):
        w = drafter.wiring
        raise _bad_shape(
            f"hidden_states is {hidden_states_TC.dtype} {list(hidden_states_TC.shape)}, not a float [{tokens}, {drafter.states_width}] "
            f"({w.states} states of width {w.target_hidden_size})"
        )
    if position_ids_T is not None and position_ids_T.numel() and int(position_ids_T.min()) < 0:
        raise InputRejected(
            f"position_ids holds {int(position_ids_T.min())}; a position cannot be negative",
            rule="drafter.position-range",
            fix="Give the rotary position of each row, from 0 on.",
        )


def _bad_shape(message: str) -> InputRejected:
    return InputRejected(
        message,
        rule="drafter.input-shape",
        fix="Give unshifted inputs: row t of ids and states belongs to token t; the states side by side in the order fed.",
    )
