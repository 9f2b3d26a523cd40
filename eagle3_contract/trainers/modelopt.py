"""NVIDIA ModelOpt (read: wheels 0.40.0, 0.41.0, 0.47.0; paths inside modelopt/torch)."""

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
from eagle3_contract.trainers.rope import EAGLE_BASE, declared_rope, state_table
from eagle3_contract.trainers.shared_rules import PLAIN, after_output, output_ids, state_recipe, state_target
from eagle3_contract.trainers.statements import Statements

IDS: Final = "eagle_aux_hidden_state_layer_ids"
OWN_KEYS: Final = ("use_input_layernorm_in_first_layer", "use_last_layernorm", "use_mtp_layernorm")
SINCE_0_41: Final = ("next_layer_regular", "parallel_draft_step")
"""Keys of ``eagle_config`` that 0.41.0's exporter writes and 0.40.0's does not (export/plugins/hf_spec_export.py)."""
INJECTED_ROPE: Final = {"factor": 32.0, "original_max_position_embeddings": 2048}
"""The YaRN scaling that the export writes over a training rope of type "default" (speculative/config.py:380,
export/plugins/hf_spec_export.py:213-218)."""
LATENT_EPS: Final = 1e-6
"""transformers' DeepseekV3Attention builds its two latent norms without passing an epsilon."""


VLLM_DUMP: Final = "vllm"
"""Passed as the version for states dumped by ``compute_hidden_states_vllm.py``."""


class ModelOpt:
    name = "modelopt"

    def recognise(self, view: DrafterView) -> Recognition:
        """The keys about norms in ``eagle_config`` are its own."""
        own = [key for key in OWN_KEYS if key in view.section("eagle_config")]
        return Recognition(0.95, (f"eagle_config has {', '.join(own)}",)) if own else Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """sorted({1, max(0, N//2-1), max(0, N-4)}) (speculative/plugins/hf_eagle.py:58-63)."""
        return tuple(sorted(set(output_ids(layers))))

    def ids_to_boundaries(self, ids: Sequence[int] | None, layers: int, version: str | None = None) -> Recipe:
        """A forward hook on layer k takes its output, boundary k+1, in ascending order (hf_eagle.py:401-406;
        compute_hidden_states_hf.py:185-188). A dump made with vLLM is different: it hands the same ids to vLLM, which takes them for
        boundaries (``version`` "vllm"; compute_hidden_states_vllm.py:174-178,293-303), and nothing in the export tells the two apart."""
        if ids is not None and version == VLLM_DUMP:
            return tuple(sorted(check_ids(ids, layers, lowest=0, highest=layers, trainer=self.name)))
        return tuple(sorted(after_output(self.default_ids(layers) if ids is None else ids, layers, self.name)))

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        own = view.section("eagle_config")
        s = Statements(sure=True)
        s.rule("training.trainer", self.name, "; ".join(self.recognise(view).reasons) or "named by the user")
        s.unknown(
            "training.version",
            "the export writes no version; its keys show " + ("0.41 or later" if _shared_norm(view) else "0.40 or earlier"),
        )
        state_decoder(s, view, view.config, target)
        s.rules(PLAIN, "0.47.0 speculative/plugins/modeling_eagle.py, hf_eagle.py")
        s.rule(
            "alignment.step_positions",
            "advance",
            "states are rolled right by one a step while positions stay with the index (hf_eagle.py; utils.get_ttt_msk_func): seen from a "
            "row of the first step, the position advances",
        )
        s.measured("wiring.norms_before_fc", [], "the trainer has none (modeling_eagle.py)")
        s.rule("wiring.later_layer_norm", "input_layernorm" if (s.value("wiring.layers") or 1) > 1 else "none", "plain decoder layers")
        if _shared_norm(view):
            s.rule(
                "wiring.double_norm",
                True,
                "0.41.0 and later: layer 0 norms the hidden stream with its own input_layernorm before "
                "hidden_norm (modeling_eagle.py:76-80,114-127)",
            )
        else:
            s.rule("wiring.double_norm", False, "0.37 to 0.40 put an Identity there (0.40.0 plugins/transformers.py:252)")
        last = own.get("use_last_layernorm")
        if isinstance(last, bool):
            s.config("wiring.final_norm", last, "eagle_config.use_last_layernorm")
        else:
            s.measured("wiring.final_norm", view.has(names.FINAL_NORM), "norm.weight")
        mla = s.value("wiring.mla")
        if mla is not None:
            s.rule("wiring.mla", {**mla, "norm_eps": LATENT_EPS}, "transformers modeling_deepseek_v3.py: the latent norms' epsilon is 1e-6")
        _rope(s, view)
        s.rule("training.metrics.definition", "modelopt.train_acc", "hf_eagle.py:865-870")
        s.rule("training.data.loss_mask_rule", "mask_of_token", "row j is scored under mask[j+1+s]")
        s.rule("training.data.packed", False, "one conversation a row")
        state_target(
            s,
            target,
            normed=None,
            applied=None,
            source="HF and TRT-LLM dumps are normed, vLLM's are not, and only streaming flags it (hf_streaming_dataset.py:372)",
        )
        kept = state_recipe(
            s,
            self._candidates(own.get(IDS), target),
            "the ids mean layer outputs if Hugging Face or TensorRT-LLM captured "
            "and layer inputs if vLLM wrote the dump; the export does not say which",
        )
        s.notes.extend(known_faults(self.name, "0.41" if _shared_norm(view) else "0.40"))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, candidates=kept, notes=tuple(s.notes))

    def _candidates(self, ids: object, target: TargetFacts) -> list[Candidate]:
        if isinstance(ids, list) and ids and all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            return [
                Candidate(tuple(sorted(i + 1 for i in ids)), "outputs of the layers: captured by Hugging Face or TensorRT-LLM"),
                Candidate(tuple(sorted(ids)), "inputs of the layers: dumped by vLLM"),
            ]
        return [] if target.layers is None else [Candidate(self.ids_to_boundaries(None, target.layers), "ModelOpt's default layers")]


