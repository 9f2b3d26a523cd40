"""Checkpoints and dumps that real trainers wrote: ``init`` states what they did, or says that it cannot know, and is never wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from contract.findings import Status
from eagle3_contract.init.render import COMMENTS
from tests.init.scene import Ran, copy_peer, run

TESTS = Path(__file__).parents[1]
PEERS, SAMPLES, HERE = TESTS / "peers" / "data", TESTS / "trainers" / "data" / "samples", Path(__file__).parent / "data"
TARGET = str(HERE / "target_tiny")
BOUNDARIES = "hidden_states.boundaries"


@dataclass(frozen=True)
class Peer:
    """``truth``: what training really did. ``measured``: the recipe that samples and target show."""

    folder: Path
    samples: Path | None
    trainer: str
    truth: dict[str, Any]
    open_without_samples: frozenset[str] = frozenset()
    recipe_known_alone: bool = False
    faults: frozenset[str] = field(default_factory=frozenset)


PLAIN = {
    "wiring.norm_before_residual": False, "wiring.double_norm": False, "wiring.final_norm": True, "wiring.feedback": "pre_norm",
    "wiring.norms_before_fc": [], "wiring.window": None, "wiring.rope.type": "default", "wiring.rope.theta": 10000.0,
    "vocab.map": "offset", "vocab.draft_size": 128, "vocab.target_size": 512, "vocab.target_padded_size": 512, "vocab.present": True,
    "training.rollout": "teacher", "alignment.token_shift": 1, "alignment.step_positions": "advance", "target.layers": 8,
    BOUNDARIES: [2, 4, 5],
}  # fmt: skip
LAST_NORMED = {
    "training.target_state.boundary": 8, "training.target_state.normed": True, "training.target_state.norm_applied_by_trainer": False,
}  # fmt: skip
LAST_PLAIN = LAST_NORMED | {"training.target_state.normed": False, "training.target_state.norm_applied_by_trainer": True}
OPEN = frozenset({BOUNDARIES})
PEER_LIST = (
    Peer(
        PEERS / "speculators-0.9.0/default_0.9.0", SAMPLES / "speculators-0.9.0", "speculators",
        PLAIN | LAST_PLAIN | {
            "wiring.norm_before_residual": True, "wiring.norms_before_fc": ["input_norm"], "wiring.feedback": "post_norm",
            "wiring.window": 2048, "wiring.window_follows_steps": False, "training.metrics.definition": "speculators.full_acc",
            "training.data.loss_mask_rule": "mask_of_token", "wiring.embedding": "own", "alignment.positions_start": 1,
        },
        recipe_known_alone=True,
    ),
    Peer(
        PEERS / "speculators-0.9.0/eagle3_classic", SAMPLES / "speculators-0.9.0", "speculators",
        PLAIN | LAST_PLAIN | {"wiring.norm_before_residual": True, "wiring.embedding": "own"}, recipe_known_alone=True,
    ),
    Peer(
        HERE / "specforge-0.2.0/classic/export_sglang", SAMPLES / "specforge", "specforge",
        PLAIN | LAST_NORMED | {"training.metrics.definition": "specforge.acc", "wiring.embedding": "target"}, OPEN,
    ),
    Peer(
        HERE / "specforge-0.2.0/norm_output_false/export_sglang", SAMPLES / "specforge", "specforge",
        PLAIN | LAST_NORMED | {"wiring.final_norm": False}, OPEN,
    ),
    Peer(
        PEERS / "eagle-official/ckpt", None, "eagle",
        PLAIN | {"training.metrics.definition": "eagle.acc", "training.data.loss_mask_rule": "mask_of_state"}, recipe_known_alone=True,
    ),
    Peer(
        PEERS / "modelopt-0.47.0/export_offline", SAMPLES / "modelopt", "modelopt",
        PLAIN | LAST_NORMED | {"wiring.double_norm": True, "training.metrics.definition": "modelopt.train_acc"}, OPEN,
        # Its export writes YaRN into the config of a drafter trained with plain rope (facts T6): the files are wrong, not the contract.
        faults=frozenset({"config.rope-type", "config.rope-scaling"}),
    ),
    Peer(
        PEERS / "angelslim-0.5.0/ckpt_full", SAMPLES / "angelslim", "angelslim",
        PLAIN | LAST_NORMED | {"training.metrics.definition": "angelslim.acc", "wiring.embedding": "own"}, recipe_known_alone=True,
    ),
)  # fmt: skip


def never_wrong(ran: Ran, truth: dict[str, Any], *, allowed: frozenset[str] = frozenset()) -> None:
    """Everything that is stated is true, and nothing but ``allowed`` is left open."""
    stated = {path: ran.fact(path) for path in truth}
    wrong = {path: (f.value, f.note) for path, f in stated.items() if f.known and f.value != truth[path]}
    assert not wrong
    assert {path for path, f in stated.items() if not f.known} <= allowed, ran.messages()


def ids(peer: Peer) -> str:
    return "-".join(peer.folder.parts[-2:])


@pytest.mark.parametrize("peer", PEER_LIST, ids=ids)
def test_with_samples_and_target_all_of_it_is_known(peer: Peer, tmp_path: Path) -> None:
    place = copy_peer(peer.folder, tmp_path / "d")
    ran = run(place, tmp_path / "contract.yaml", samples=None if peer.samples is None else str(peer.samples), target=TARGET)
    assert ran.value("training.trainer") == peer.trainer
    never_wrong(ran, peer.truth)
    assert ran.open() == set()
    assert {c.rule for c in ran.failed()} == peer.faults, ran.messages()
    assert int(ran.report.exit_code) == (1 if peer.faults else 0)
    if peer.samples is not None:
        assert ran.fact(BOUNDARIES).evidence == "measured"
        assert ran.value("training.samples.states") == peer.truth[BOUNDARIES]
        assert ran.contract.golden is not None


@pytest.mark.parametrize("peer", PEER_LIST, ids=ids)
def test_without_samples_the_recipe_is_known_or_asked_for(peer: Peer, tmp_path: Path) -> None:
    ran = run(copy_peer(peer.folder, tmp_path / "d"), target=TARGET)
    never_wrong(ran, {p: v for p, v in peer.truth.items() if not p.startswith("training.target_state")}, allowed=peer.open_without_samples)
    assert ran.open() == peer.open_without_samples
    assert ran.fact(BOUNDARIES).known is peer.recipe_known_alone


@pytest.mark.parametrize("peer", PEER_LIST, ids=ids)
def test_without_target_nothing_that_depends_on_it_is_invented(peer: Peer, tmp_path: Path) -> None:
    ran = run(copy_peer(peer.folder, tmp_path / "d"), samples=None if peer.samples is None else str(peer.samples))
    depends = frozenset({BOUNDARIES, "target.layers", "training.target_state.boundary", "training.target_state.normed",
                         "training.target_state.norm_applied_by_trainer", "vocab.target_padded_size"})  # fmt: skip
    never_wrong(ran, peer.truth, allowed=depends)
    assert "target.layers" in ran.open()
    for path in ("target.fingerprint", "target.tokenizer_sha256", "target.quantization", "target.model_type"):
        assert not ran.fact(path).known, path


def test_every_contract_is_readable_and_says_where_it_knows_from(tmp_path: Path) -> None:
    peer = PEER_LIST[2]
    ran = run(copy_peer(peer.folder, tmp_path / "d"), samples=str(peer.samples), target=TARGET)
    text = ran.path.read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    for section in COMMENTS:
        before = text.split(f"\n{section}:")[0].splitlines()[-1]
        assert before.startswith("# "), section
    assert ran.fact("wiring.final_norm").evidence == "code_rule"
    assert "llama3_eagle.py" in str(ran.fact("wiring.final_norm").note)
    assert ran.value("training.samples.count") == 3
    maps = [c for c in ran.report.checks if c.rule == "init.vocab-maps-agree" and c.status is Status.PASSED]
    assert maps
    assert "vocab_mapping.pt" in maps[0].message


def test_modelopts_rope_is_never_yarn(tmp_path: Path) -> None:
    place = copy_peer(PEERS / "modelopt-0.47.0/export_offline", tmp_path / "d")
    for more in ({}, {"target": TARGET}, {"target": TARGET, "samples": str(SAMPLES / "modelopt")}):
        ran = run(place, **more)
        assert ran.value("wiring.rope.type") == "default"
        assert ran.contract.wiring.rope.scaling == {}


def test_a_training_state_is_read_with_its_runs_config_and_is_nothing_to_serve(tmp_path: Path) -> None:
    source = PEERS / "specforge-0.2.0/norm_output_false"
    run_folder = copy_peer(source, tmp_path / "run")
    ran = run(run_folder / "run-step1", tmp_path / "contract.yaml", samples=str(SAMPLES / "specforge"), target=TARGET)
    never_wrong(ran, PEER_LIST[3].truth)
    assert ran.report.exit_code == 0, ran.messages()
    assert [c.rule for c in ran.report.checks if c.rule == "init.training-state"]


def test_the_rest_of_the_training_is_what_the_files_say(tmp_path: Path) -> None:
    """speculators 0.9 leaves its run config above and its best metrics beside the checkpoint."""
    place = copy_peer(PEERS / "speculators-0.9.0/eagle3_classic", tmp_path / "run" / "3")
    (place / "val_metrics.json").write_text('{"full_acc_0_epoch": 0.75, "full_acc_1_epoch": 0.5, "loss_epoch": 1.0}')
    run_config = "train:\n  verifier:\n    verifier_name_or_path: example/target\n  data:\n    total_seq_len: 4096\n"
    (tmp_path / "run" / "run.yaml").write_text(run_config)
    ran = run(place, tmp_path / "contract.yaml", target=TARGET)
    assert ran.value("training.metrics.accuracy") == [0.75, 0.5]
    assert ran.value("training.max_length") == 4096
    assert ran.value("serving.steps") == 3
    assert ran.value("target.id") == "target_tiny"  # its own config names it first
