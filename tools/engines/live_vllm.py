"""The real vLLM, captured and verified: clean configurations are kept, what it does wrong by itself is found.

    python -m tools.engines.live_vllm --python .venv-vllm/bin/python [--only NAME]...

Each case is a command line of `contract`, a server recorded through the worker extension or the plugin, or a start under the gate, with the
exit code and the dimension of findings that are due. Exits 1 if one differs. Minutes, one engine at a time; never part of `make test`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tools.engines import live
from tools.engines.live import DATA, NEW_TOKENS, ROOT, TARGET, Case, Outcome, outcome

STARTING: Final = 300
PORT: Final = 18477
URL: Final = f"http://127.0.0.1:{PORT}"
ENGINE: Final = "vllm[v1]==0.32.0"
EXTENSION: Final = "eagle3_contract.engines.vllm.extension.CaptureExtension"
SPECULATIVE: Final = {"method": "eagle3", "num_speculative_tokens": 3}


def serve(**flags: Any) -> tuple[str, str]:
    """Serving flags as an option."""
    words = (f"--{name.replace('_', '-')} '{value if isinstance(value, str) else json.dumps(value)}'" for name, value in flags.items())
    return "--serve-args", "vllm=" + " ".join(words)


FLOAT32 = ("--dtype", "float32")
CASES: Final = tuple(
    replace(case, exported=case.drafter == "drafter-a")
    for case in (
        Case(name="runs", options=("--runs", "plain,again,batched,cached", *FLOAT32)),
        Case(name="bfloat16"),
        Case(name="float16", options=("--dtype", "float16")),
        Case(name="one-draft", options=(*FLOAT32, *serve(speculative_config=SPECULATIVE | {"num_speculative_tokens": 1}))),
        Case(name="seven-drafts", options=(*FLOAT32, *serve(speculative_config=SPECULATIVE | {"num_speculative_tokens": 7}))),
        Case(name="small-blocks", options=("--runs", "batched,cached", *FLOAT32, *serve(block_size=32))),
        Case(name="five-drafts", options=(*FLOAT32, *serve(speculative_config=SPECULATIVE | {"num_speculative_tokens": 5}))),
        Case(name="chunks", options=("--runs", "plain,chunked", *FLOAT32), exit_code=1, dimension="engine"),
        Case(
            name="unpadded",
            options=(*FLOAT32, *serve(speculative_config=SPECULATIVE | {"disable_padded_drafter_batch": True})),
            exit_code=1,
            dimension="engine",
        ),
        # Room for two requests and a half of two blocks each: the others are preempted when they enter their third.
        Case(
            name="preempted",
            options=(
                "--runs",
                "batched",
                "--max-new-tokens",
                "140",
                *FLOAT32,
                *serve(num_gpu_blocks_override=6, block_size=128, max_num_seqs=8),
            ),
        ),
        Case(name="other-boundaries", drafter="drafter-b", options=FLOAT32, exit_code=1, dimension="recipe"),
        # Exit 3: a server's records repeat no training sample; the plugin's have no counters either.
        Case(name="server-extension", how="extension", exit_code=3),
        Case(name="server-plugin", how="plugin", exit_code=3),
        Case(name="gate-kept", how="gate"),
        Case(name="gate-refused", drafter="drafter-b", how="gate", exit_code=1),
    )
)
"""Drafter A is served as `contract export` writes it for vLLM; drafter B as it is, without layer ids."""


def environment(packages: Path) -> dict[str, str]:
    """vLLM on a CPU, with our packages and their entry point found through links alone."""
    if not packages.exists():
        packages.mkdir()
        for name in ("contract", "eagle3_contract"):
            (packages / name).symlink_to(ROOT / name)
        told = packages / "eagle3_contract-0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: eagle3-contract\nVersion: 0\n")
        (told / "entry_points.txt").write_text("[vllm.general_plugins]\neagle3_contract = eagle3_contract.engines.vllm.plugin:register\n")
    mine = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return dict(os.environ) | mine | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(packages)}


def contract(*words: str) -> tuple[int, dict[str, Any]]:
    """`contract` in its own environment."""
    return live.contract(dict(os.environ) | {"OMP_NUM_THREADS": "1"}, *words)


def command_line(python: Path, drafter: Path, *more: str) -> list[str]:
    """A server of the demo's target with this drafter."""
    sizes = ["--max-model-len", "256", "--max-num-seqs", "4", "--max-num-batched-tokens", "512", "--dtype", "float32", "--enforce-eager"]
    speculative = ["--speculative-config", json.dumps(SPECULATIVE | {"model": str(drafter)})]
    place = ["--model", str(TARGET), "--served-model-name", "demo", "--host", "127.0.0.1", "--port", str(PORT)]
    return [str(python), "-m", "vllm.entrypoints.openai.api_server", *place, *sizes, "--no-enable-prefix-caching", *speculative, *more]


