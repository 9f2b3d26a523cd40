"""SpecForge (read: wheel 0.2.0, paths inside the package).

Its exports carry no signature: the same spelling (``LlamaForCausalLMEagle3``, ``midlayer.*``, ids in ``eagle_config``) is used by other
writers who mean boundaries by the ids, and a run's own ``model.aux_hidden_state_layer_ids`` overrides the draft config without a trace.
So the recipe is never read off an export alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contract.errors import UserError
from eagle3_contract.model.states import Recipe
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.base import SURE, Recognition
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.faults import known_faults
from eagle3_contract.trainers.reading import Candidate, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, declared_rope, state_declared
from eagle3_contract.trainers.shared_rules import PLAIN, after_output, output_ids, state_recipe, state_target
from eagle3_contract.trainers.statements import Statements

IDS: Final = "eagle_aux_hidden_state_layer_ids"
TRAINING_STATE: Final = "training_state.pt"
ARCHITECTURE: Final = "LlamaForCausalLMEagle3"


class SpecForge:
    name = "specforge"

    def recognise(self, view: DrafterView) -> Recognition:
        """A training state is its own; an export only looks like its own."""
        if TRAINING_STATE in view.files and view.has(names.FC):
            return Recognition(1.0, (f"{TRAINING_STATE} with a draft_state_dict",))
        if view.architecture != ARCHITECTURE or not any(n.startswith("midlayer.") for n in view.tensors):
            return Recognition(0.0)
        if not (view.has(names.D2T) and view.has(names.T2D)):
            return Recognition(0.3, ("architecture and names as SpecForge writes them, but it always writes d2t and t2d",))
        if _mirrored_theta(view):
            return Recognition(0.8, ("rope_parameters with a mirrored rope_theta, midlayer names, d2t and t2d",))
        return Recognition(0.55, ("architecture, midlayer names, d2t and t2d: SpecForge before 0.2, or another writer of that spelling",))

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[1, N//2-1, N-4] (algorithms/model_providers.py:204)."""
        return output_ids(layers)

    def ids_to_boundaries(  # the protocol's signature; all versions alike
        self, ids: Sequence[int] | None, layers: int, version: str | None = None
    ) -> Recipe:
        """Id k is the output of layer k, boundary k+1, in ascending order: SGLang captures them and adds 1 (SGLang 0.5.23
        models/llama.py:929-941). Exactly three (model_providers.py:206-210)."""
        given = self.default_ids(layers) if ids is None else ids
        if len(given) != 3:
            raise UserError(
                f"SpecForge captures exactly three states; {list(given)} are {len(given)}", rule="trainers.layer-ids", fix="Give three ids."
            )
        return tuple(sorted(after_output(given, layers, self.name)))

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        recognition = self.recognise(view)
        s = Statements(sure=recognition.confidence >= SURE or _mirrored_theta(view))
        s.rule("training.trainer", self.name, "; ".join(recognition.reasons) or "named by the user")
        s.unknown("training.version", "SpecForge writes no version")
        state_decoder(s, view, view.config, target)
        s.rules(PLAIN, "0.2.0 modeling/draft/llama3_eagle.py, algorithms/eagle3/model.py:386-400")
        s.measured("wiring.norms_before_fc", ["fc_norm"] if view.has(names.fc_norm(0)) else [], "fc_norm.N.weight, as far as stored")
        if isinstance(view.config.get("fc_norm"), bool) and view.config["fc_norm"] is not view.has(names.fc_norm(0)):
            s.unknown("wiring.norms_before_fc", "fc_norm in config.json and the stored tensors contradict each other")
        output = view.config.get("norm_output")
        if isinstance(output, bool):
            s.config(
                "wiring.final_norm",
                output,
                "norm_output means the norm before the head here (llama3_eagle.py:1690,1772-1778); the "
                "state handed on is always the one before it",
            )
        else:
            s.rule("wiring.final_norm", True, "norm_output defaults to true (llama3_eagle.py:1690)")
        _rope(s, view)
        s.rule("training.metrics.definition", "specforge.acc", "algorithms/eagle3/model.py:161-173")
        s.rule(
            "training.data.loss_mask_rule", "mask_of_state", "algorithms/eagle3/data.py:10-27: ids and target are shifted, the mask is not"
        )
        s.rule("training.data.packed", False, "one conversation a row")
        state_target(
            s,
            target,
            normed=True,
            applied=False,
            source="the logits processor's input is stored (offline_capture/"
            "sglang_backend/utils.py:85-91) and goes straight into the head (target_head.py:100)",
        )
        candidates = self._candidates(view, target)
        kept = state_recipe(
            s,
            candidates,
            "an export does not say which layers a run captured: ids in eagle_config mean layer outputs to "
            "SpecForge and layer inputs to vLLM, and a run config overrides them unseen",
        )
        s.notes.extend(known_faults(self.name, None))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, candidates=kept, notes=tuple(s.notes))

    def _candidates(self, view: DrafterView, target: TargetFacts) -> list[Candidate]:
        ids = view.section("eagle_config").get(IDS)
        found = []
        if isinstance(ids, list) and ids and all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            found = [
                Candidate(tuple(i + 1 for i in ids), "eagle_config ids as outputs of layers (SpecForge, ModelOpt, SGLang)"),
                Candidate(tuple(ids), "eagle_config ids as inputs of layers (vLLM)"),
            ]
        elif target.layers is not None:
            found = [Candidate(self.ids_to_boundaries(None, target.layers), "SpecForge's default layers")]
        return found


def _mirrored_theta(view: DrafterView) -> bool:
    """Exports of 0.2.0 under transformers 5 repeat rope_theta beside rope_parameters."""
    parameters = view.section("rope_parameters")
    return "rope_theta" in parameters and view.config.get("rope_theta") == parameters["rope_theta"]


def _rope(s: Statements, view: DrafterView) -> None:
    """0.2.0 uses what is declared (llama3_eagle.py:108-123,569-650); before SpecForge #270 the base was 10000 whatever was declared."""
    declared = declared_rope(view.config)
    state_declared(s, declared, source="llama3_eagle.py:569-650")
    if not declared.standardised and declared.theta not in (None, EAGLE_BASE):
        s.unknown(
            "wiring.rope.theta",
            f"rope_theta says {declared.theta:g}, but before SpecForge #270 training used 10000 whatever it said, "
            "and this config does not show which version wrote it",
            likely=declared.theta,
        )


SPECFORGE: Final = SpecForge()
