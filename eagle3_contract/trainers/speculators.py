"""speculators 0.2 to 0.9, and heads that its ``convert`` rewrote.

Read: wheels 0.3.0, 0.4.0, 0.5.0, 0.9.0. Paths are inside the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from contract.findings import Json
from eagle3_contract.model.states import Recipe, default_boundaries
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.base import Recognition, check_ids
from eagle3_contract.trainers.decoder import state_decoder
from eagle3_contract.trainers.faults import known_faults
from eagle3_contract.trainers.reading import BOUNDARIES, Candidate, TargetFacts, TrainingReading
from eagle3_contract.trainers.rope import EAGLE_BASE, declared_rope, state_declared
from eagle3_contract.trainers.shared_rules import PLAIN, state_recipe, state_target
from eagle3_contract.trainers.statements import Statements
from eagle3_contract.trainers.versions import before

IDS: Final = "eagle_aux_hidden_state_layer_ids"
CONVERTED_ARCHITECTURE: Final = "Eagle3Speculator"
DECODER: Final = "transformer_layer_config"
_D: Final = f"{DECODER}."


class Speculators:
    name = "speculators"

    def recognise(self, view: DrafterView) -> Recognition:
        """``speculators_model_type: eagle3`` is written by nothing else."""
        if view.config.get("speculators_model_type") == "eagle3":
            return Recognition(1.0, ("config.json has speculators_model_type eagle3",))
        return Recognition(0.0)

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """[2, N//2, N-3] (0.9.0 models/utils.py:111; 0.3.0 data_generation/vllm_hidden_states_generator.py:97)."""
        return default_boundaries(layers)

    def ids_to_boundaries(self, ids: Sequence[int] | None, layers: int, version: str | None = None) -> Recipe:
        """From 0.5 on vLLM captures: id k is boundary k, in ascending order whatever the list says (vLLM 0.32.0 interfaces.py:1578).

        Before, the worker stored each state after its layer: id k is boundary k+1 (0.3.0 data_generation/custom_worker.py:44-52).
        """
        early = before(version, "0.5")
        given = self.default_ids(layers) if ids is None else ids
        checked = check_ids(given, layers, lowest=0, highest=layers - 1 if early else layers, trainer=self.name)
        return tuple(sorted({i + 1 if early else i for i in checked}))

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """See the protocol."""
        version = view.config.get("speculators_version")
        s = Statements(sure=True)
        s.config("training.trainer", self.name, "speculators_model_type")
        s.config_or("training.version", version if isinstance(version, str) else None, "speculators_version")
        decoder = view.section(DECODER)
        state_decoder(s, view, decoder, target, where=_D)
        s.rules(PLAIN, "0.9.0 models/eagle3/core.py, model_definitions.py")
        s.rule("alignment.positions_start", 1, "0.9.0 models/eagle3/core.py: position_ids = 1 + arange")
        converted = _converted(view, version)
        _flags(s, view)
        state_declared(s, declared_rope(decoder, where=_D), source="the layer's own rotary class is built from it (core.py)")
        _window(s, decoder)
        later = "input_layernorm" if (s.value("wiring.layers") or 1) > 1 else "none"
        s.rule("wiring.later_layer_norm", later, "layers after the first are the model's plain decoder layers")
        candidates = self._recipe(s, view, target, version, converted)
        _training(s, target, version)
        if converted:
            _forget(s)
        s.notes.extend(known_faults(self.name, version if isinstance(version, str) else None))
        return TrainingReading(trainer=self.name, facts=s.facts, likely=s.likely, candidates=candidates, notes=tuple(s.notes))

    def _recipe(self, s: Statements, view: DrafterView, target: TargetFacts, version: object, converted: bool) -> tuple[Candidate, ...]:
        ids, release = view.config.get(IDS), version if isinstance(version, str) else None
        layers = target.layers
        if isinstance(ids, list) and before(version, "0.5") is False:
            bound = layers if layers is not None else max((i for i in ids if isinstance(i, int)), default=0)
            s.config(BOUNDARIES, self.ids_to_boundaries(ids, bound, release), f"{IDS}: id k is the input of layer k (vLLM's numbering)")
            return ()
        if converted:
            return state_recipe(s, _defaults(layers), "the head was converted from another trainer's, and its layer ids were not passed on")
        if isinstance(ids, list):
            found = [
                Candidate(tuple(sorted(i + d for i in ids if isinstance(i, int))), text)
                for d, text in ((1, "output of layer k, as 0.3 and 0.4 captured"), (0, "input of layer k, vLLM's numbering"))
            ]
            return state_recipe(s, found, f"{IDS} is set, but versions before 0.5 neither write nor follow it")
        found = []
        if layers is not None:
            found = [Candidate(self.ids_to_boundaries(None, layers, release), "the default layers of this version, captured after each")]
        return state_recipe(s, found, "versions before 0.5 do not save the layer ids (--layer-ids); only the dump knows them")


def _defaults(layers: int | None) -> list[Candidate]:
    return [] if layers is None else [Candidate(default_boundaries(layers), "what most trainers feed by default")]


def _converted(view: DrafterView, version: object) -> bool:
    """Whether ``speculators convert`` wrote the head. It saves another class than training does (0.3.0 to 0.9.0 convert/eagle/
    eagle3_converter.py: Eagle3Speculator; training: Eagle3DraftModel), and leaves the ids out that training always saves from 0.5 on."""
    unsaved = before(version, "0.5") is False and not isinstance(view.config.get(IDS), list)
    return unsaved or view.architecture == CONVERTED_ARCHITECTURE


def _forget(s: Statements) -> None:
    """Take back what rests on speculators' own training: another trainer made these weights, and the conversion does not say which."""
    reason = "`speculators convert` rewrote the head of another trainer, which is not recorded"
    s.notes.append(reason)
    kept = (
        "wiring.norm_before_residual",
        "wiring.feedback",
        "wiring.later_layer_norm",
        "wiring.window",
        "wiring.window_follows_steps",
        "alignment.token_shift",
        "wiring.concat_order",
    )
    for path, value in PLAIN.items():
        if path not in kept:
            s.unknown(path, reason, likely=value)
    for path in [path for path in s.facts if path.startswith("training.") and path not in PLAIN]:
        s.unknown(path, reason)
    if s.value("wiring.rope.type") != "default":
        for part in ("type", "scaling"):
            s.unknown(
                f"wiring.rope.{part}",
                f"{reason}, and ModelOpt's exports declare a scaling that training did not use",
                likely=s.value(f"wiring.rope.{part}"),
            )
    if s.value("wiring.rope.theta") != EAGLE_BASE:
        s.unknown(
            "wiring.rope.theta", f"{reason}, and EAGLE and AngelSlim use 10000 whatever is declared", likely=s.value("wiring.rope.theta")
        )


def _flags(s: Statements, view: DrafterView) -> None:
    """norm_before_residual, norms before fc, norm_output."""
    flag = view.config.get("norm_before_residual")
    s.config_or(
        "wiring.norm_before_residual",
        flag if isinstance(flag, bool) else None,
        "norm_before_residual",
        reason="norm_before_residual is not in config.json, though every version saves it (trained True by default, False if "
        "converted; vLLM takes a missing one for True)",
        likely=True,
    )
    norms = [n for n, stored in (("input_norm", view.has(names.INPUT_NORM)), ("fc_norm", view.has(names.fc_norm(0)))) if stored]
    s.measured("wiring.norms_before_fc", norms, "input_norm.weight and fc_norm.N.weight, as far as they are stored")
    for key, norm in (("norm_before_fc", "input_norm"), ("fc_norm", "fc_norm")):
        if isinstance(view.config.get(key), bool) and view.config[key] is not (norm in norms):
            s.notes.append(f"config.json says {key} {str(view.config[key]).lower()}, but {norm} is {'' if norm in norms else 'not '}stored")
            s.unknown("wiring.norms_before_fc", f"{key} and the stored tensors contradict each other")
    output = view.config.get("norm_output")
    if isinstance(output, bool):
        s.config("wiring.feedback", "post_norm" if output else "pre_norm", "norm_output (0.9.0 core.py:302)")
    else:
        s.rule("wiring.feedback", "pre_norm", "versions without norm_output hand on the state before the norm (0.5.0 core.py)")


def _window(s: Statements, decoder: Mapping[str, Json]) -> None:
    """0.9.0 core.py:96-106: the window acts on the layers that layer_types calls sliding_attention, and on those alone."""
    types, window = decoder.get("layer_types"), decoder.get("sliding_window")
    kinds = set(types) if isinstance(types, list) and all(isinstance(t, str) for t in types) else set()
    if "sliding_attention" not in kinds:
        s.rule("wiring.window", None, f"{_D}layer_types names no sliding_attention (0.9.0 core.py:96-106)")
    elif len(kinds) > 1:
        s.unknown("wiring.window", "some layers slide and others do not, and one window cannot state that")
    elif isinstance(window, int) and not isinstance(window, bool) and window > 0:
        s.config("wiring.window", window, f"{_D}sliding_window, with layer_types sliding_attention")
        s.rule("wiring.window_follows_steps", False, "0.9.0 models/eagle3/attention.py:16-33")
    else:
        s.unknown("wiring.window", f"layer_types says sliding_attention and {_D}sliding_window is {window!r}")


def _training(s: Statements, target: TargetFacts, version: object) -> None:
    s.rule("training.metrics.definition", "speculators.full_acc", "the accuracy its log reports (metrics.py)")
    s.rule("training.data.loss_mask_rule", "mask_of_token", "shift_batch drops the first entry of the mask")
    s.rule("training.data.packed", True, "documents are packed into rows of --total-seq-len")
    early, unnormed = before(version, "0.9"), before(version, "0.4")
    if early is None or early:
        s.unknown(
            "training.rollout",
            "teacher only if --use-off-policy-tokens was given, which is not saved (0.3.0, 0.5.0 core.py); the "
            "drafter's own argmax otherwise",
            likely="own_argmax",
        )
    source = "0.3.0 core.py:328 does not norm it; 0.4.0 and later do"
    applied = None if unnormed is None or before(version, "0.3") else not unnormed
    state_target(s, target, normed=False, applied=applied, source=source)


SPECULATORS: Final = Speculators()