def _shared_norm(view: DrafterView) -> bool:
    return any(key in view.section("eagle_config") for key in SINCE_0_41)


def _rope(s: Statements, view: DrafterView) -> None:
    """config.json is no witness: the export writes a YaRN scaling that training never used. Never answers yarn."""
    declared = declared_rope(view.config)
    if declared.malformed:
        s.unknown("wiring.rope.theta", declared.malformed)
    elif declared.theta is not None:
        s.config("wiring.rope.theta", declared.theta, declared.theta_key)
    else:
        s.rule("wiring.rope.theta", EAGLE_BASE, "eagle/default_config.py: 10000")
    injected = declared.type == "yarn" and dict(declared.scaling) == INJECTED_ROPE
    if injected:
        source = "the export writes yarn with factor 32 over 2048 where training used plain rope (config.py:380, hf_spec_export.py:213-218)"
        s.rule("wiring.rope.type", "default", source)
        s.rule("wiring.rope.scaling", {}, source)
        s.notes.append(f"{declared.key} says yarn, factor 32 over 2048: written by the export; training used plain rope")
    elif declared.type == "default":
        s.config("wiring.rope.type", "default", declared.key)
        s.config("wiring.rope.scaling", {}, declared.key)
    else:
        latent = s.value("wiring.attention") == "mla"
        reason = (
            f"{declared.key} says {declared.type}, but the export may overwrite the rope of training "
            "(eagle_export_rope_scaling), so config.json is no witness"
        )
        s.unknown("wiring.rope.type", reason, likely=declared.type if latent or declared.type != "yarn" else "default")
        s.unknown("wiring.rope.scaling", reason, likely=dict(declared.scaling) if latent or declared.type != "yarn" else {})
    state_table(s, declared)


MODELOPT: Final = ModelOpt()
