"""Stands for the interpreter of an engine's environment: answers what is installed, and runs jobs as ``behaviour.json`` beside it says.

``install`` writes an executable that is called as an interpreter would be: ``FAKE -c QUESTION ...`` and ``FAKE -m RUNNER JOB.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ANSWER = {"importable": True, "version": "0.32.0+cpu", "cuda": False}
HOUR_S = 3600


def install(folder: Path, *, do: str = "record", answer: object = ANSWER, **more: object) -> Path:
    """The fake interpreter; what it was asked to do is left in ``folder`` as ``seen-N.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "behaviour.json").write_text(json.dumps({"do": do, "answer": answer, "paths": sys.path, **more}))
    script = folder / "python"
    script.write_text(
        f"#!{sys.executable} -S\nimport sys\nsys.path.insert(0, {str(HERE)!r})\nimport fake_engine\nfake_engine.main({str(folder)!r})\n"
    )
    script.chmod(0o755)
    return script


def seen(folder: Path) -> list[dict[str, Any]]:
    """The jobs that were run, each with the environment it ran in."""
    return [json.loads(p.read_text()) for p in sorted(folder.glob("seen-*.json"))]


def main(place: str) -> None:
    folder = Path(place)
    behaviour = json.loads((folder / "behaviour.json").read_text())
    if sys.argv[1] == "-c":
        print("a greeting")  # noqa: T201 - an interpreter may say more than it is asked
        print(behaviour["answer"] if isinstance(behaviour["answer"], str) else json.dumps(behaviour["answer"]))  # noqa: T201
        return
    assert sys.argv[1] == "-m"
    job = json.loads(Path(sys.argv[3]).read_text())
    record = {
        "runner": sys.argv[2],
        "job": job,
        "environment": dict(os.environ),
        "packages": os.listdir(os.environ["PYTHONPATH"].split(":")[0]),
    }
    number = len(list(folder.glob("seen-*.json")))
    (folder / f"seen-{number}.json").write_text(json.dumps(record))
    (folder / "pid").write_text(str(os.getpid()))
    sys.path[:] = behaviour["paths"]
    globals()[behaviour["do"]](job, behaviour, folder)


def record(job: dict[str, Any], behaviour: dict[str, Any], folder: Path) -> None:
    """Every submission, with states from ``recording`` or, with ``real``, from the job's target."""
    from recording import Recording

    engine = {"engine": job["engine"], "version": behaviour["answer"]["version"], "flags": {k: str(v) for k, v in job["flags"].items()}}
    engine |= {"runner": "v1" if job["engine"] == "vllm" else None} | behaviour.get("start", {})
    recording: Any = (_real(behaviour) if behaviour.get("real") else Recording)(Path(job["spool"]), start=engine)
    if behaviour.get("real"):
        recording.load(job)
    for number, submission in enumerate(job["submissions"]):
        for index in submission["prompts"]:
            prompt = job["prompts"][index]
            output = [(31 + 7 * i) % 90 for i in range(job["max_new_tokens"])]
            if behaviour.get("real"):
                output = recording.continuation(prompt["input_ids"], job["max_new_tokens"])
            about = {"sample": prompt["sample"], "run": submission["run"], "prompt_id": prompt["id"]}
            recording.whole(f"{number}-{index}", prompt["input_ids"], output, [0] * (job["max_new_tokens"] - 1), **about)
    if behaviour.get("ends", True):
        recording.end(**behaviour.get("counters", {}))


def _real(behaviour: dict[str, Any]) -> type:
    """A recording whose states are those of the job's target, on what ``whole`` ran before and runs now."""
    import torch
    from recording import Recording, ints

    from eagle3_contract.engines.target import load_target

    class Real(Recording):
        def load(self, job: dict[str, Any]) -> None:
            self.target_model = load_target(job["target"], dtype="float32", device="cpu")

        def continuation(self, prompt: list[int], count: int) -> list[int]:
            return self.target_model.continuation(prompt, count)

        def target(self, request: str, phase: str, positions: Any, tokens: Any, rejected: Any = (), **more: object) -> None:
            if phase == "prefill":
                self.text = list(tokens)
            else:
                self.text[positions[0] :] = list(tokens)
            forward = self.target_model.forward(torch.tensor(self.text))
            rows = list(positions)
            states = {"final_norm" if s == "final_norm" else f"boundary.{s}": x[rows] for s, x in forward.states.items()}
            slots = {f"slot.{i}": states[f"boundary.{b}"] for i, b in enumerate(behaviour["feeds"])}
            tensors = {"input_ids": ints(tokens), "position_ids": ints(rows), **slots, **states}
            self.spool.event("target", tensors, request=request, phase=phase, **more)

        def drafter(self, *_: object, **__: object) -> None:
            return None

    return Real


def crash(job: dict[str, Any], behaviour: dict[str, Any], folder: Path) -> None:
    """As an engine that fails while it loads: noise, a traceback, more noise."""
    print("loading", flush=True)  # noqa: T201
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({HOUR_S})"])
    raise ValueError("No valid attention backend: head_dim 16")


def hang(job: dict[str, Any], behaviour: dict[str, Any], folder: Path) -> None:
    """With a child of its own, and both deaf to SIGTERM."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({HOUR_S})"]
    )
    (folder / "child").write_text(str(child.pid))
    time.sleep(HOUR_S)


def chatter(job: dict[str, Any], behaviour: dict[str, Any], folder: Path) -> None:
    """A log without end."""
    while True:
        print("x" * 1000, flush=True)  # noqa: T201


def silent(job: dict[str, Any], behaviour: dict[str, Any], folder: Path) -> None:
    """Ends well and leaves no spool."""
