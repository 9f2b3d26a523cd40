"""The official EAGLE trainer (SafeAILab/EAGLE cb7e084, eagle/traineagle3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_contract.model.states import Recipe, default_boundaries
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.base import Recognition, check_ids
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.faults import known_faults
from eagle3_contract.trainers.reading import BOUNDARIES, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, declared_rope, state_table
from eagle3_contract.trainers.shared_rules import PLAIN, state_target
from eagle3_contract.trainers.statements import Statements

LEAKED: Final = "target_model."
"""The target sits inside the drafter's module, and its rotary buffers leak into ``pytorch_model.bin``."""


class Eagle:
    name = "eagle"

    def recognise(self, view: DrafterView) -> Recognition:
        """Leaked target buffers are its own; the plain Llama architecture with midlayer tensors is nearly so."""
        midlayer = any(n.startswith("midlayer.") for n in view.tensors)
        if midlayer and any(n.startswith(LEAKED) for n in view.tensors):
            return Recognition(0.95, ("midlayer tensors beside leaked buffers of target_model",))
        if midlayer and view.has(names.FC) and view.architecture == "LlamaForCausalLM":
            return Recognition(0.7, ("midlayer tensors under the architecture LlamaForCausalLM",))
        return Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[2, N//2, N-3], hard-coded (traineagle3/modeling_llama_kv.py:1139)."""
        return default_boundaries(layers)

    def ids_to_boundaries(  # the protocol's signature; all versions alike
        self, ids: Sequence[int] | None, layers: int, version: str | None = None
    ) -> Recipe:
        """Each state is taken before its layer: id k is boundary k (modeling_llama_kv.py:1138, modeling_qwen3_kv.py:582)."""
        return tuple(
            sorted(check_ids(self.default_ids(layers) if ids is None else ids, layers, lowest=0, highest=layers, trainer=self.name))
        )

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        recognition = self.recognise(view)
        s = Statements(sure=recognition.confidence >= 0.7)
        s.rule("training.trainer", self.name, "; ".join(recognition.reasons) or "named by the user")
        s.unknown("training.version", "EAGLE has no versions")
        state_decoder(s, view, view.config, target)
        s.rules(PLAIN, "cb7e084 traineagle3/cnets.py:700-880")
        s.measured("wiring.norms_before_fc", [], "the trainer has none (cnets.py)")
        _rope(s, view)
        if target.layers is not None:
            s.rule(
                BOUNDARIES, self.ids_to_boundaries(None, target.layers), "hard-coded in the target's model file (modeling_llama_kv.py:1139)"
            )
        else:
            s.unknown(BOUNDARIES, "boundaries 2, N//2 and N-3 of the target, whose number of layers N is not known")
        s.rule("training.metrics.definition", "eagle.acc", "traineagle3/cnets.py:858")
        s.rule("training.data.loss_mask_rule", "mask_of_state", "cnets.py dataprepare: ids and target are shifted, the mask is not")
        s.rule("training.data.packed", False, "one conversation a row")
        state_target(s, target, normed=True, applied=False, source="the target's own logits, computed in the trainer")
        s.notes.extend(known_faults(self.name, None))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, notes=tuple(s.notes))


def _rope(s: Statements, view: DrafterView) -> None:
    """traineagle3/cnets.py LlamaAttention._init_rope passes no base, so 10000, and knows linear and dynamic scaling alone."""
    declared = declared_rope(view.config)
    s.rule("wiring.rope.theta", EAGLE_BASE, "traineagle3/cnets.py LlamaAttention._init_rope passes no base")
    if declared.theta not in (None, EAGLE_BASE):
        s.notes.append(
            f"config.json declares rope_theta {declared.theta:g}; training used 10000, since the trainer's rotary embedding ignores it"
        )
    if declared.type in ("default", "linear", "dynamic"):
        s.config("wiring.rope.type", declared.type, declared.key)
        s.config("wiring.rope.scaling", dict(declared.scaling), declared.key)
    else:
        reason = f"{declared.key} says {declared.type}, which the trainer refuses to build: it was written afterwards"
        s.unknown("wiring.rope.type", reason, likely="default")
        s.unknown("wiring.rope.scaling", reason, likely={})
    state_table(s, declared)


EAGLE: Final = Eagle()