@contextmanager
def server(command: list[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers, or has ended; stopped afterwards with all that it started."""
    with log.open("wb") as out:
        # Elsewhere than in the checkout: an egg-info there would hide the entry point.
        running = subprocess.Popen(command, cwd=log.parent, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        for _ in range(STARTING):
            try:
                post("/health", None)
                break
            except OSError:
                if running.poll() is not None:
                    break
                time.sleep(1)
        yield running
    finally:
        running.terminate()
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def post(path: str, body: Any) -> Any:
    """The answer to a request, decoded where it is JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def counted() -> dict[str, float]:
    """What a server that was just started has counted."""
    names = {"drafts": "rounds", "draft_tokens": "drafted_tokens", "accepted_tokens": "accepted_tokens"}
    with urllib.request.urlopen(f"{URL}/metrics", timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    return {
        ours: sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"vllm:spec_decode_num_{theirs}_total{{"))
        for theirs, ours in names.items()
    }


def served(case: Case, python: Path, drafter: Path, folder: Path) -> Path:
    """Records a server through the worker extension or the plugin; gives the spool."""
    spool, env = folder / "spool", environment(folder / "packages")
    more: tuple[str, ...] = ()
    if case.how == "extension":
        env |= {"VLLM_SERVER_DEV_MODE": "1"}
        more = ("--worker-extension-cls", EXTENSION)
    else:
        env |= {"EAGLE3_CONTRACT_CAPTURE": str(spool), "EAGLE3_CONTRACT_SWEEP": "1"}
    prompts = [json.loads(line)["input_ids"] for line in (DATA / "prompts.jsonl").read_text().splitlines()]
    wanted = {"model": "demo", "max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True}
    with server(command_line(python, drafter, *more), env, folder / "log"):
        if case.how == "extension":
            options = json.dumps({"folder": str(spool), "serve": True, "sweep": True})
            post("/collective_rpc", {"method": "eagle3_contract_start", "args": [options]})
        post("/v1/completions", {**wanted, "prompt": prompts[:4]})
        post("/v1/completions", {**wanted, "prompt": prompts[4]})
        if case.how == "extension":
            post("/collective_rpc", {"method": "eagle3_contract_stop", "args": [json.dumps(counted())]})
    return spool


def judged(case: Case, python: Path, drafter: Path, folder: Path) -> Outcome:
    """A start under the refusing gate."""
    env = environment(folder / "packages") | {"EAGLE3_CONTRACT_GATE": "refuse"}
    with server(command_line(python, drafter, "--max-model-len", "176"), env, folder / "log") as running:
        up = running.poll() is None
    refused = "eagle3-contract gate (refuse)" in (folder / "log").read_text(errors="replace")
    right = up != refused and refused == bool(case.exit_code)
    return Outcome(None if right else f"{'up' if up else 'down'}, {'' if refused else 'not '}refused")


def run(case: Case, python: Path, folder: Path) -> Outcome:
    """One case on the real engine."""
    drafter = DATA / case.drafter
    if case.exported:
        drafter = folder / "drafter"
        code, report = contract("export", str(DATA / case.drafter / "contract.yaml"), "--engine", "vllm", "-o", str(drafter))
        if code:
            return Outcome(f"no export: {code} {str(report)[:300]}")
    spec, target = str(drafter / "contract.yaml"), ("--target", str(TARGET))
    if case.how == "gate":
        return judged(case, python, drafter, folder)
    if case.how == "verify":
        where: tuple[str, ...] = ("--engine", ENGINE, "--engine-python", str(python), "--max-new-tokens", str(NEW_TOKENS))
        where += ("--samples", str(DATA / case.drafter / "samples"))
    else:
        spool, bundle = served(case, python, drafter, folder), folder / "bundle"
        code, report = contract("capture", spec, "--engine", ENGINE, "--spool", str(spool), *target, "-o", str(bundle))
        if code:
            return Outcome(f"no bundle of the server's records: {code} {str(report)[:500]}")
        where = ("--capture", str(bundle))
    return outcome(case, *contract("verify", spec, *where, *target, *case.options))


if __name__ == "__main__":
    raise SystemExit(live.main("vllm", __doc__, CASES, run))
