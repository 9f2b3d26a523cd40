"""The recipe: measured where the dump and the target allow it, unknown where they do not, and never what the config merely says."""

from __future__ import annotations

from pathlib import Path

import pytest
from factory import Tensor as Stored
from factory import tiny

from contract.findings import ExitCode
from eagle3_contract.engines.target import Target
from eagle3_contract.model.wiring import Owner
from tests.init.scene import drafter, fused, list_of_states, neutral, run, speculators_config

SPECFORGE = ("aux_hidden_state", "hidden_state")
MODELOPT = ("aux_hidden_states", "hidden_states")
MODELOPT_CONFIG = {
    "eagle_config": {
        "eagle_aux_hidden_state_layer_ids": [1, 3, 4],
        "use_aux_hidden_state": True,
        "use_input_layernorm_in_first_layer": True,
        "use_last_layernorm": True,
        "next_layer_regular": True,
    }
}


def test_one_spelling_with_two_conventions_is_a_question(tmp_path: Path) -> None:
    """The ids of the lab's drafters stand in SpecForge's place and have vLLM's meaning."""
    ran = run(drafter(tmp_path / "d", ids=(2, 4, 5)), settings={"target.layers": "8"})
    assert ran.report.exit_code is ExitCode.VIOLATED
    assert ran.open() == {"hidden_states.boundaries"}
    assert not ran.fact("hidden_states.boundaries").known
    (question,) = ran.failed("init.open-question")
    assert "--set hidden_states.boundaries=[2, 4, 5]" in (question.fix or "")
    assert "--set hidden_states.boundaries=[3, 5, 6]" in (question.fix or "")


@pytest.mark.parametrize("recipe", [(2, 4, 5), (0, 2, 4), (3, 5, 6)])
def test_with_dump_and_target_it_is_measured(tmp_path: Path, target: Target, target_dir: Path, recipe: tuple[int, ...]) -> None:
    samples = neutral(tmp_path / "s", target, recipe, named=False)
    place = drafter(tmp_path / "d", ids=recipe, boundaries=recipe)
    ran = run(place, samples=str(samples), target=str(target_dir))
    assert ran.value("hidden_states.boundaries") == list(recipe), ran.messages()
    assert ran.fact("hidden_states.boundaries").evidence == "measured"
    assert ran.value("training.target_state.boundary") == 8
    assert ran.value("training.target_state.normed") is True
    assert ran.report.exit_code is ExitCode.KEPT, ran.messages()


@pytest.mark.parametrize("recipe", [(2, 4, 6), (0, 2, 4)])
def test_of_more_stored_states_the_config_picks_what_the_dump_can_feed(
    tmp_path: Path, target: Target, target_dir: Path, recipe: tuple[int, ...]
) -> None:
    """As in the lab: four states stored, three fed, ids as inputs of layers in SpecForge's place."""
    samples = neutral(tmp_path / "s", target, (0, 2, 4, 6), named=False)
    ran = run(drafter(tmp_path / "d", ids=recipe, boundaries=recipe), samples=str(samples), target=str(target_dir))
    assert ran.value("hidden_states.boundaries") == list(recipe), ran.messages()
    assert ran.value("training.samples.states") == [0, 2, 4, 6]


def test_of_more_stored_states_without_ids_nothing_is_guessed(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (0, 2, 4, 5), named=False)
    ran = run(drafter(tmp_path / "d"), samples=str(samples), target=str(target_dir))
    assert ran.open() == {"hidden_states.boundaries"}, ran.messages()
    assert "nothing tells which" in str(ran.fact("hidden_states.boundaries").reason)


def test_ids_that_no_stored_state_can_have_been_are_a_contradiction(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (0, 2, 4, 6), named=False)
    ran = run(drafter(tmp_path / "d", ids=(1, 3, 6)), samples=str(samples), target=str(target_dir))
    assert ran.failed("init.contradiction"), ran.messages()
    assert not ran.fact("hidden_states.boundaries").known


