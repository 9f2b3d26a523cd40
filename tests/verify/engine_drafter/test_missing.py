"""What is not there is said: tensors that were not recorded, forwards that nobody saw, files that lack what the contract's wiring uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.files.bundle_manifest import SEEN_BY_HOOKS, CountInfo
from contract.findings import ExitCode, Status
from verify.engine_drafter.conftest import Run, judge
from verify.engine_drafter.simulated import Written, simulate, write, written
from verify.engine_drafter.simulated_engine import FOLDER, Engine

SHORT = Engine(tokens=48)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("hidden_in", {"hidden-input", "feedback", "drafter-forward"}),
        ("state_out", {"feedback", "drafter-forward"}),
        ("fc_in", {"fc-input"}),
        ("fc_out", {"hidden-input"}),
        ("logits", {"logits", "proposals"}),
        ("final_normed", {"logits", "drafter-forward"}),
        ("input_ids", {"input-ids", "drafter-forward"}),
        ("position_ids", {"positions", "drafter-forward"}),
    ],
)
def test_a_tensor_that_was_not_recorded(run: Run, name: str, rules: set[str]) -> None:
    def without(sample: str, tensors: dict[str, Tensor]) -> None:
        for key in [k for k in tensors if k.startswith("forward.") and k.endswith(f".{name}")]:
            del tensors[key]

    judged = run(SHORT, change=without)
    assert judged.exit_code is ExitCode.UNKNOWN, judged.text
    assert {c.rule.removeprefix("engine.") for c in judged.checks if c.status is Status.UNKNOWN} == rules, judged.text


def test_counts_that_differ(tmp_path: Path) -> None:
    requests = simulate(SHORT)[:1]
    ready = [Written("r", r.held(), r.forwards) for _, r in requests]
    counts = {"forwards": CountInfo(recorded=5, counted=7, by="a counter"), "rounds": CountInfo(recorded=3, counted=None, by=None)}
    judged = judge(written(tmp_path / "bundle", SHORT, ready, counts))
    assert "5 forwards were recorded, the engine counted 7 (a counter)" in judged.one("engine.forwards-counted").message


@pytest.mark.parametrize(("recorded", "status"), [(5, Status.FAILED), (10, Status.PASSED)])
def test_counts_of_a_capture_without_forwards_are_held_against_the_engines(recorded: int, status: Status, tmp_path: Path) -> None:
    request = simulate(SHORT)[0][1]
    states = {name: x for name, x in request.held().items() if not name.startswith(("forward.", "round."))}
    counts = {"rounds": CountInfo(recorded=recorded, counted=10, by="a counter")}
    judged = judge(written(tmp_path / "bundle", SHORT, [Written("r", states, [])], counts))
    (check,) = [c for c in judged.checks if c.rule == "engine.forwards-counted"]
    assert check.status is status


@pytest.mark.parametrize(("by", "right"), [(SEEN_BY_HOOKS, True), ("requests", False)])
def test_requests_that_were_left_out_are_no_forwards_that_nobody_saw(by: str, right: bool, tmp_path: Path) -> None:
    """A server that is stopped breaks off what it is at; only the engine's own count says that something was missed."""
    requests = simulate(SHORT)[:1]
    ready = [Written("r", r.held(), r.forwards) for _, r in requests]
    counts = {"requests": CountInfo(recorded=1, counted=5, by=by)}
    judged = judge(written(tmp_path / "bundle", SHORT, ready, counts))
    (check,) = [c for c in judged.checks if c.rule == "engine.forwards-counted"]
    assert (check.status is Status.PASSED) is right
    assert "1 of 5" in check.message or "the engine counted 5" in check.message


def test_a_value_that_is_not_finite(run: Run) -> None:
    """NaN equals nothing, and spoils the rows that see it and no others."""

    def spoilt(sample: str, tensors: dict[str, Tensor]) -> None:
        tensors["forward.5.state_out"][0, 3] = float("nan")

    judged = run(SHORT, change=spoilt)
    check = next(c for c in judged.failed if c.rule == "engine.drafter-forward")
    assert check.evidence["rows"] == 1
    assert check.evidence["first"]["forward"] == 5


