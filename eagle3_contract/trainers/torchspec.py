"""TorchSpec (read: lightseekorg/TorchSpec 6f21829 and later)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_contract.model.states import Recipe
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.base import Recognition, check_ids
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.faults import known_faults
from eagle3_contract.trainers.reading import Candidate, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, DeclaredRope, declared_rope, state_declared
from eagle3_contract.trainers.shared_rules import PLAIN, after_output, output_ids, state_recipe, state_target
from eagle3_contract.trainers.statements import Statements

IDS: Final = "eagle_aux_hidden_state_layer_ids"
VLLM_EXPORT: Final = "vllm"
"""Passed as the version for a checkpoint of ``convert_to_hf.py --vllm``, whose ids were raised by one for Kimi."""


class TorchSpec:
    name = "torchspec"

    def recognise(self, view: DrafterView) -> Recognition:
        """It signs its exports, in config.json and in the safetensors metadata."""
        signs = [f"config.json has {k}" for k in ("_torchspec_version",) if k in view.config]
        signs += [f"metadata has {k}" for k in ("torchspec_version",) if k in view.metadata]
        return Recognition(1.0, tuple(signs)) if signs else Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[1, N//2-1, N-4] (torchspec/utils/misc.py:76-87)."""
        return output_ids(layers)

    def ids_to_boundaries(self, ids: Sequence[int] | None, layers: int, version: str | None = None) -> Recipe:
        """Id k is the output of layer k, boundary k+1: vLLM gets k+1 (inference/engine/vllm_engine.py:145-166), SGLang adds its own 1.
        In a ``--vllm`` export (``version`` "vllm") the ids of Kimi drafters were already raised (tools/convert_to_hf.py
        _fixup_export_config)."""
        if ids is not None and version == VLLM_EXPORT:
            return check_ids(ids, layers, lowest=0, highest=layers, trainer=self.name)
        return after_output(self.default_ids(layers) if ids is None else ids, layers, self.name)

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        s = Statements(sure=True)
        version = view.config.get("_torchspec_version", view.metadata.get("torchspec_version"))
        s.config("training.trainer", self.name, "_torchspec_version")
        s.config_or("training.version", version if isinstance(version, str) else None, "_torchspec_version")
        state_decoder(s, view, view.config, target)
        s.rules(PLAIN, "6f21829 torchspec/models/draft/llama3_eagle.py, models/eagle3.py")
        s.measured("wiring.norms_before_fc", ["fc_norm"] if view.has(names.fc_norm(0)) else [], "fc_norm.N.weight, as far as stored")
        _rope(s, declared_rope(view.config))
        if view.has(names.D2T):
            s.notes.append(
                "a reduced head of a TorchSpec export may hold the wrong rows: its prune picks lm_head rows by offset instead of "
                "by id (tools/convert_to_hf.py:235,309,312); compare lm_head with the target's rows"
            )
        s.rule("training.metrics.definition", "torchspec.acc", "torchspec/models/eagle3.py:175-180, ops/loss.py")
        s.rule("training.data.loss_mask_rule", "mask_of_state", "ids and target are padded by one, the mask is not")
        s.unknown("training.data.packed", "a switch of the run", likely=False)
        state_target(
            s,
            target,
            normed=None,
            applied=None,
            source="before the norm from vLLM, after it from SGLang and Hugging Face (config/train_config.py:335)",
        )
        kept = state_recipe(s, self._candidates(view, target), "the export does not carry the run's aux_hidden_states_layers")
        s.notes.extend(known_faults(self.name, version if isinstance(version, str) else None))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, candidates=kept, notes=tuple(s.notes))

    def _candidates(self, view: DrafterView, target: TargetFacts) -> list[Candidate]:
        ids = view.section("eagle_config").get(IDS)
        found = []
        if isinstance(ids, list) and ids and all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            raised = any(n.startswith("layers.") for n in view.tensors) and view.config.get("model_type") == "kimi_k2"
            readings = [
                Candidate(tuple(i + 1 for i in ids), "eagle_config ids as outputs of layers (TorchSpec's own)"),
                Candidate(tuple(ids), "eagle_config ids as inputs of layers (raised by the --vllm export)"),
            ]
            found = readings[::-1] if raised else readings
        if target.layers is not None:
            found.append(Candidate(self.ids_to_boundaries(None, target.layers), "TorchSpec's default layers"))
        return found


def _rope(s: Statements, rope: DeclaredRope) -> None:
    """llama3_eagle.py: plain, llama3 and yarn scaling use rope_theta; linear, dynamic and mrope get no base. The latent attention dropped
    it for yarn too, until that was mended."""
    state_declared(s, rope, source="torchspec/models/draft/llama3_eagle.py")
    if rope.theta in (None, EAGLE_BASE):
        return
    if rope.type in ("linear", "dynamic", "mrope"):
        s.rule("wiring.rope.theta", EAGLE_BASE, f"{rope.type} scaling is built without a base (llama3_eagle.py)")
        s.notes.append(f"config.json declares rope_theta {rope.theta:g}; training used 10000 with {rope.type} scaling")
    elif rope.type == "yarn" and s.value("wiring.attention") == "mla":
        s.unknown(
            "wiring.rope.theta",
            f"rope_theta says {rope.theta:g}, but the latent attention's yarn was built without a base, 10000, "
            "until that was mended, and the checkpoint does not say on which side it is",
            likely=EAGLE_BASE,
        )


TORCHSPEC: Final = TorchSpec()