def test_the_case_of_the_seed(tmp_path: Path, target: Target, target_dir: Path) -> None:
    """[embedding, 2, 4, 6] of 8 layers, sliced [:-1]: trained on [0, 2, 4], with boundary 6 in the place of the last state."""
    samples = list_of_states(tmp_path / "s", target, (0, 2, 4, 6))
    ran = run(drafter(tmp_path / "d", ids=(2, 4, 6)), samples=str(samples), target=str(target_dir))
    assert ran.value("hidden_states.boundaries") == [0, 2, 4]
    assert ran.value("training.target_state.boundary") == 6
    assert ran.value("training.target_state.normed") is False
    assert ran.report.exit_code is ExitCode.VIOLATED
    (last,) = ran.failed("init.target-state")
    assert "boundary 6" in last.message
    assert "8 layers" in last.message
    assert "[0, 2, 4]" in last.message
    (contradiction, *_) = ran.failed("init.contradiction")
    assert "[2, 4, 6]" in contradiction.message
    assert contradiction.actual == [0, 2, 4]


def test_the_case_of_the_seed_without_a_target(tmp_path: Path, target: Target) -> None:
    """The drafter's own embedding is the target's, so that the first state is known; that the last one need not be the last is said."""
    table = target.stream.embedding.get_parameter("weight").detach().numpy()
    samples = list_of_states(tmp_path / "s", target, (0, 2, 4, 6))
    place = drafter(
        tmp_path / "d", layout="speculators", dialect="layers", wiring=tiny(embedding=Owner.OWN, norm_before_residual=True),
        config=speculators_config(speculators_version="0.3.0", norm_before_residual=True),
        tensors={"embed_tokens.weight": Stored(table, "float32")},
    )  # fmt: skip
    ran = run(place, samples=str(samples), settings={"target.layers": "8"})
    assert "hidden_states.boundaries" in ran.open()
    assert "[0, ?, ?]" in str(ran.fact("hidden_states.boundaries").reason)
    said = [c for c in ran.report.checks if c.rule == "init.target-state"]
    assert said
    assert "begin with the embedding" in said[0].message


def test_a_clean_list_of_states_says_nothing_about_its_end(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = list_of_states(tmp_path / "s", target, (3, 5, 6, 8))
    place = drafter(
        tmp_path / "d", layout="speculators", dialect="layers", wiring=tiny(norm_before_residual=True),
        config=speculators_config(speculators_version="0.3.0", norm_before_residual=True),
    )  # fmt: skip
    ran = run(place, samples=str(samples), target=str(target_dir))
    assert ran.value("hidden_states.boundaries") == [3, 5, 6]
    assert ran.value("training.target_state.boundary") == 8
    assert ran.value("training.target_state.normed") is False
    assert ran.value("training.target_state.norm_applied_by_trainer") is False
    assert not ran.failed("init.target-state")
    assert not ran.failed("init.contradiction")
    assert ran.open() == {"training.rollout"}  # --use-off-policy-tokens is not saved


@pytest.mark.parametrize(("states", "last", "normed"), [((2, 4, 5), "final_norm", True), ((1, 3, 4), 8, False)])
def test_modelopts_two_dumpers_are_told_apart(
    tmp_path: Path, target: Target, target_dir: Path, states: tuple[int, ...], last: int | str, normed: bool
) -> None:
    """The same ids: outputs of layers captured by Hugging Face, inputs of layers dumped by vLLM."""
    samples = fused(tmp_path / "s", target, states, keys=MODELOPT, last=last)  # type: ignore[arg-type]  # a state
    place = drafter(tmp_path / "d", dialect="layers", config=MODELOPT_CONFIG, tensors={"t2d": None})
    ran = run(place, samples=str(samples), target=str(target_dir))
    assert ran.value("hidden_states.boundaries") == list(states), ran.messages()
    assert ran.value("training.target_state.normed") is normed
    assert ran.value("training.target_state.norm_applied_by_trainer") is False
    assert ran.open() == set()


def test_a_dump_against_the_config_shows_both_sides(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = list_of_states(tmp_path / "s", target, (1, 3, 4, 8))
    place = drafter(tmp_path / "d", layout="speculators", dialect="layers", ids=(2, 4, 5), config=speculators_config())
    ran = run(place, samples=str(samples), target=str(target_dir))
    (check,) = [c for c in ran.failed("init.contradiction") if c.message.startswith("hidden_states.boundaries")]
    assert (check.expected, check.actual) == ([2, 4, 5], [1, 3, 4])
    assert ran.value("hidden_states.boundaries") == [1, 3, 4]
    assert ran.report.exit_code is ExitCode.VIOLATED


def test_states_of_another_target_are_nobodys(tmp_path: Path, target: Target, target_dir: Path) -> None:
    import torch

    samples = list_of_states(tmp_path / "s", target, (2, 4, 5, 8))
    for path in samples.glob("*.pt"):
        record = torch.load(path)
        record["hidden_states"] = [
            x + 3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)) for x in record["hidden_states"]
        ]
        torch.save(record, path)
    ran = run(drafter(tmp_path / "d", ids=(1, 3, 4)), samples=str(samples), target=str(target_dir))
    assert len(ran.failed("init.target-of-samples")) == 4
    assert not ran.fact("hidden_states.boundaries").known
    assert not ran.fact("training.samples.states").known


