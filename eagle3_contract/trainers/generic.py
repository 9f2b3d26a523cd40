"""A trainer nobody knows: what the tensors show is stated, what is convention is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_contract.model.states import Recipe, default_boundaries
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.base import Recognition, check_ids
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.reading import Candidate, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, declared_rope, state_table
from eagle3_contract.trainers.shared_rules import PLAIN, state_recipe
from eagle3_contract.trainers.statements import Statements

_ASKED: Final = (
    "training.metrics.definition",
    "training.data.loss_mask_rule",
    "training.data.packed",
    "training.version",
    "training.target_state.boundary",
    "training.target_state.normed",
    "training.target_state.norm_applied_by_trainer",
)


class Generic:
    name = "generic"

    def recognise(self, view: DrafterView) -> Recognition:
        """Anything with fc and a decoder layer, and never surer than a trainer that knows its own."""
        drafter = view.has(names.FC) and view.layers > 0
        return Recognition(0.1, ("fc and a decoder layer",)) if drafter else Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[2, N//2, N-3] as boundaries, what almost everyone feeds."""
        return default_boundaries(layers)

    def ids_to_boundaries(  # the protocol's signature; all versions alike
        self, ids: Sequence[int] | None, layers: int, version: str | None = None
    ) -> Recipe:
        """Ids are boundaries, in the order given: whoever names them to this adapter names boundaries."""
        return check_ids(self.default_ids(layers) if ids is None else ids, layers, lowest=0, highest=layers, trainer=self.name)

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        s = Statements(sure=False)
        s.unknown("training.trainer", "no trainer recognises this checkpoint as its own")
        state_decoder(s, view, view.config, target)
        norms = [n for n, stored in (("input_norm", view.has(names.INPUT_NORM)), ("fc_norm", view.has(names.fc_norm(0)))) if stored]
        s.measured("wiring.norms_before_fc", norms, "input_norm.weight and fc_norm.N.weight, as far as they are stored")
        for path, value in PLAIN.items():
            s.unknown(path, "a convention of the trainer, which is not known", likely=value)
        if s.value("wiring.layers") == 1:
            s.measured("wiring.later_layer_norm", "none", "one layer is stored")
        rope = declared_rope(view.config)
        reason = "config.json declares it, and trainers are known that declare what they do not use"
        s.unknown("wiring.rope.type", reason, likely=rope.type)
        s.unknown("wiring.rope.scaling", reason, likely=dict(rope.scaling))
        s.unknown("wiring.rope.theta", reason, likely=EAGLE_BASE if rope.theta is None else rope.theta)
        state_table(s, rope)
        for path in _ASKED:
            s.unknown(path, "the trainer is not known")
        found = [] if target.layers is None else [Candidate(default_boundaries(target.layers), "what almost everyone feeds")]
        kept = state_recipe(s, found, "the trainer is not known, and ids mean different layers to different trainers")
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, candidates=kept, notes=tuple(s.notes))


GENERIC: Final = Generic()
