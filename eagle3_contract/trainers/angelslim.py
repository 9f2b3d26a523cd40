"""Tencent AngelSlim (read: wheel 0.5.0, paths inside angelslim/compressor/speculative/train)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_contract.model.states import Recipe
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers.base import Recognition
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.faults import known_faults
from eagle3_contract.trainers.reading import BOUNDARIES, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, DeclaredRope, declared_rope, state_declared, state_table
from eagle3_contract.trainers.shared_rules import PLAIN, after_output, output_ids, state_target
from eagle3_contract.trainers.statements import Statements

IDS: Final = "aux_hidden_states_layer_ids"
"""Spelt with an s more than everyone else's key; no engine reads it (trainer/online_eagle3_trainer.py:54)."""
ARCHITECTURE: Final = "Eagle3LlamaForCausalLM"


class AngelSlim:
    name = "angelslim"

    def recognise(self, view: DrafterView) -> Recognition:
        """Its own keys, with its class name and midlayer tensors."""
        own = [key for key in (IDS, "modal_type", "target_model_type") if key in view.config]
        midlayer = any(n.startswith("midlayer.") for n in view.tensors)
        if own and midlayer:
            return Recognition(0.95, (f"config.json has {', '.join(own)}", "midlayer tensors"))
        if midlayer and view.architecture == ARCHITECTURE:
            return Recognition(0.8, (f"architecture {ARCHITECTURE} with midlayer tensors",))
        return Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[1, N//2-1, N-4] (models/target/target_model_wrapper.py:590-594)."""
        return output_ids(layers)

    def ids_to_boundaries(  # the protocol's signature; all versions alike
        self, ids: Sequence[int] | None, layers: int, version: str | None = None
    ) -> Recipe:
        """``hidden_states[id+1]``, boundary id+1, concatenated in the order listed (target_model_wrapper.py:625-627)."""
        return after_output(self.default_ids(layers) if ids is None else ids, layers, self.name)

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        recognition = self.recognise(view)
        s = Statements(sure=recognition.confidence >= 0.8)
        s.rule("training.trainer", self.name, "; ".join(recognition.reasons) or "named by the user")
        s.unknown("training.version", "AngelSlim writes no version")
        state_decoder(s, view, view.config, target)
        s.rules(PLAIN, "0.5.0 models/draft/llama_eagle3.py, trainer/eagle3_trainer.py")
        s.measured("wiring.norms_before_fc", [], "the trainer has none (llama_eagle3.py)")
        _rope(s, declared_rope(view.config))
        self._recipe(s, view, target)
        s.rule("training.metrics.definition", "angelslim.acc", "trainer/eagle3_trainer.py:283-285")
        s.rule("training.data.loss_mask_rule", "mask_of_state", "ids and target are padded by one on the right, the mask is not")
        s.rule("training.data.packed", False, "one conversation a row")
        state_target(
            s,
            target,
            normed=True,
            applied=False,
            source="hidden_states[-1] of transformers is normed (target_model_wrapper.py:801), "
            "and the vLLM backend hooks the norm (:1719-1726)",
        )
        s.notes.extend(known_faults(self.name, None))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, notes=tuple(s.notes))

    def _recipe(self, s: Statements, view: DrafterView, target: TargetFacts) -> None:
        ids = view.config.get(IDS)
        if isinstance(ids, list) and ids:
            layers = target.layers if target.layers is not None else 1 + max((i for i in ids if isinstance(i, int)), default=0)
            s.config(BOUNDARIES, self.ids_to_boundaries(ids, layers), f"{IDS}: outputs of layers, in the order listed")
        elif target.layers is not None:
            s.rule(BOUNDARIES, self.ids_to_boundaries(None, target.layers), f"no {IDS}: [1, N//2-1, N-4] (target_model_wrapper.py:590-594)")
        else:
            s.unknown(BOUNDARIES, f"no {IDS}, and the number of layers of the target, which the default depends on, is not known")


def _rope(s: Statements, rope: DeclaredRope) -> None:
    """llama_eagle3.py:257-288: only mrope is built from the config; default, linear and dynamic get no base, so 10000 whatever it says."""
    if rope.type == "mrope" or rope.scaling.get("mrope_interleaved") is True:
        state_declared(s, rope, source="MRotaryEmbedding(config) (llama_eagle3.py:268)")
        return
    s.rule("wiring.rope.theta", EAGLE_BASE, "llama_eagle3.py:260-286 passes no base to the rotary embedding")
    if rope.theta not in (None, EAGLE_BASE):
        s.notes.append(
            f"config.json declares rope_theta {rope.theta:g}; training used 10000, since the trainer's rotary embedding ignores it"
        )
    if rope.type in ("default", "linear", "dynamic"):
        s.config("wiring.rope.type", rope.type, rope.key)
        s.config("wiring.rope.scaling", dict(rope.scaling), rope.key)
    else:
        reason = f"{rope.key} says {rope.type}, which the trainer refuses to build: it was written afterwards"
        s.unknown("wiring.rope.type", reason, likely="default")
        s.unknown("wiring.rope.scaling", reason, likely={})
    state_table(s, rope)


ANGELSLIM: Final = AngelSlim()
