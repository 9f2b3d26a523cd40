"""The real SGLang, captured and verified: clean configurations are kept, what it does wrong by itself is found.

    python -m tools.engines.live_sglang --python .venv-sglang/bin/python [--only NAME]...

Each case is a command line of `contract` (or a job of SGLang's HTTP server, or a start under the gate) with the exit code and the
dimension of findings that are due. Exits 1 if one differs. Minutes, one engine at a time; never part of `make test`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

from tools.engines.live import DATA, NEW_TOKENS, ROOT, SECONDS, TARGET, Case, Outcome, contract, main, outcome

HERE: Final = Path(__file__).parent
KERNELS: Final = (HERE / "sglang_cpu", HERE / "sglang_kernels")
ENGINE: Final = "sglang==0.5.23"


def serve(flags: str) -> tuple[str, str]:
    """Serving flags as an option."""
    return "--serve-args", f"sglang={flags}"


CASES = (
    Case(name="chain", options=("--runs", "all", "--dtype", "float32")),
    Case(name="chain-bfloat16"),
    Case(name="chain-five-steps", options=("--dtype", "float32", *serve("--speculative-num-steps 5 --speculative-num-draft-tokens 6"))),
    Case(
        name="tree",
        options=("--dtype", "float32", *serve("--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8")),
        exit_code=1,
        dimension="engine",
    ),
    Case(name="window", options=("--dtype", "float32", *serve("--speculative-draft-window-size 8")), exit_code=1, dimension="engine"),
    Case(name="other-boundaries", drafter="drafter-b", options=("--dtype", "float32"), exit_code=1, dimension="recipe"),
    Case(name="http-server", how="server"),
    Case(name="gate-kept", how="gate"),
    Case(name="gate-refused", drafter="drafter-b", how="gate", exit_code=1),
)


def environment() -> dict[str, str]:
    """With the stand-in for SGLang's kernels on the module path of its processes."""
    mine = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1"}
    return os.environ | mine | {"PYTHONPATH": os.pathsep.join(map(str, KERNELS))}


def job(case: Case, folder: Path) -> Path:
    """A job of the demo's prompts, each alone, for the HTTP server and for the gate."""
    lines = [json.loads(line) for line in (DATA / "prompts.jsonl").read_text().splitlines()]
    flags = {"device": "cpu", "dtype": "float32", "mem_fraction_static": 0.1, "max_total_tokens": 2048, "context_length": 256}
    flags |= {"disable_radix_cache": True, "prefill_attention_backend": "intel_amx", "decode_attention_backend": "intel_amx"}
    flags |= {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    made = {
        "engine": "sglang",
        "target": str(TARGET),
        "drafter": str(DATA / case.drafter),
        "spool": str(folder / "spool"),
        "limit_bytes": None,
        "sweep": True,
        "flags": flags,
        "prompts": [{"id": p["id"], "input_ids": p["input_ids"], "sample": None} for p in lines],
        "submissions": [{"run": "", "prompts": [i]} for i in range(len(lines))],
        "max_new_tokens": NEW_TOKENS,
        "record_prompts_max": None,
    }
    (folder / "job.json").write_text(json.dumps(made))
    return folder / "job.json"


def child(module: str, path: Path, python: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A module of ours in SGLang's environment, which finds our packages by links alone."""
    packages = path.parent / "packages"
    packages.mkdir()
    for name in ("contract", "eagle3_contract"):
        (packages / name).symlink_to(ROOT / name)
    env = environment() | more
    env["PYTHONPATH"] = os.pathsep.join([str(packages), env["PYTHONPATH"]])
    command = [str(python), "-m", module, str(path)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)


def run(case: Case, python: Path, folder: Path) -> Outcome:
    """One case on the real engine."""
    spec, target = str(DATA / case.drafter / "contract.yaml"), ("--target", str(TARGET))
    if case.how == "gate":
        ran = child("eagle3_contract.engines.sglang.runner", job(case, folder), python, EAGLE3_CONTRACT_GATE="refuse")
        refused = "eagle3-contract gate (refuse)" in ran.stdout + ran.stderr
        right = (ran.returncode != 0) == refused == bool(case.exit_code)
        return Outcome(None if right else f"exit code {ran.returncode}, {'refused' if refused else 'not refused'}")
    if case.how == "server":
        ran = child("eagle3_contract.engines.sglang.server", job(case, folder), python)
        if ran.returncode:
            return Outcome(f"the server's job ended with {ran.returncode}: {ran.stderr[-500:]}")
        bundle = str(folder / "bundle")
        code, report = contract(environment(), "capture", spec, "--engine", ENGINE, "--spool", str(folder / "spool"), *target, "-o", bundle)
        if code:
            return Outcome(f"no bundle of the server's records: {code}, {str(report)[:500]}")
        where: tuple[str, ...] = ("--capture", bundle)
    else:
        prompts = ("--prompts", str(DATA / "prompts.jsonl"), "--max-new-tokens", str(NEW_TOKENS))
        where = ("--engine", ENGINE, "--engine-python", str(python), *prompts)
    return outcome(case, *contract(environment(), "verify", spec, *where, *target, *case.options))


if __name__ == "__main__":
    raise SystemExit(main("sglang", __doc__, CASES, run))
