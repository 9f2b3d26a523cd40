"""What each adapter reads off a checkpoint: the wiring that reproduces the trainer's own logits, or the reason why it cannot be known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from contract.errors import UserError
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.view import DrafterView
from eagle3_contract.model.wiring import Feedback, LaterLayerNorm, NormBeforeFc, Owner, Wiring
from eagle3_contract.trainers.base import choose, installed
from eagle3_contract.trainers.reading import BOUNDARIES, TargetFacts, TrainingReading
from tests.peers import references
from tests.trainers.views import TINY, from_headers, peer, with_config, with_tensors

SPECULATORS, DEFAULT = "speculators-0.9.0/eagle3_classic", "speculators-0.9.0/default_0.9.0"
SPECFORGE, FULL = "specforge-0.2.0/classic/export_sglang", "torchspec/export_full_sglang"
MODELOPT, ANGELSLIM, EAGLE = "modelopt-0.47.0/export_offline", "angelslim-0.5.0/ckpt_full", "eagle-official/ckpt"


def read(view: DrafterView, target: TargetFacts = TINY, trainer: str = "auto") -> TrainingReading:
    return choose(view, trainer)[0].wiring(view, target)


def arithmetic(wiring: Wiring) -> Wiring:
    """The wiring without what leaves the references' logits alone: a constant shift of positions, the table's length, the rotated
    dimensions where they are head_dim, the norm of layers that do not exist, and whose copy of the embedding is read."""
    rope = replace(wiring.rope, table_length=None, rotary_dim=None)
    return replace(wiring, rope=rope, positions_start=0, later_layer_norm=LaterLayerNorm.NONE, embedding=Owner.TARGET)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        (SPECULATORS, references.speculators_classic),
        (DEFAULT, references.speculators_default),
        (MODELOPT, references.modelopt),
        (ANGELSLIM, references.angelslim),
        (EAGLE, references.eagle_infer),
    ],
)
def test_the_wiring_is_the_one_that_reproduces_the_trainers_logits(name: str, reference: Any) -> None:
    reading = read(peer(name)).resolve(recipe=False)
    assert arithmetic(reading.wiring) == arithmetic(reference().wiring)


@pytest.mark.parametrize(("variant", "final_norm"), [("classic", True), ("norm_output_false", False)])
def test_a_training_state_is_read_with_its_runs_config(variant: str, final_norm: bool) -> None:
    reading = read(peer(f"specforge-0.2.0/{variant}/run-step1"))
    assert reading.trainer == "specforge"
    wiring = reading.resolve(recipe=False).wiring
    assert arithmetic(wiring) == arithmetic(replace(references.PLAIN, final_norm=final_norm))


def test_norm_output_is_the_final_norm_to_specforge_and_the_feedback_to_speculators() -> None:
    for value in (True, False):
        specforge = read(with_config(from_headers(SPECFORGE), norm_output=value)).resolve(recipe=False).wiring
        assert (specforge.final_norm, specforge.feedback) == (value, Feedback.PRE_NORM)
        speculators = read(with_config(peer(SPECULATORS), norm_output=value)).resolve(recipe=False).wiring
        assert (speculators.final_norm, speculators.feedback is Feedback.POST_NORM) == (True, value)
    assert read(with_config(from_headers(SPECFORGE), drop=("norm_output",))).facts["wiring.final_norm"].value is True


def test_modelopt_norms_twice_since_0_41_and_once_before() -> None:
    now = peer(MODELOPT)
    assert read(now).facts["wiring.double_norm"].value is True
    early = with_config(now, drop=("eagle_config__next_layer_regular", "eagle_config__parallel_draft_step"))
    assert read(early).facts["wiring.double_norm"].value is False


YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    "scaling",
    [
        YARN,
        {**YARN, "factor": 16.0},
        {**YARN, "original_max_position_embeddings": 4096},
        {**YARN, "beta_fast": 32.0},
        {**YARN, "type": "yarn"},
    ],
)
def test_modelopts_export_never_reads_yarn(scaling: dict[str, Any]) -> None:
    reading = read(with_config(peer(MODELOPT), rope_scaling=scaling))
    fact = reading.facts["wiring.rope.type"]
    assert not fact.known or fact.value == "default"
    assert fact.known is (scaling in (YARN, {**YARN, "type": "yarn"}))
    assert reading.resolve(recipe=False, assume=True).wiring.rope.type == "default"


def test_modelopts_plain_rope_is_believed() -> None:
    assert read(with_config(peer(MODELOPT), rope_scaling=None)).facts["wiring.rope.type"].value == "default"


@pytest.mark.parametrize("name", [ANGELSLIM, EAGLE])
def test_a_theta_that_the_trainer_ignores_is_not_believed(name: str) -> None:
    reading = read(with_config(peer(name), rope_theta=1000000.0))
    assert reading.facts["wiring.rope.theta"].value == 10000.0
    assert reading.facts["wiring.rope.theta"].evidence == "code_rule"
    assert any("1e+06" in note for note in reading.notes)


def test_a_rope_that_the_trainer_cannot_have_built_is_unknown() -> None:
    llama3 = {"rope_type": "llama3", "type": "llama3", "factor": 8.0}
    assert "wiring.rope.type" in read(with_config(peer(EAGLE), rope_scaling=llama3)).unknown()
    assert "wiring.rope.type" in read(with_config(peer(ANGELSLIM), rope_scaling=llama3)).unknown()


def test_mrope_is_the_one_rope_for_which_angelslim_reads_theta() -> None:
    mrope = {"rope_type": "mrope", "mrope_section": [2, 3, 3]}
    rope = read(with_config(peer(ANGELSLIM), rope_scaling=mrope, rope_theta=1000000.0)).resolve(recipe=False).wiring.rope
    assert (rope.type, rope.theta, rope.scaling) == ("mrope", 1000000.0, {"mrope_section": (2, 3, 3)})


def test_a_theta_that_specforge_may_have_ignored_is_unknown() -> None:
    new = read(with_config(from_headers(SPECFORGE), rope_parameters={"rope_theta": 1e6, "rope_type": "default"}, rope_theta=1e6))
    assert new.facts["wiring.rope.theta"].value == 1e6
    old = read(with_config(from_headers(SPECFORGE), drop=("rope_parameters",), rope_theta=1e6))
    assert "wiring.rope.theta" in old.unknown()
    assert old.likely["wiring.rope.theta"] == 1e6
    assert read(with_config(from_headers(SPECFORGE), drop=("rope_parameters",))).facts["wiring.rope.theta"].value == 10000.0


def test_speculators_flags_follow_config_and_tensors() -> None:
    assert read(peer(DEFAULT)).facts["wiring.norms_before_fc"].value == ["input_norm"]
    per_state = with_config(with_tensors(peer(SPECULATORS), fc_norm__0__weight=(64,), fc_norm__1__weight=(64,)), fc_norm=True)
    assert read(per_state).resolve(recipe=False).wiring.norms_before_fc == (NormBeforeFc.FC_NORM,)
    contradiction = with_config(peer(SPECULATORS), norm_before_fc=True)
    assert "wiring.norms_before_fc" in read(contradiction).unknown()
    assert "wiring.norm_before_residual" in read(with_config(peer(SPECULATORS), drop=("norm_before_residual",))).unknown()
    flipped = with_config(peer(SPECULATORS), norm_before_residual=False)
    assert read(flipped).resolve(recipe=False).wiring.norm_before_residual is False


def test_the_sliding_window_acts_where_layer_types_say_so() -> None:
    assert read(peer(DEFAULT)).resolve().wiring.window == 2048
    assert read(peer(SPECULATORS)).resolve().wiring.window is None  # sliding_window 2048 is declared, on no layer
    mixed = with_config(peer(DEFAULT), transformer_layer_config__layer_types=["sliding_attention", "full_attention"])
    assert "wiring.window" in read(mixed).unknown()
    assert "wiring.window" in read(with_config(peer(DEFAULT), transformer_layer_config__sliding_window=None)).unknown()


def test_a_converted_head_is_another_trainers() -> None:
    converted = with_config(peer(SPECULATORS), architectures=["Eagle3Speculator"], eagle_aux_hidden_state_layer_ids=None)
    reading = read(converted)
    for path in (BOUNDARIES, "training.trainer", "training.rollout", "wiring.double_norm", "wiring.final_norm"):
        assert path in reading.unknown(), path
    assert any("convert" in note for note in reading.notes)
    assert read(peer(SPECULATORS)).unknown() == {}


@pytest.mark.parametrize(("version", "applied"), [("0.3.0", False), ("0.4.0", True)])
def test_speculators_of_the_seed_did_not_norm_the_target_state(version: str, applied: bool) -> None:
    early = with_config(peer(SPECULATORS), speculators_version=version, eagle_aux_hidden_state_layer_ids=None)
    reading = read(early)
    assert reading.facts["training.target_state.norm_applied_by_trainer"].value is applied
    assert BOUNDARIES in reading.unknown()
    assert [c.recipe for c in reading.candidates] == [(3, 5, 6)]
    assert "training.rollout" in reading.unknown()


@pytest.mark.parametrize("name", ["drafter-a", "drafter-b"])
def test_one_spelling_with_two_conventions_leaves_the_recipe_open(name: str) -> None:
    view = from_headers(name)
    ids = tuple(view.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    reading = read(view, TargetFacts(layers=30, hidden_size=576, vocab_size=49152))
    assert BOUNDARIES in reading.unknown()
    assert {c.recipe for c in reading.candidates} == {ids, tuple(i + 1 for i in ids)}
    assert reading.facts["wiring.feedback"].evidence == "assumed"
    with pytest.raises(UserError) as refused:
        reading.resolve()
    assert refused.value.rule == "trainers.wiring-unknown"
    assert "--set hidden_states.boundaries" in refused.value.fix


def test_modelopts_ids_stay_open_between_its_two_dumpers() -> None:
    assert [c.recipe for c in read(peer(MODELOPT)).candidates] == [(2, 4, 5), (1, 3, 4)]


@pytest.mark.parametrize(("name", "recipe"), [(SPECULATORS, (2, 4, 5)), (EAGLE, (2, 4, 5)), (ANGELSLIM, (2, 4, 5))])
def test_recipes_that_the_checkpoint_and_the_code_do_say(name: str, recipe: tuple[int, ...]) -> None:
    assert read(peer(name)).resolve().recipe == recipe
    assert read(with_config(peer(ANGELSLIM), aux_hidden_states_layer_ids=[6, 0, 3])).resolve().recipe == (7, 1, 4)
    assert (BOUNDARIES in read(peer(name), TargetFacts()).unknown()) is (name != SPECULATORS)


def test_torchspec_full_vocabulary_has_no_map() -> None:
    reading = read(from_headers(FULL))
    assert reading.facts["vocab.map"].value == "identity"
    assert reading.facts["vocab.present"].value is False
    reduced = with_tensors(from_headers(FULL), drop=("lm_head.weight",), lm_head__weight=(128, 64))
    assert "vocab.map" in read(reduced).unknown()


def test_torchspecs_latent_attention_may_have_dropped_theta() -> None:
    attention = {"midlayer__self_attn__kv_a_proj_with_mqa__weight": (24, 128), "midlayer__self_attn__q_a_proj__weight": (32, 128)}
    sizes = {"kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    yarn = {"type": "yarn", "factor": 64.0, "beta_fast": 1.0}
    view = with_config(with_tensors(from_headers(FULL), **attention), **sizes, rope_scaling=yarn, rope_theta=50000.0)
    reading = read(view)
    assert "wiring.rope.theta" in reading.unknown()
    wiring = reading.resolve(recipe=False, assume=True).wiring
    assert wiring.mla is not None
    assert (wiring.mla.q_lora_rank, wiring.head_dim, wiring.rope.rotary_dim, wiring.rope.interleaved) == (32, 24, 8, True)


def test_head_dim_is_the_tensors_and_not_the_configs() -> None:
    reading = read(with_config(from_headers(SPECFORGE), head_dim=8))
    assert reading.facts["wiring.head_dim"].value == 16
    assert any("head_dim 8" in note for note in reading.notes)


def test_an_unknown_trainer_is_named_as_such() -> None:
    view = with_config(from_headers(SPECFORGE), architectures=["MyDrafter"])
    assert choose(view)[0].name == "generic"
    reading = read(view)
    assert "training.trainer" in reading.unknown()
    assert {"wiring.feedback", "wiring.norm_before_residual", "wiring.rope.theta", BOUNDARIES} <= set(reading.unknown())
    answered = reading.with_declared({**reading.assumed(), BOUNDARIES: (2, 4, 5)}).resolve()
    assert answered.recipe == (2, 4, 5)
    assert arithmetic(answered.wiring) == arithmetic(references.PLAIN)


def test_a_declared_recipe_sets_the_number_of_states() -> None:
    reading = read(from_headers(SPECFORGE)).with_declared({BOUNDARIES: (0, 2)})
    assert reading.resolve().wiring.states == 2
    with pytest.raises(UserError, match="no such statement"):
        reading.with_declared({"wiring.fedback": "pre_norm"})


def test_every_statement_of_a_wiring_has_its_source() -> None:
    for view in (peer(SPECULATORS), from_headers(SPECFORGE), peer(MODELOPT), peer(ANGELSLIM), peer(EAGLE), from_headers(FULL)):
        for path, fact in read(view).facts.items():
            assert fact.note or fact.reason, path
            assert not fact.known or fact.evidence, path


RECOGNISED = [
    (peer, SPECULATORS, "speculators"),
    (peer, DEFAULT, "speculators"),
    (peer, MODELOPT, "modelopt"),
    (peer, ANGELSLIM, "angelslim"),
    (peer, EAGLE, "eagle"),
    (peer, "specforge-0.2.0/classic/run-step1", "specforge"),
    (from_headers, SPECFORGE, "specforge"),
    (from_headers, "specforge-0.2.0/classic/export_hf", "specforge"),
    (from_headers, FULL, "torchspec"),
    (from_headers, "torchspec/export_full_vllm", "torchspec"),
]


@pytest.mark.parametrize(("load", "name", "trainer"), RECOGNISED, ids=[name for _, name, _ in RECOGNISED])
def test_each_checkpoint_is_recognised_by_its_content(load: Any, name: str, trainer: str) -> None:
    view = load(name)
    sure = {n: a.recognise(view).confidence for n, a in installed().items()}
    assert max(sure, key=lambda n: sure[n]) == trainer
    assert sure[trainer] >= 0.5
    assert all(c < 0.6 for n, c in sure.items() if n != trainer), sure
    assert choose(view)[0].name == trainer


def test_a_trainer_that_is_not_installed_is_refused() -> None:
    with pytest.raises(UserError) as refused:
        choose(peer(EAGLE), "medusa")
    assert refused.value.rule == "trainers.unknown-trainer"


def _paths(struct: Any, prefix: str = "") -> set[str]:
    found = set()
    for field in msgspec.structs.fields(struct):
        inner = field.type.__origin__ if hasattr(field.type, "__metadata__") else field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found |= _paths(inner, f"{prefix}{field.name}.")
        else:
            found.add(f"{prefix}{field.name}")
    return found


@pytest.mark.parametrize("name", [SPECULATORS, MODELOPT, ANGELSLIM, EAGLE])
def test_every_statement_is_one_of_the_contract_and_none_about_the_arithmetic_is_missing(name: str) -> None:
    stated, contract = set(read(peer(name)).facts) - {"states"}, _paths(Contract)
    assert stated <= contract, stated - contract
    due = {path for path in contract if path.startswith(("wiring.", "alignment."))} | {"vocab.map", "vocab.present", BOUNDARIES}
    assert due <= stated, due - stated


def test_the_generic_adapter_states_the_same() -> None:
    unknown = with_config(from_headers(SPECFORGE), architectures=["MyDrafter"])
    assert set(read(unknown).facts) == set(read(from_headers(SPECFORGE)).facts)
