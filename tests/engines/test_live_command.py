"""`contract capture` and `contract verify` with an engine that runs now: a fake one that feeds a real target's states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fake_engine import install, seen
from recording import Recording
from verify.scenario import LAYERS, VOCAB, Scenario, build, write_target

import contract
from contract.cli.main import main
from contract.files.bundle import open_bundle

FED = [2, LAYERS // 2, LAYERS - 3]
Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """Trained on what vLLM captures where a config names no ids."""
    folder = tmp_path_factory.mktemp("live")
    return build(folder / "drafter", write_target(folder / "target"), recipe=tuple(FED))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory, right: Scenario) -> Scenario:
    """Trained on [embedding, a, b], with a config that names no ids, either."""
    return build(tmp_path_factory.mktemp("live") / "drafter", right.target_dir, recipe=(0, 3, 5))


@pytest.fixture
def line(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str]:
        code = main([str(w) for w in words])
        captured = capfd.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files, and the logs that are kept, go where the test's files go."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


def failed(text: str) -> set[str]:
    return {c["rule"] for c in json.loads(text)["checks"] if c["status"] == "failed"}


def test_capture_samples_and_verify(right: Scenario, tmp_path: Path, line: Run) -> None:
    python = install(tmp_path / "env", real=True, feeds=FED, start={"layers": LAYERS})
    words = ["capture", right.spec, "--engine", "vllm==0.32.0", "--engine-python", python, "--target", right.target_dir]
    code, text = line(*words, "--samples", right.samples, "--max-new-tokens", 3, "--dtype", "float32", "-o", tmp_path / "bundle")
    assert (code, text.strip()) == (
        0,
        f"{tmp_path}/bundle: 3 requests, 75 tokens, 6 rounds of drafting, fed [2, 4, 5] by vllm[v1]==0.32.0",
    )
    assert [r.sample for r in open_bundle(tmp_path / "bundle").requests] == ["s0.safetensors", "s1.safetensors", "s2.safetensors"]
    assert seen(tmp_path / "env")[0]["job"]["flags"]["dtype"] == "float32"
    code, text = line("verify", right.spec, "--capture", tmp_path / "bundle", "--target", right.target_dir, "--format", "json")
    rules = {c["rule"]: c["status"] for c in json.loads(text)["checks"]}
    assert rules["states.recipe"] == "passed"
    assert rules["states.slot"] == "passed"


def test_verify_finds_what_a_running_engine_feeds(wrong: Scenario, tmp_path: Path, line: Run) -> None:
    python = install(tmp_path / "env", real=True, feeds=FED, start={"layers": LAYERS})
    words = ["verify", wrong.spec, "--engine", "vllm", "--engine-python", python, "--target", wrong.target_dir, "--samples", wrong.samples]
    code, text = line(*words, "--max-new-tokens", 2, "--dtype", "float32", "--format", "json")
    assert code == 1
    assert "states.recipe" in failed(text)
    found = next(c for c in json.loads(text)["checks"] if c["rule"] == "states.recipe")
    assert (found["expected"], found["actual"]) == ([0, 3, 5], FED)


def test_verify_runs_prompts(right: Scenario, tmp_path: Path, line: Run) -> None:
    python = install(tmp_path / "env", real=True, feeds=FED, start={"layers": LAYERS})
    (tmp_path / "prompts.jsonl").write_text('{"id": "p", "input_ids": [5, 6, 7, 8]}\n')
    words = ["verify", right.spec, "--engine", "vllm", "--engine-python", python, "--target", right.target_dir]
    _, text = line(*words, "--prompts", tmp_path / "prompts.jsonl", "--runs", "plain,batched", "--max-new-tokens", 2, "--format", "json")
    (told,) = seen(tmp_path / "env")
    assert [s["run"] for s in told["job"]["submissions"]] == ["", "batched"]
    assert told["job"]["prompts"] == [{"id": "p", "input_ids": [5, 6, 7, 8], "sample": None}]
    assert "states.recipe" not in failed(text)


def test_a_failure_of_the_engine_is_in_the_report(right: Scenario, tmp_path: Path, line: Run) -> None:
    python = install(tmp_path / "env", do="crash")
    words = ["verify", right.spec, "--engine", "vllm", "--engine-python", python, "--target", right.target_dir, "--samples", right.samples]
    code, text = line(*words, "--format", "json")
    assert code == 2
    (found,) = [c for c in json.loads(text)["checks"] if c["rule"] == "engine.failed"]
    assert "ValueError: No valid attention backend" in found["message"]
    log = found["fix"].partition("kept: ")[2].split(".log")[0] + ".log"
    assert "loading" in Path(log).read_text()


def test_a_spool_of_a_server(right: Scenario, tmp_path: Path, line: Run) -> None:
    recording = Recording(tmp_path / "spool", recipe=[*FED[:2], 3], sweep=False, start={"layers": LAYERS})
    for i in range(3):
        recording.whole(f"cmpl-{i}", [11, 12, 13], [21, 22, 23], [1])
    recording.prompt("cmpl-open", [11, 12])
    words = ["capture", right.spec, "--engine", "vllm", "--spool", tmp_path / "spool", "--target", right.target_dir]
    code, text = line(*words, "--max-requests", 2, "--max-rows", 4, "-o", tmp_path / "bundle", "--format", "json")
    assert code == 0, text
    bundle = open_bundle(tmp_path / "bundle")
    assert [(r.id, r.tokens) for r in bundle.requests] == [("cmpl-0", 4 - 1), ("cmpl-1", 4 - 1)]
    assert json.loads(text)["counts"]["requests"] == {"recorded": 2, "counted": 4, "by": "requests seen by the hooks"}
    code, text = line(*words[:3], "sglang", *words[4:], "-o", tmp_path / "other")
    assert code == 2
    assert "sglang was asked for, and vllm[v1]==0.32.0 ran" in text


SPOOL = ["--spool", "x"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["capture", "--engine", "transformers", "--prompts", "p", "--runs", "again"], "--runs means nothing to transformers"),
        (
            ["capture", "--engine", "transformers", "--prompts", "p", "--engine-python", "py"],
            "--engine-python means nothing to transformers",
        ),
        (
            ["capture", "--engine", "transformers", "--prompts", "p", "--max-new-tokens", "3"],
            "--max-new-tokens means nothing to transformers",
        ),
        (
            ["capture", "--engine", "transformers", "--prompts", "p", "--serve-args", "vllm=--x"],
            "--serve-args means nothing to transformers",
        ),
        (["capture", "--engine", "vllm", "--prompts", "p", "--imitate", "sglang"], "--imitate means nothing to vllm"),
        (
            ["capture", "--engine", "vllm", "--prompts", "p", "--serve-args", "sglang=--x"],
            "--serve-args for sglang, which no --engine names",
        ),
        (["capture", "--engine", "tgi", "--prompts", "p"], "tgi cannot be run by this version; it runs transformers, vllm, sglang"),
        (["capture", "--engine", "vllm", "--prompts", "p", "--runs", "again,often"], "'often' is no run"),
        (["capture", "--engine", "vllm", "--prompts", "p", "--runs", "again,,"], "is no list of names"),
        (["capture", "--engine", "vllm", "--prompts", "p", "--max-rows", "3"], "--max-requests and --max-rows are for --spool"),
        (["capture", "--engine", "vllm", *SPOOL, "--runs", "again"], "--spool runs nothing"),
        (["capture", "--engine", "vllm", *SPOOL, "--prompts", "p"], "give one of --prompts, --samples and --spool"),
        (["verify", "--runs", "again"], "--engine-python, --runs and --dtype are for --engine"),
        (["verify", "--prompts", "p"], "--prompts and --max-new-tokens are for --engine and --server"),
    ],
)
def test_options_that_mean_nothing(right: Scenario, tmp_path: Path, line: Run, words: list[str], says: str) -> None:
    more = ["--target", right.target_dir, "-o", tmp_path / "out"] if words[0] == "capture" else []
    code, text = line(words[0], right.spec, *words[1:], *more)
    assert code == 2
    assert says in " ".join(text.split())
    assert not (tmp_path / "out").exists()


def test_dtype_reaches_transformers(right: Scenario, tmp_path: Path, line: Run) -> None:
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"id": "p", "input_ids": torch.arange(5).remainder(VOCAB).tolist()}))
    words = ["capture", right.spec, "--engine", "transformers", "--target", right.target_dir, "--prompts", tmp_path / "prompts.jsonl"]
    code, text = line(*words, "--dtype", "float16", "-o", tmp_path / "bundle")
    assert code == 0, text
    assert open_bundle(tmp_path / "bundle").manifest.engine.dtype == "float16"


def test_from_python(right: Scenario, tmp_path: Path) -> None:
    """`contract.capture` and `contract.verify` run an engine as the commands do."""
    python = install(tmp_path / "env", real=True, feeds=FED, start={"layers": LAYERS})
    how = {"engine_python": python, "max_new_tokens": 2, "dtype": "float32"}
    made = contract.capture(
        right.spec, engine="vllm", target=right.target_dir, out=tmp_path / "bundle", samples=right.samples, runs=["batched"], **how
    )
    assert (made.engine, made.requests, made.recipe_fed) == ("vllm[v1]==0.32.0", 6, (2, 4, 5))
    (told,) = seen(tmp_path / "env")
    assert [s["run"] for s in told["job"]["submissions"]] == ["", "", "", "batched"]
    assert (told["job"]["max_new_tokens"], told["job"]["flags"]["dtype"]) == (2, "float32")
    report = contract.verify(right.spec, engine="vllm", target=right.target_dir, samples=right.samples, runs="batched", **how)
    assert {c.status for c in report.checks if c.rule == "states.recipe"} == {contract.Status.PASSED}
    assert seen(tmp_path / "env")[-1]["job"]["submissions"] == told["job"]["submissions"]


@pytest.mark.parametrize("more", [{"engine_python": "py"}, {"runs": ["again"]}, {"dtype": "float32"}])
def test_options_of_an_engine_without_one(right: Scenario, more: dict[str, object]) -> None:
    with pytest.raises(contract.UserError, match="engine_python, runs and dtype are for an engine") as raised:
        contract.verify(right.spec, samples=right.samples, **more)  # type: ignore[arg-type]
    assert raised.value.rule == "cli.not-together"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "not one of prompts, samples and spool"),
        ({"prompts": "p", "samples": "s"}, "not one of prompts, samples and spool"),
        ({"prompts": "p", "max_rows": 3}, "are for a spool"),
        ({"spool": "s", "runs": ["again"]}, "mean nothing to a spool"),
    ],
)
def test_captures_from_python_that_cannot_be(right: Scenario, tmp_path: Path, more: dict[str, object], words: str) -> None:
    with pytest.raises(contract.UserError, match=words) as raised:
        contract.capture(right.spec, engine="vllm", target=right.target_dir, out=tmp_path / "b", **more)  # type: ignore[arg-type]
    assert raised.value.rule == "cli.not-together"
