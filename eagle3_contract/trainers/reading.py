"""A trainer's account of one checkpoint: every statement of the contract it can make, each with its evidence or the reason it is unknown.

Statements are keyed by their path in the contract file (``wiring.feedback``, ``hidden_states.boundaries``), so that ``contract init``
writes them and ``--set`` names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from contract.errors import UserError
from contract.statement import Evidence, Fact
from eagle3_contract.model.states import Recipe
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

BOUNDARIES: Final = "hidden_states.boundaries"
ROPE_FIELDS: Final = ("type", "theta", "scaling", "table_length", "rotary_dim", "interleaved")
OUTSIDE_WIRING: Final = {
    "target_hidden_size": "target.hidden_size",
    "draft_vocab_size": "vocab.draft_size",
    "target_vocab_size": "vocab.target_size",
    "vocab_map": "vocab.map",
    "step_positions": "alignment.step_positions",
    "positions_start": "alignment.positions_start",
    "token_shift": "alignment.token_shift",
    "states": "states",
}
"""Fields of ``Wiring`` that the contract states in another section. ``states`` is the number of states fed; the contract does not
repeat it, since it is the length of the recipe."""
_ENUMS: Final = {
    "attention": Attention,
    "later_layer_norm": LaterLayerNorm,
    "feedback": Feedback,
    "concat_order": ConcatOrder,
    "embedding": Owner,
    "lm_head": Owner,
    "vocab_map": VocabMap,
    "step_positions": StepPositions,
}
WIRING_FIELDS: Final = tuple(f for f in Wiring.__dataclass_fields__ if f != "rope")


def path_of(wiring_field: str) -> str:
    """The contract path of a field of ``Wiring``."""
    return OUTSIDE_WIRING.get(wiring_field, f"wiring.{wiring_field}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What is known of the target model; None where nothing is."""

    layers: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    model_type: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recipe that the same spelling could mean, and under which convention."""

    recipe: Recipe
    convention: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReading:
    """What a trainer's adapter makes of a checkpoint.

    Attributes:
        trainer: the adapter's name.
        facts: contract path to what is known, with evidence and source.
        likely: contract path to the most plausible value of something unknown. Never used unless asked for.
        candidates: the recipes that the config's ids could mean, most plausible first.
        notes: known faults of the trainer that touch this checkpoint, and what contradicts itself in it.
    """

    trainer: str
    facts: Mapping[str, Fact]
    likely: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    def unknown(self) -> dict[str, str]:
        """Contract path to the reason, for everything that is not known."""
        return {path: fact.reason or "not stated" for path, fact in self.facts.items() if not fact.known}

    def with_declared(self, declared: Mapping[str, Any], *, evidence: Evidence = "declared", note: str | None = None) -> TrainingReading:
        """A copy in which some statements are answered (``--set``, a measurement).

        Raises:
            UserError: ``trainers.unknown-field`` for a path that is no statement of a training.
        """
        strange = sorted(set(declared) - set(self.facts))
        if strange:
            raise UserError(
                f"{', '.join(strange)}: no such statement",
                rule="trainers.unknown-field",
                fix=f"Name one of {', '.join(sorted(self.facts))}.",
            )
        facts = {path: Fact(known=True, value=value, evidence=evidence, note=note) for path, value in declared.items()}
        if BOUNDARIES in declared and "states" not in declared:
            facts["states"] = Fact(known=True, value=len(declared[BOUNDARIES]), evidence=evidence, note=f"length of {BOUNDARIES}")
        return replace(self, facts={**self.facts, **facts})

    def resolve(self, *, recipe: bool = True, assume: bool = False) -> Reading:
        """The recipe and wiring that training used, for a forward.

        Args:
            recipe: whether the recipe must be known; without, an unknown one is left empty (enough where the states are handed in).
            assume: take the likely value of what is unknown. The caller must say so to the user (:meth:`assumed` names them).

        Raises:
            UserError: ``trainers.wiring-unknown``, naming everything that must be given.
        """
        missing: dict[str, str] = {}

        def value(path: str) -> Any:
            fact = self.facts.get(path)
            if fact is not None and fact.known:
                return fact.value
            if assume and path in self.likely:
                return self.likely[path]
            missing[path] = fact.reason or "not stated" if fact is not None else "not stated"
            return None

        values = {name: value(path_of(name)) for name in WIRING_FIELDS}
        rope = {name: value(f"wiring.rope.{name}") for name in ROPE_FIELDS}
        rollout = value("training.rollout") if self.facts.get("training.rollout", Fact(known=False)).known else Rollout.TEACHER
        fed = self.facts.get(BOUNDARIES, Fact(known=False, reason="not stated"))
        boundaries = value(BOUNDARIES) if recipe else (fed.value if fed.known else ())
        if missing:
            raise UserError(
                f"{self.trainer}: what training did is not known from the checkpoint alone: "
                + "; ".join(f"{path} ({reason})" for path, reason in sorted(missing.items())),
                rule="trainers.wiring-unknown",
                fix="State each in a contract, for instance with `contract init DRAFTER "
                + " ".join(f"--set {path}=..." for path in sorted(missing))
                + "`, and name that (`--spec`).",
            )
        for name, enum in _ENUMS.items():
            values[name] = enum(values[name])
        values["norms_before_fc"] = tuple(NormBeforeFc(n) for n in values["norms_before_fc"])
        values["mla"] = Mla(**values["mla"]) if values["mla"] is not None else None
        wiring = Wiring(**values, rope=Rope(**rope))
        return Reading(reader=f"training ({self.trainer})", recipe=tuple(boundaries), wiring=wiring, rollout=Rollout(rollout))

    def assumed(self) -> dict[str, Any]:
        """What ``resolve(assume=True)`` takes on plausibility alone: path to value."""
        return {path: value for path, value in self.likely.items() if path in self.facts and not self.facts[path].known}
