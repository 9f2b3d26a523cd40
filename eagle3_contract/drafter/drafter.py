"""The drafter: fc over the captured states, the layers, the final norm, the head, and the vocab map.

Legend: L rows, C = K*G width of the captured states, G target hidden size, H hidden size, DV draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from contract.errors import InputRejected, UsageError
from eagle3_contract.drafter.layer import Attend, Layer
from eagle3_contract.drafter.names import D2T, HEAD
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.rope import RotaryEmbedding
from eagle3_contract.drafter.taps import Note, ignore
from eagle3_contract.drafter.weights import Weights, WeightSource
from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import Attention, Feedback, NormBeforeFc, Owner, Wiring

COMPUTE_DTYPES: Final = frozenset({torch.float32, torch.bfloat16, torch.float16})


class Drafter:
    """A drafter's weights under one wiring, ready to run on one device.

    Args:
        wiring: the arithmetic.
        source: the drafter's checkpoint.
        target_source: the target's checkpoint; needed where the wiring takes the target's embedding or head.
        device: where everything is computed; nothing is created anywhere else.
        dtype: float32, bfloat16 or float16. Norms, rotation, scores and softmax are float32 in each.

    Raises:
        InputRejected, UsageError: as ``Weights``, ``RotaryEmbedding`` and ``Layer``; ``drafter.wiring`` for a wiring that contradicts
            itself.
    """

    def __init__(
        self,
        wiring: Wiring,
        source: WeightSource,
        *,
        target_source: WeightSource | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if dtype not in COMPUTE_DTYPES:
            raise UsageError(f"a drafter cannot be run in {dtype}", rule="drafter.dtype", fix="Choose float32, bfloat16 or float16.")
        check_consistent(wiring)
        self.wiring = wiring
        self.device = torch.device(device)
        self.dtype = dtype
        self._label = source.label
        self.weights = Weights(wiring, source, target_source, self.device, dtype)
        self.rope = RotaryEmbedding(wiring.rope, rotary_dim(wiring), self.device)
        self.layers = [Layer(wiring, self.weights, index, self.rope) for index in range(wiring.layers)]

    @property
    def states_width(self) -> int:
        """Width C of what reaches fc."""
        return self.wiring.states * self.wiring.target_hidden_size

    def fuse(self, states_LC: Tensor, note: Note = ignore) -> Tensor:
        """The hidden stream [L, H] that the captured states [L, C] give to the first step."""
        w = self.wiring
        x_LC = states_LC.to(device=self.device, dtype=self.dtype)
        note("fc_in", x_LC)
        if not w.fc_applied:
            return x_LC
        for norm in w.norms_before_fc:
            if norm is NormBeforeFc.INPUT_NORM:
                x_LC = rms_norm(x_LC, self.weights["input_norm.weight"], w.rms_norm_eps)
            else:
                parts = torch.split(x_LC, w.target_hidden_size, dim=-1)
                x_LC = torch.cat(
                    [rms_norm(part, self.weights[f"fc_norm.{i}.weight"], w.rms_norm_eps) for i, part in enumerate(parts)], dim=-1
                )
        note("fc_normed", x_LC)
        hidden_LH = F.linear(x_LC, self.weights["fc.weight"], self.weights.get("fc.bias"))
        note("fc_out", hidden_LH)
        return hidden_LH

    def run(
        self, ids_L: Tensor, hidden_LH: Tensor, positions_L: Tensor, attends: Sequence[Attend], note: Note = ignore
    ) -> tuple[Tensor, Tensor]:
        """One pass over L rows.

        Args:
            ids_L: target token ids fed, int64.
            hidden_LH: ``fuse`` of the captured states, or the state that the previous step handed on.
            positions_L: rotary positions, int64.
            attends: one per layer, see ``Attend``.

        Returns:
            What goes into the head and what is handed to the next step, both [L, H].
        """
        w = self.wiring
        embedding_LH = self.weights.embedding.rows(ids_L)
        cos_LF, sin_LF = self.rope.at(positions_L)
        stream_LH = hidden_LH
        for layer, attend in zip(self.layers, attends, strict=True):
            stream_LH = layer(embedding_LH, stream_LH, cos_LF, sin_LF, attend, note)
        final_LH = rms_norm(stream_LH, self.weights["norm.weight"], w.rms_norm_eps) if w.final_norm else stream_LH
        note("final_normed", final_LH)
        return final_LH, final_LH if w.feedback is Feedback.POST_NORM else stream_LH

    def head(self, final_LH: Tensor) -> Tensor:
        """Draft logits [L, DV], float32."""
        logits_LV = F.linear(final_LH, self.weights[HEAD]).to(torch.float32)
        return logits_LV if self.wiring.logit_scale == 1.0 else logits_LV * self.wiring.logit_scale

    @cached_property
    def target_ids(self) -> Tensor:
        """The target token [DV] int64 that each draft id stands for.

        Raises:
            InputRejected: ``drafter.missing-tensor`` or ``drafter.vocab-map`` if the checkpoint's d2t cannot give it.
        """
        w = self.wiring
        identity_V = torch.arange(w.draft_vocab_size, device=self.device)
        if w.vocab_map is VocabMap.IDENTITY:
            return identity_V
        d2t_V = self.weights.integers(D2T)
        if d2t_V is None:
            if w.draft_vocab_size == w.target_vocab_size:
                return identity_V
            raise InputRejected(
                f"{self._label} has no d2t, and its draft vocabulary ({w.draft_vocab_size}) is not the target's ({w.target_vocab_size})",
                rule="drafter.missing-tensor",
                fix="Export the drafter with its d2t.",
            )
        if d2t_V.shape != (w.draft_vocab_size,):
            raise InputRejected(
                f"d2t of {self._label} has shape {list(d2t_V.shape)}, not [{w.draft_vocab_size}]",
                rule="drafter.vocab-map",
                fix="Export the drafter with one d2t entry for each row of its head.",
            )
        target_V = d2t_V + identity_V if w.vocab_map is VocabMap.OFFSET else d2t_V
        outside = (target_V < 0) | (target_V >= w.target_vocab_size)
        if bool(outside.any()):
            worst = int(outside.nonzero()[0, 0])
            raise InputRejected(
                f"d2t of {self._label}, read as {w.vocab_map.value}, sends draft id {worst} to token {int(target_V[worst])}, outside the "
                f"target vocabulary of {w.target_vocab_size}",
                rule="drafter.vocab-map",
                fix="Check whether d2t holds offsets or absolute ids, and that it belongs to this target.",
            )
        return target_V


def rotary_dim(wiring: Wiring) -> int:
    """How many dimensions of a head are rotated."""
    if wiring.mla is not None and wiring.attention is Attention.MLA:
        return wiring.mla.qk_rope_head_dim
    return wiring.head_dim if wiring.rope.rotary_dim is None else wiring.rope.rotary_dim


def check_consistent(wiring: Wiring) -> None:
    """Refuse a wiring that no forward can follow.

    Raises:
        InputRejected: ``drafter.wiring``, with every contradiction.
    """
    w = wiring
    wrong = [
        text
        for text, holds in (
            ("attention is mla but the sizes of mla are not given", w.attention is Attention.MLA and w.mla is None),
            ("fc is not applied, so exactly one state is fed", not w.fc_applied and w.states != 1),
            (
                "fc is not applied, so the target's hidden size must be the drafter's",
                not w.fc_applied and w.target_hidden_size != w.hidden_size,
            ),
            ("the state after the final norm is fed back, but there is no final norm", _feeds_missing_norm(w)),
            ("the head count is not a multiple of the key head count", w.attention is Attention.GQA and w.heads % w.kv_heads != 0),
            ("rotated dimensions exceed head_dim", w.attention is Attention.GQA and rotary_dim(w) > w.head_dim),
            ("a norm before fc is named twice", len(set(w.norms_before_fc)) != len(w.norms_before_fc)),
            ("the looked-up embedding cannot be a tied one", w.embedding not in (Owner.OWN, Owner.TARGET)),
            ("the window must hold at least the query's own key", w.window is not None and w.window < 1),
            ("there must be at least one layer and one state", w.layers < 1 or w.states < 1),
            ("the token shift and the first position cannot be negative", w.token_shift < 0 or w.positions_start < 0),
        )
        if holds
    ]
    if wrong:
        raise InputRejected(
            "the wiring contradicts itself: " + "; ".join(wrong),
            rule="drafter.wiring",
            fix="Correct the wiring in the contract, or the configuration it was read from.",
        )


def _feeds_missing_norm(wiring: Wiring) -> bool:
    return wiring.feedback is Feedback.POST_NORM and not wiring.final_norm
