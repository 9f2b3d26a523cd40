"""From the contract file to something a forward can run: every needed statement known, or an error that names the unknown ones."""

from __future__ import annotations

from typing import Any, Final

from contract.errors import UserError
from contract.statement import fact
from eagle3_contract.model.spec import Contract, WiringSpec
from eagle3_contract.model.vocab import VocabMap
from eagle3_contract.model.wiring import (
    Attention,
    ConcatOrder,
    Feedback,
    LaterLayerNorm,
    Mla,
    NormBeforeFc,
    Owner,
    Reading,
    Rollout,
    Rope,
    StepPositions,
    Wiring,
)

CONTRACT_READER: Final = "training (contract)"


class _Needed:
    """Collects the dotted names of unknown statements, so that one error can list them all."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def __call__(self, name: str, stated: Any) -> Any:
        """The value of a ``Stated``; None, and the name noted, if it is unknown."""
        known = fact(stated)
        if not known.known:
            self.unknown.append(f"{name} ({known.reason})")
        return known.value


def resolve(contract: Contract, *, rollout: bool = True) -> Reading:
    """The recipe and wiring of training, as the contract states them.

    Args:
        contract: a loaded contract.
        rollout: whether the training's rollout is needed (it is not for a forward that is told which tokens to feed).

    Raises:
        UserError: ``contract.unknown-statement`` if a statement that decides the arithmetic is unknown.
    """
    need = _Needed()
    recipe = need("hidden_states.boundaries", contract.hidden_states.boundaries)
    wiring_values = _wiring_values(contract, need)
    way = need("training.rollout", contract.training.rollout) if rollout else Rollout.TEACHER
    if need.unknown:
        raise UserError(
            "the contract does not say enough to run the drafter: " + "; ".join(need.unknown) + " unknown",
            rule="contract.unknown-statement",
            fix="Answer the unknown statements in the contract (the reason given beside each says where to look).",
        )
    return Reading(reader=CONTRACT_READER, recipe=tuple(recipe), wiring=Wiring(**wiring_values), rollout=Rollout(way))


def _wiring_values(contract: Contract, need: _Needed) -> dict[str, Any]:
    w = contract.wiring
    values: dict[str, Any] = {
        name: need(f"wiring.{name}", getattr(w, name))
        for name in (
            "hidden_size",
            "layers",
            "heads",
            "kv_heads",
            "head_dim",
            "intermediate_size",
            "rms_norm_eps",
            "hidden_act",
            "fc_applied",
            "fc_bias",
            "hidden_norm",
            "double_norm",
            "norm_before_residual",
            "final_norm",
            "window",
            "window_follows_steps",
            "qk_norm",
            "qkv_bias",
            "o_bias",
            "mlp_bias",
            "attention_scale",
            "logit_scale",
        )
    }
    enums = {
        "attention": Attention,
        "later_layer_norm": LaterLayerNorm,
        "feedback": Feedback,
        "concat_order": ConcatOrder,
        "embedding": Owner,
        "lm_head": Owner,
    }
    for name, enum in enums.items():
        value = need(f"wiring.{name}", getattr(w, name))
        values[name] = enum(value) if value is not None else None
    norms = need("wiring.norms_before_fc", w.norms_before_fc)
    values["norms_before_fc"] = tuple(NormBeforeFc(n) for n in norms or ())
    values["rope"] = _rope(w, need)
    values["mla"] = None if w.mla is None else Mla(**{f: getattr(w.mla, f) for f in w.mla.__struct_fields__})
    values["target_hidden_size"] = need("target.hidden_size", contract.target.hidden_size)
    values["draft_vocab_size"] = need("vocab.draft_size", contract.vocab.draft_size)
    values["target_vocab_size"] = need("vocab.target_size", contract.vocab.target_size)
    vocab_map = need("vocab.map", contract.vocab.map)
    values["vocab_map"] = VocabMap(vocab_map) if vocab_map is not None else None
    boundaries = fact(contract.hidden_states.boundaries)
    values["states"] = len(boundaries.value) if boundaries.known and boundaries.value is not None else 0
    positions = need("alignment.step_positions", contract.alignment.step_positions)
    values["step_positions"] = StepPositions(positions) if positions is not None else None
    values["positions_start"] = need("alignment.positions_start", contract.alignment.positions_start)
    values["token_shift"] = need("alignment.token_shift", contract.alignment.token_shift)
    return values


def _rope(w: WiringSpec, need: _Needed) -> Rope:
    stated = ("type", "theta", "table_length", "rotary_dim", "interleaved")
    values = {name: need(f"wiring.rope.{name}", getattr(w.rope, name)) for name in stated}
    scaling = {k: tuple(v) if isinstance(v, list) else v for k, v in w.rope.scaling.items()}
    return Rope(**values, scaling=scaling)
