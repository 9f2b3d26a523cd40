"""The real vLLM, captured and verified: clean configurations are kept, what it does wrong by itself is found.

    python -m tools.engines.live_vllm --python .venv-vllm/bin/python [--only NAME]...

Each case is a command line of `contract`, a server recorded through the worker extension or the plugin, or a start under the gate, with the
exit code and the dimension of findings that are due. Exits 1 if one differs. Minutes, one engine at a time; never part of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "eagle3_contract" / "demo" / "data"
TARGET = DATA / "target"
NEW_TOKENS, SECONDS, STARTING = 40, 1800, 300
PORT = 18477
URL = f"http://127.0.0.1:{PORT}"
ENGINE = "vllm[v1]==0.32.0"
EXTENSION = "eagle3_contract.engines.vllm.extension.CaptureExtension"
SPECULATIVE = {"method": "eagle3", "num_speculative_tokens": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run.

    Attributes:
        name: what it is about.
        drafter: folder of the demo.
        exported: serve it as `contract export --engine vllm` writes it, with the layer ids in vLLM's numbering.
        options: of `contract verify`, besides the usual ones.
        exit_code: that is due.
        dimension: of one failed check at least; None where nothing may fail.
        how: ``verify``, ``extension`` or ``plugin`` (a server, then its spool), ``gate`` (a start that the gate judges).
    """

    name: str
    drafter: str = "drafter-a"
    exported: bool = True
    options: Sequence[str] = ()
    exit_code: int = 0
    dimension: str | None = None
    how: str = "verify"


def serve(**flags: Any) -> tuple[str, str]:
    """Serving flags as an option."""
    words = (f"--{name.replace('_', '-')} '{value if isinstance(value, str) else json.dumps(value)}'" for name, value in flags.items())
    return "--serve-args", "vllm=" + " ".join(words)


FLOAT32 = ("--dtype", "float32")
CASES = (
    Case(name="runs", options=("--runs", "plain,again,batched,cached", *FLOAT32)),
    Case(name="bfloat16"),
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
    Case(name="other-boundaries", drafter="drafter-b", exported=False, options=FLOAT32, exit_code=1, dimension="recipe"),
    # Exit 3: a server's records repeat no training sample; the plugin's have no counters either.
    Case(name="server-extension", how="extension", exit_code=3),
    Case(name="server-plugin", how="plugin", exit_code=3),
    Case(name="gate-kept", how="gate"),
    Case(name="gate-refused", drafter="drafter-b", exported=False, how="gate", exit_code=1),
)


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
    """Exit code and JSON report of a command."""
    command = [sys.executable, "-m", "contract", *words, "--format", "json"]
    env = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    try:
        report: dict[str, Any] = json.loads(ran.stdout)
    except json.JSONDecodeError:
        report = {"checks": [], "stderr": ran.stderr[-2000:]}
    return ran.returncode, report


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


def judged(case: Case, python: Path, drafter: Path, folder: Path) -> str | None:
    """A start under the refusing gate."""
    env = environment(folder / "packages") | {"EAGLE3_CONTRACT_GATE": "refuse"}
    with server(command_line(python, drafter, "--max-model-len", "176"), env, folder / "log") as running:
        up = running.poll() is None
    refused = "eagle3-contract gate (refuse)" in (folder / "log").read_text(errors="replace")
    return None if up != refused and refused == bool(case.exit_code) else f"{'up' if up else 'down'}, {'' if refused else 'not '}refused"


def run(case: Case, python: Path, folder: Path) -> str | None:
    """What differs from what is due, or None."""
    drafter = DATA / case.drafter
    if case.exported:
        drafter = folder / "drafter"
        code, report = contract("export", str(DATA / case.drafter / "contract.yaml"), "--engine", "vllm", "-o", str(drafter))
        if code:
            return f"no export: {code} {str(report)[:300]}"
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
            return f"no bundle of the server's records: {code} {str(report)[:500]}"
        where = ("--capture", str(bundle))
    code, report = contract("verify", spec, *where, *target, *case.options)
    failed = [c for c in report["checks"] if c["status"] == "failed"]
    dimensions = {c["dimension"] for c in failed}
    if code == case.exit_code and (case.dimension in dimensions or (case.dimension is None and not failed)):
        return None
    open_ = sorted(c["rule"] for c in report["checks"] if c["status"] == "unknown")
    return f"exit code {code}, failed {sorted((c['dimension'], c['rule']) for c in failed)}, open {open_} {report.get('stderr', '')[-300:]}"


def main() -> int:
    """Run the cases and say which differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=[c.name for c in CASES])
    given = parser.parse_args()
    differ = 0
    for case in CASES:
        if given.only and case.name not in given.only:
            continue
        with tempfile.TemporaryDirectory(prefix="live-vllm-") as folder:
            fault = run(case, given.python, Path(folder))
        differ += fault is not None
        print(f"{case.name}: {fault or 'as due'}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