def test_fewer_stored_states_than_fc_takes(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = list_of_states(tmp_path / "s", target, (2, 4, 8))
    ran = run(drafter(tmp_path / "d", ids=(1, 3, 4)), samples=str(samples), target=str(target_dir))
    assert any("fc takes 3 states" in c.message for c in ran.failed("init.contradiction"))


def test_declared_config_of_a_run_decides_what_an_export_leaves_open(tmp_path: Path) -> None:
    place = drafter(tmp_path / "d")
    config = "model:\n  aux_hidden_state_layer_ids: [0, 3, 5]\n  target_model_path: example/tiny\ndata:\n  max_length: 512\ntraining: {}\n"
    (place / "run.yaml").write_text(config)
    ran = run(place, settings={"target.layers": "8"})
    assert ran.value("hidden_states.boundaries") == [1, 4, 6], ran.messages()
    assert ran.fact("hidden_states.boundaries").evidence == "config"
    assert (ran.value("training.max_length"), ran.value("target.id")) == (512, "example/tiny")


def test_the_dump_config_of_early_speculators_names_its_layers(tmp_path: Path) -> None:
    place = drafter(
        tmp_path / "d", layout="speculators", dialect="layers", wiring=tiny(norm_before_residual=True),
        config=speculators_config(speculators_version="0.3.0", norm_before_residual=True),
    )  # fmt: skip
    (place / "data_config.json").write_text(
        '{"speculators_version": "0.3.0", "hidden_states": {"layer_ids": [2, 4, 5, 7]}, "model": {"target_model_path": "x/y"}, '
        '"data": {"seq_length": 64}}'
    )
    ran = run(place, settings={"target.layers": "8"})
    assert ran.value("hidden_states.boundaries") == [3, 5, 6]


def test_samples_that_name_their_states_are_believed_until_measured(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (3, 5, 6))
    place = drafter(tmp_path / "d")
    said = run(place, samples=str(samples), settings={"target.layers": "8"})
    assert (said.value("hidden_states.boundaries"), said.fact("hidden_states.boundaries").evidence) == ([3, 5, 6], "declared")
    assert (said.value("training.target_state.normed"), said.fact("training.target_state.normed").evidence) == (True, "declared")
    measured = run(place, samples=str(samples), target=str(target_dir))
    assert (measured.value("hidden_states.boundaries"), measured.fact("hidden_states.boundaries").evidence) == ([3, 5, 6], "measured")
    against = run(drafter(tmp_path / "e", ids=(2, 5, 6)), samples=str(samples), settings={"target.layers": "8"})
    assert any("the samples say that they store [3, 5, 6]" in c.message for c in against.failed("init.contradiction"))


def test_a_state_that_is_stored_twice_is_noted(tmp_path: Path, target: Target, target_dir: Path) -> None:
    samples = neutral(tmp_path / "s", target, (2, 4, 4), named=False)
    ran = run(drafter(tmp_path / "d"), samples=str(samples), target=str(target_dir))
    assert any(c.rule == "init.note" and "stored states 1 and 2 are equal" in c.message for c in ran.report.checks)
    assert ran.value("hidden_states.boundaries") == [2, 4, 4]


def test_the_table_alone_excludes_what_the_first_state_is_not(tmp_path: Path, target: Target, target_dir: Path) -> None:
    """A target folder whose config says another number of layers cannot be run, and its embedding still tells."""
    import json
    import shutil

    broken = tmp_path / "target"
    shutil.copytree(target_dir, broken)
    tree = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(tree | {"model_type": "nobody_knows", "architectures": ["Nobody"]}))
    samples = neutral(tmp_path / "s", target, (2, 4, 5), named=False)
    ran = run(drafter(tmp_path / "d", ids=(0, 4, 5)), samples=str(samples), target=str(broken))
    assert any(c.rule == "init.not-compared" and "was not run" in c.message for c in ran.report.checks)
    reason = str(ran.fact("hidden_states.boundaries").reason)
    assert "[1, 5, 6]" in reason
    assert "[0, 4, 5]" not in reason
