"""Run drafter variants through a real engine, record what it did, and compare that with the predicted reading.

    python -m tools.engines sglang --python .venv-sglang/bin/python
    python -m tools.engines vllm --python .venv-vllm/bin/python [--only NAME]...

Writes ``tests/readings/data/further/ENGINE.jsonl`` (unless ``--only``) and exits 1 if a prediction differs from what the engine did.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.readings.test_observed import differences
from tools.engines import observe, targets, variants_sglang, variants_vllm
from tools.engines.drafters import Variant, config_of, write
from tools.engines.target_configs import TARGETS

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests" / "readings" / "data" / "further"
VARIANTS = {"sglang": variants_sglang.VARIANTS, "vllm": variants_vllm.VARIANTS}
VERSIONS = {"sglang": "0.5.23", "vllm": "0.32.0"}
NEW_TOKENS = 8


ENVIRONMENT = {
    "sglang": {"SGLANG_USE_CPU_ENGINE": "1", "TORCHDYNAMO_DISABLE": "1"},
    "vllm": {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    },
}


def environment(engine: str) -> dict[str, str]:
    """The engine's environment variables: its kernels and the probe on the path; no compiler, one thread."""
    paths = [HERE, HERE / "sglang_kernels", HERE / "sglang_plugin"] if engine == "sglang" else [HERE]
    extra = ENVIRONMENT[engine] | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return dict(os.environ) | extra | {"PYTHONPATH": ":".join(str(p) for p in paths)}


def run(engine: str, python: Path, variants: list[Variant], work: Path) -> None:
    """Write targets and drafters, and run them all in one go of the engine's runner."""
    jobs: list[dict[str, Any]] = []
    for variant in variants:
        targets.make(work / "targets" / variant.target, TARGETS[variant.target])
        folder = work / engine / variant.name
        write(variant, folder, work / "targets" / variant.target)
        place = {"name": variant.name, "folder": str(folder), "target": str(work / "targets" / variant.target)}
        jobs.append(place | {"flags": dict(variant.flags), "prompt": targets.PROMPT, "max_new_tokens": NEW_TOKENS})
    listed = work / f"{engine}.jobs.json"
    listed.write_text(json.dumps(jobs))
    subprocess.run([python, HERE / f"run_{engine}.py", listed], env=environment(engine), check=True)


def row(engine: str, variant: Variant, work: Path) -> dict[str, Any]:
    """One recorded run, in the shape of the other recorded runs of tests/readings/data."""
    folder, target = work / engine / variant.name, work / "targets" / variant.target
    return {
        "id": variant.name,
        "engine": engine,
        "version": VERSIONS[engine],
        "target": variant.target,
        "note": variant.note,
        "target_config": TARGETS[variant.target],
        "drafter_config": config_of(variant),
        "drafter_files": sorted(
            f.name for f in folder.iterdir() if f.suffix in (".json", ".safetensors", ".bin") and f.name != "outcome.json"
        ),
        "drafter_header": observe.headers(folder),
        "flags": dict(variant.flags),
        "prompt": targets.PROMPT,
        "max_new_tokens": NEW_TOKENS,
        "observed": observe.observed(variant, folder, target),
    }


def placeless(recorded: dict[str, Any], work: Path) -> dict[str, Any]:
    """The row without any path of this machine, so that a run elsewhere writes the same."""
    text = json.dumps(recorded).replace(str(work), "$WORK").replace(str(HERE.parents[1]), "$HERE")
    return dict(json.loads(re.sub(r"(?<![$\w])/[\w./-]+/site-packages", "site-packages", text)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=sorted(VARIANTS))
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(".cache/engines"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--again", action="store_true", help="take the last run's raw records; run nothing")
    given = parser.parse_args()
    started = time.monotonic()
    chosen = [v for v in VARIANTS[given.engine] if not given.only or v.name in given.only]
    work = given.work.resolve()
    if not given.again:
        run(given.engine, given.python.absolute(), chosen, work)
    rows = [placeless(row(given.engine, v, work), work) for v in chosen]
    if not given.only:
        DATA.mkdir(parents=True, exist_ok=True)
        (DATA / f"{given.engine}.jsonl").write_text("".join(json.dumps(r, sort_keys=True) + "\n" for r in rows))
    wrong = 0
    for recorded in rows:
        found = differences(recorded)
        wrong += bool(found)
        print(f"{recorded['id']}: {recorded['observed']['outcome']}, {'as predicted' if not found else 'differs'}")
        for difference in found:
            print(f"    {difference}")
    print(f"{given.engine}: {len(rows)} variants, {wrong} differ, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