def lacking(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "drafter"
    shutil.copytree(FOLDER, folder)
    tensors = {n: t for n, t in load_file(folder / "model.safetensors").items() if n not in names}
    assert len(tensors) < len(load_file(folder / "model.safetensors"))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_head_that_the_engine_takes_from_the_target(tmp_path: Path) -> None:
    """The file has no lm_head; vLLM shares the target's first rows, and its reading says so."""
    engine = Engine(fault="other-head", tokens=48)
    bundle = write(tmp_path / "bundle", engine, simulate(engine, 1))
    check = judge(bundle, lacking(tmp_path, "lm_head.weight")).one("engine.drafter-wiring")
    assert check.dimension == "wiring"
    assert "lacks lm_head.weight" in check.message
    assert "lm_head target instead of own" in check.message
    assert check.fix is not None
    assert "lm_head.used is target" in check.fix


def test_a_norm_of_ones_where_the_file_has_none(tmp_path: Path) -> None:
    engine = Engine(fault="hidden-norm-of-ones", tokens=48)
    bundle = write(tmp_path / "bundle", engine, simulate(engine, 1))
    name = next(n for n in load_file(FOLDER / "model.safetensors") if n.endswith("hidden_norm.weight"))
    check = judge(bundle, lacking(tmp_path, name)).one("engine.drafter-wiring")
    assert "ones in place of layers.0.hidden_norm.weight" in check.message


def test_a_drafter_that_cannot_be_run_at_all(tmp_path: Path) -> None:
    """What needs no forward is still compared."""
    bundle = write(tmp_path / "bundle", SHORT, simulate(SHORT, 1))
    judged = judge(bundle, lacking(tmp_path, "fc.weight"))
    assert judged.exit_code is ExitCode.UNKNOWN
    assert {c.rule for c in judged.checks if c.status is Status.PASSED} >= {"engine.input-ids", "engine.fc-input", "engine.feedback"}


def test_no_forwards(tmp_path: Path) -> None:
    """A bundle of states alone gives one optional unknown, if an engine with a drafter of its own wrote it."""
    held = {n: t for n, t in simulate(SHORT, 1)[0][1].held().items() if not n.startswith(("forward.", "round."))}
    judged = judge(written(tmp_path / "bundle", SHORT, [Written("r", held, [])]))
    assert [(c.rule, c.status, c.required) for c in judged.checks] == [("engine.drafter-forward", Status.UNKNOWN, False)]


def test_without_the_target_its_embedding_is_missing(tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", SHORT, simulate(SHORT, 1))
    judged = judge(bundle, target=None)
    assert judged.exit_code is ExitCode.UNKNOWN
    assert "no target was given" in judged.text


def test_fc_skipped_on_equal_width(tmp_path: Path) -> None:
    """One state as wide as the drafter: SGLang takes it for a state that went through fc already."""
    engine = Engine(style="sglang", states=1, tokens=48, fault="fc-skipped")
    folder = one_state(tmp_path)
    check = judge(write(tmp_path / "bundle", engine, simulate(engine, 1)), folder).one("engine.hidden-input")
    assert "fc (with the norms before it) is skipped" in check.message
    assert "train on two states" in str(check.fix)
    assert check.evidence["first"]["token"] == 0
    clean = Engine(style="sglang", states=1, tokens=48)
    judged = judge(write(tmp_path / "clean", clean, simulate(clean, 1)), folder)
    assert judged.exit_code is ExitCode.KEPT, judged.text


def one_state(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    shutil.copytree(FOLDER, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["fc.weight"] = tensors["fc.weight"][:, :128].contiguous()
    save_file(tensors, folder / "model.safetensors")
    text = (folder / "contract.yaml").read_text()
    text = text.replace("boundaries: [2, 6, 9]", "boundaries: [2]").replace("[128, 384]", "[128, 128]")
    (folder / "contract.yaml").write_text(text)
    return folder


def test_positions_at_the_end_of_the_longest_sequence(run: Run) -> None:
    """Behind the longest sequence an engine clamps positions: those rows are junk by design, and counted."""
    longest = 50

    def clamped(sample: str, tensors: dict[str, Tensor]) -> None:
        for name in [n for n in tensors if n.endswith(".position_ids")]:
            positions = tensors[name]
            tensors[name] = torch.where(positions >= longest, torch.zeros_like(positions), positions)

    engine = Engine(tokens=49, flags=(("max_model_len", str(longest)),))
    judged = run(engine, change=clamped)
    assert judged.exit_code is ExitCode.KEPT, judged.text
    assert judged.measurement["rows"]["beyond the longest sequence"] == 1


def test_the_forwards_of_one_request_are_missing(tmp_path: Path) -> None:
    """It drafted, and nothing of its drafter is there: the others' forwards prove nothing about it."""
    requests = simulate(SHORT, 2)
    name = requests[1][0]
    requests[1][1].forwards.clear()

    def without(sample: str, tensors: dict[str, Tensor]) -> None:
        for key in [k for k in tensors if sample == name and k.startswith("forward.")]:
            del tensors[key]

    judged = judge(write(tmp_path / "bundle", SHORT, requests, without))
    assert (judged.rules, judged.exit_code) == (set(), ExitCode.UNKNOWN)
    assert "1 of 2 requests drafted and hold no forward of the drafter" in judged.text


def test_an_fc_that_no_hook_saw(tmp_path: Path) -> None:
    """SGLang does not call the fc that it skips. What reached the layers then tells; where it is no state, that is unknown."""
    folder = one_state(tmp_path)
    for fault in ("fc-skipped", ""):
        engine = Engine(style="sglang", states=1, tokens=48, fault=fault)
        ((_, request),) = simulate(engine, 1)
        held = {n: t for n, t in request.held().items() if not n.endswith((".fc_in", ".fc_out"))}
        judged = judge(written(tmp_path / f"bundle-{fault}", engine, [Written("r", held, request.forwards)]), folder)
        if not fault:
            assert judged.exit_code is ExitCode.UNKNOWN, judged.text
            assert "engine.hidden-input" in {c.rule for c in judged.checks if c.status is Status.UNKNOWN}
        else:
            assert "fc (with the norms before it) is skipped" in judged.one("engine.hidden-input").message
