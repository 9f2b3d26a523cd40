"""Running an engine, with a fake one: what it is told, what becomes of what it writes, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from factory import pair
from fake_engine import ANSWER, install, seen
from recording import LAYERS, RECIPE

from contract.errors import LimitExceeded, ToolError, UsageError, UserError
from contract.files.bundle import Bundle, open_bundle
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.engines import child, live
from eagle3_contract.engines.engine_flags import Work, engine_flags, environment_of
from eagle3_contract.engines.installed import installed
from eagle3_contract.engines.jobs import parse_runs, starts, submissions
from eagle3_contract.engines.live import LiveOptions, capture_live
from eagle3_contract.engines.transformers import Prompt
from eagle3_contract.model.load import LoadedContract, load_contract
from eagle3_contract.readings.serve_args import parse_serve_args

TARGET = {"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": 8, "vocab_size": 97, "max_position_embeddings": 64}
PROMPTS = [Prompt("a", [11, 12, 13, 14, 15], "s0"), Prompt("b", [21, 22, 23])]
PATIENCE_S = 60


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedContract:
    """A drafter whose config makes vLLM feed ``RECIPE``."""
    made = pair(boundaries=RECIPE, ids=RECIPE, layout="flat", target_layers=LAYERS)
    return load_contract(made.write(tmp_path / "drafter"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "config.json").write_text(json.dumps(TARGET))
    return tmp_path / "target"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The fake's folder; whatever it left running is a failure, and ended."""
    folder = tmp_path / "env"
    yield folder
    left = [int((folder / name).read_text()) for name in ("pid", "child") if (folder / name).exists()]
    alive = [pid for pid in left if running(pid)]
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def run(loaded: LoadedContract, target: Path, python: Path, engine: str = "vllm", **more: Any) -> Bundle:
    options = LiveOptions(python=str(python), new_tokens=4, **more.pop("options", {}))
    out = target.parent / "out" / "bundle"
    return open_bundle(capture_live(loaded, more.pop("prompts", PROMPTS), engine=engine, target=target, out=out, options=options, **more))


def test_a_capture(loaded: LoadedContract, target: Path, place: Path, logs: Path) -> None:
    bundle = run(loaded, target, install(place, counters={"drafted_tokens": 18.0}))
    assert [(r.id, r.sample, r.info.prompt_tokens, r.tokens) for r in bundle.requests] == [("a", "s0", 5, 8), ("b", None, 3, 6)]
    manifest = bundle.manifest
    assert manifest.recipe_fed == list(RECIPE)
    assert (manifest.engine.name, manifest.engine.version, manifest.engine.runner) == ("vllm", "0.32.0", "v1")
    assert manifest.engine.flags["build"] == "0.32.0+cpu"
    assert manifest.target.model_type == "llama"
    assert manifest.drafter is not None
    assert "model.safetensors" in manifest.drafter.files
    assert manifest.counts["rounds"].recorded == manifest.counts["rounds"].counted == 6
    assert manifest.counters["drafted_tokens"] == 18.0
    assert os.listdir(target.parent / "out") == ["bundle"]
    assert os.listdir(logs) == []


def test_what_the_engine_is_told(loaded: LoadedContract, target: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "kernels")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "2")
    run(loaded, target, install(place), serve_args={"vllm": "VLLM_LOGGING_LEVEL=DEBUG vllm serve m --max-model-len 48 --port 80"})
    (told,) = seen(place)
    job, environment = told["job"], told["environment"]
    assert told["runner"] == "eagle3_contract.engines.vllm.runner"
    assert sorted(told["packages"]) == ["contract", "eagle3_contract"]
    assert environment["PYTHONPATH"].split(":")[1:] == ["/kernels"]
    assert (environment["VLLM_CPU_KVCACHE_SPACE"], environment["VLLM_ENABLE_V1_MULTIPROCESSING"]) == ("2", "0")
    assert environment["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert job["drafter"] == str(loaded.drafter_folder.resolve())
    assert job["prompts"] == [
        {"id": "a", "input_ids": [11, 12, 13, 14, 15], "sample": "s0"},
        {"id": "b", "input_ids": [21, 22, 23], "sample": None},
    ]
    assert job["submissions"] == [{"run": "", "prompts": [0]}, {"run": "", "prompts": [1]}]
    assert (job["max_new_tokens"], job["sweep"], job["limit_bytes"]) == (4, True, DEFAULT_LIMITS.capture_bytes)
    assert (job["flags"]["max_model_len"], job["flags"]["dtype"]) == (48, "bfloat16")
    assert "port" not in job["flags"]
    assert "model" not in job["flags"]


def test_a_run_without_the_plain_one(loaded: LoadedContract, target: Path, place: Path) -> None:
    given = {"vllm": "--max-num-seqs 7"}
    bundle = run(loaded, target, install(place), options={"runs": ("again",)}, serve_args=given)
    assert [r.id for r in bundle.requests] == ["a@again", "b@again"]
    assert seen(place)[0]["job"]["flags"]["max_num_seqs"] == 7


def test_a_place_that_is_taken(loaded: LoadedContract, target: Path, place: Path) -> None:
    (target.parent / "out" / "bundle").mkdir(parents=True)
    (target.parent / "out" / "bundle" / "file").touch()
    with pytest.raises(UserError) as raised:
        run(loaded, target, install(place))
    assert raised.value.rule == "bundle.exists"
    assert seen(place) == []


def test_a_place_that_cannot_be_made(loaded: LoadedContract, target: Path, place: Path) -> None:
    (target.parent / "out").write_text("a file")
    with pytest.raises(UserError) as raised:
        run(loaded, target, install(place))
    assert raised.value.rule == "files.write-failed"
    assert seen(place) == []


def test_all_runs(loaded: LoadedContract, target: Path, place: Path) -> None:
    bundle = run(loaded, target, install(place), options={"runs": parse_runs(["all"])})
    ids = [r.id for r in bundle.requests]
    assert ids == ["a", "b", "a@again", "b@again", "a@batched", "b@batched", "a@cached", "b@cached", "a@chunked", "b@chunked"]
    told = [t["job"] for t in seen(place)]
    assert [t["flags"]["enable_prefix_caching"] for t in told] == [False, True, False]
    assert told[1]["submissions"][:2] == [{"run": "warm", "prompts": [0]}, {"run": "cached", "prompts": [0]}]
    assert bundle.manifest.engine.flags["cached: enable_prefix_caching"] == "True"
    assert bundle.manifest.counts["rounds"].recorded == 3 * 12


def test_sglang(loaded: LoadedContract, target: Path, place: Path, tmp_path: Path) -> None:
    made = pair(boundaries=(2, 3, 4), ids=(1, 2, 3), layout="nested", target_layers=LAYERS + 1)
    other = load_contract(made.write(tmp_path / "other"))
    (target / "config.json").write_text(json.dumps(TARGET | {"num_hidden_layers": LAYERS + 1}))
    python = install(place, answer=ANSWER | {"version": "0.5.23"}, start={"layers": LAYERS + 1})
    # A command line that asks for no speculation is one whose engine would draft nothing; the capture makes it draft.
    bundle = run(other, target, python, "sglang==0.5.23", serve_args={"sglang": "--speculative-num-steps 3 --attention-backend triton"})
    assert bundle.manifest.recipe_fed == [2, 3, 4]
    (told,) = seen(place)
    assert told["environment"]["SGLANG_USE_CPU_ENGINE"] == "1"
    assert told["job"]["flags"]["decode_attention_backend"] == "intel_amx"


def test_a_crash(loaded: LoadedContract, target: Path, place: Path, logs: Path) -> None:
    with pytest.raises(ToolError, match=r"exit code 1: ValueError: No valid attention backend: head_dim 16") as raised:
        run(loaded, target, install(place, do="crash"))
    assert raised.value.rule == "engine.failed"
    (log,) = logs.iterdir()
    assert str(log) in raised.value.fix
    assert "loading" in log.read_text()
    assert os.listdir(target.parent / "out") == []


def test_an_untested_release_is_named_when_it_fails(loaded: LoadedContract, target: Path, place: Path, logs: Path) -> None:
    with pytest.raises(ToolError) as raised:
        run(loaded, target, install(place, do="crash", answer=ANSWER | {"version": "0.31.0"}))
    assert "This is vllm 0.31.0; the hooks were run on 0.32.0." in raised.value.fix


def test_a_hang(loaded: LoadedContract, target: Path, place: Path, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_watch", after(place / "child", child._watch))
    with pytest.raises(ToolError, match="limit engine_seconds") as raised:
        run(loaded, target, install(place, do="hang"), limits=DEFAULT_LIMITS.lowered(engine_seconds=1))
    assert raised.value.rule == "engine.timeout"
    assert str(next(logs.iterdir())) in raised.value.message


def test_an_interrupt(loaded: LoadedContract, target: Path, place: Path, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_watch", after(place / "child", interrupted))
    with pytest.raises(KeyboardInterrupt):
        run(loaded, target, install(place, do="hang"))
    assert os.listdir(logs) == []
    assert os.listdir(target.parent / "out") == []


def after(path: Path, then: Any) -> Any:
    """``then``, once a file is there."""

    def waiting(*arguments: Any) -> Any:
        until = time.monotonic() + PATIENCE_S
        while not (path.exists() and path.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        return then(*arguments)

    return waiting


def test_the_parent_is_killed(place: Path, tmp_path: Path) -> None:
    python = install(place, do="hang")
    (tmp_path / "job.json").write_text("{}")
    text = (
        "import os\nfrom pathlib import Path\nfrom eagle3_contract.engines.child import environment, package_path, run_child\n"
        f"with package_path() as path:\n    run_child([{str(python)!r}, '-m', 'r', {str(tmp_path / 'job.json')!r}], engine='vllm', "
        f"env=environment(path, {{}}), folder=Path({str(tmp_path)!r}))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text])
    until = time.monotonic() + PATIENCE_S
    while not ((place / "child").exists() and (place / "child").read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    pids = [int((place / name).read_text()) for name in ("pid", "child")]
    while any(map(running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(running, pids))


def test_a_log_without_end(loaded: LoadedContract, target: Path, place: Path, logs: Path) -> None:
    with pytest.raises(LimitExceeded, match="engine_log_bytes"):
        run(loaded, target, install(place, do="chatter"), limits=DEFAULT_LIMITS.lowered(engine_log_bytes=100_000))
    assert os.listdir(logs) == []


def test_an_engine_that_records_nothing(loaded: LoadedContract, target: Path, place: Path) -> None:
    with pytest.raises(UserError) as raised:
        run(loaded, target, install(place, do="silent"))
    assert raised.value.rule == "files.not-found"


def test_a_recording_without_an_end(loaded: LoadedContract, target: Path, place: Path) -> None:
    with pytest.raises(UserError) as raised:
        run(loaded, target, install(place, ends=False))
    assert raised.value.rule == "engine.spool-end"


@pytest.mark.parametrize(
    ("engine", "answer", "rule", "says"),
    [
        ("vllm==0.31.0", ANSWER, "engine.version", r"vllm 0\.31\.0 was asked for, .* has 0\.32\.0; the hooks were run on 0\.32\.0"),
        ("vllm", ANSWER | {"version": "9.9.9"}, "engine.version", r"vllm 9\.9\.9, which was never read"),
        ("vllm", ANSWER | {"version": None}, "engine.not-installed", "has no vllm"),
        ("sglang", ANSWER | {"importable": False}, "engine.not-installed", "has no sglang"),
        ("vllm", "no JSON", "engine.not-installed", "is no interpreter that answers"),
        ("vllm", "[1]", "engine.not-installed", "is no interpreter that answers"),
        ("vllm", ANSWER | {"version": "$(rm)"}, "engine.not-installed", "is no interpreter that answers"),
        ("vllm==99", ANSWER, "engines.unknown", "is not in the table"),
    ],
)
def test_what_is_installed(place: Path, engine: str, answer: object, rule: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as raised:
        installed(engine, str(install(place, answer=answer)))
    assert raised.value.rule == rule


def test_installed(place: Path, tmp_path: Path) -> None:
    found = installed("vllm[v1]", str(install(place)))
    assert (str(found.ref), found.version, found.cuda) == ("vllm[v1]==0.32.0", "0.32.0", False)
    with pytest.raises(ToolError) as raised:
        installed("vllm", str(tmp_path / "nothing"))
    assert raised.value.rule == "engine.not-installed"


def test_places_below_the_working_directory(
    loaded: LoadedContract, target: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs in a folder of its own, where relative names would be others."""
    install(place)
    monkeypatch.chdir(tmp_path)
    options = LiveOptions(python=os.path.relpath(place / "python"), new_tokens=4)
    out = capture_live(loaded, PROMPTS, engine="vllm", target=target.relative_to(tmp_path), out="bundle", options=options)
    assert [r.id for r in open_bundle(tmp_path / "bundle").requests] == ["a", "b"]
    assert str(out) == "bundle"


def test_this_interpreter_has_no_engine() -> None:
    with pytest.raises(ToolError) as raised:
        installed("sglang")
    assert raised.value.rule == "engine.not-installed"


@pytest.mark.parametrize(
    ("start", "engine", "rule", "says"),
    [
        ({"engine": "sglang"}, "vllm", "engine.version", "vllm==0.32.0 was asked for, and sglang"),
        ({"runner": "v2"}, "vllm[v1]", "engine.version", r"vllm\[v1\]==0\.32\.0 was asked for, and vllm\[v2\]==0\.32\.0 ran"),
    ],
)
def test_another_engine_ran(
    loaded: LoadedContract, target: Path, place: Path, start: Mapping[str, object], engine: str, rule: str, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as raised:
        run(loaded, target, install(place, start=start), engine)
    assert raised.value.rule == rule


def test_a_recipe_that_is_not_known(target: Path, place: Path, tmp_path: Path) -> None:
    made = pair(boundaries=RECIPE, ids=RECIPE, layout="flat", target_layers=LAYERS)
    made.config["eagle_aux_hidden_state_layer_ids"] = ["a", "b", "c"]
    strange = load_contract(made.write(tmp_path / "strange"))
    with pytest.raises(ToolError, match=r"ran with layer ids \[0, 2, 3\], and its reading says that it feeds nothing") as raised:
        run(strange, target, install(place))
    assert raised.value.rule == "engine.recipe-unknown"


@pytest.mark.parametrize(
    ("prompts", "rule", "says"),
    [
        ([], "engine.samples-needed", "no prompts"),
        ([Prompt("a", [])], "engine.prompt", "0 tokens"),
        ([Prompt("a", [97])], "engine.prompt", "beyond the vocabulary of 97"),
        ([Prompt("a", [1]), Prompt("a", [2])], "engine.prompt", "two prompts"),
        ([Prompt("a", [1] * 61)], "engine.prompt", "beyond the target's 64 positions"),
    ],
)
def test_prompts_that_cannot_be_run(loaded: LoadedContract, target: Path, place: Path, prompts: list[Prompt], rule: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as raised:
        run(loaded, target, install(place), prompts=prompts)
    assert raised.value.rule == rule
    assert seen(place) == []


def test_a_device_that_is_not_there(loaded: LoadedContract, target: Path, place: Path) -> None:
    with pytest.raises(UserError) as raised:
        run(loaded, target, install(place), device="cuda")
    assert raised.value.rule == "engine.device"


WORK = Work(prompts=2, longest=100, total=150, new_tokens=8, positions=512, drafts=3, topk=1, nodes=4, dtype="float32", cuda=False)


@pytest.mark.parametrize("engine", live.ENGINES)
def test_flags_of_a_serving_command(engine: str) -> None:
    plain = engine_flags(engine, WORK, "", {})
    line = (
        "--tp-size 2 --host ::" if engine == "sglang" else "--tensor-parallel-size 2 --speculative-config '{\"num_speculative_tokens\": 5}'"
    )
    given = parse_serve_args(engine, line)
    flags = engine_flags(engine, WORK, "", given)
    assert {k: v for k, v in flags.items() if plain.get(k) != v} == (
        {"tp_size": 2}
        if engine == "sglang"
        else {"tensor_parallel_size": 2, "speculative_config": {"method": "eagle3", "num_speculative_tokens": 5}}
    )
    with pytest.raises(UsageError, match="runs code from the model's folder"):
        engine_flags(engine, WORK, "", parse_serve_args(engine, "--trust-remote-code"))
    with pytest.raises(UsageError, match="is no flag"):
        engine_flags(engine, WORK, "", {"__class__": 1})


def test_a_serving_command_does_not_undo_a_run() -> None:
    given = parse_serve_args("sglang", "--chunked-prefill-size 8192 --disable-radix-cache --context-length 256")
    assert engine_flags("sglang", WORK, "chunked", given)["chunked_prefill_size"] == 32
    assert engine_flags("sglang", WORK, "cached", given)["disable_radix_cache"] is False
    assert engine_flags("sglang", WORK, "", given)["chunked_prefill_size"] == 8192
    assert engine_flags("sglang", WORK, "chunked", given)["context_length"] == 256


def test_environment_of_a_serving_command() -> None:
    given = parse_serve_args("vllm", "VLLM_USE_V1=1 vllm serve m")
    assert environment_of(given) == {"VLLM_USE_V1": "1"}
    with pytest.raises(UsageError, match="LD_PRELOAD"):
        environment_of(parse_serve_args("vllm", "LD_PRELOAD=x.so vllm serve m"))


def test_runs() -> None:
    assert parse_runs([]) == ("",)
    assert parse_runs(["chunked", "plain"]) == ("", "chunked")
    assert parse_runs(["cached"]) == ("", "cached")  # nothing could be said of a run without the plain one
    assert starts(parse_runs(["all"])) == [("", "again", "batched"), ("cached",), ("chunked",)]
    assert submissions(("batched",), 3) == [{"run": "batched", "prompts": [0, 1, 2]}]
    with pytest.raises(UsageError, match="'chunky' is no run"):
        parse_runs(["chunky"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it wrote nothing"),
        ("INFO a\nlast words\n\n", "last words"),
        ("Traceback (most recent call last):\n  File x\n    raise\nvllm.Missing: no hook\nINFO bye\n", "vllm.Missing: no hook"),
        (
            "Traceback (most recent call last):\n  File x\nKeyError: 1\n\nDuring handling\n\nTraceback (most recent call last):\n"
            "  File y\nRuntimeError: engine core\n",
            "RuntimeError: engine core",
        ),
        (
            "(EngineCore pid=3) Traceback (most recent call last):\n(EngineCore pid=3)   File x\n(EngineCore pid=3) OSError: full\n",
            "OSError: full",
        ),
    ],
)
def test_the_reason_in_a_log(text: str, reason: str) -> None:
    assert child.reason_of(text) == reason
