"""The committed vectors: three implementations agree on them, every switch shows in them, and no package is needed to read them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from contract.errors import UserError
from contract.files.checkpoint import Checkpoint
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.names import canonical
from eagle3_contract.model.wiring import Rollout, Wiring
from tests.drafter.oracle import Oracle
from tools.conformance import page
from tools.conformance.make import from_seed, target_tensors
from tools.conformance.variants import PLAIN, VARIANTS, differs
from tools.conformance.words import config_json, wiring_from, wiring_json

CASES = Path(__file__).parents[2] / "specs" / "conformance"
STEPS = 3
TOLERANCE = 1e-5
BYTES = 1_500_000
NO_CASE = {
    "target_vocab_size": "the size of a table",
    "head_dim": "not hidden_size / heads in any case",
    "heads": "a size",
    "hidden_size": "a size",
    "intermediate_size": "a size",
    "token_shift": "every engine pairs g[t] with x[t+1]",
    "positions_start": "rotary attention depends on differences of positions",
}
"""Fields of a wiring without a case of their own, and why."""


def stated(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / name / "case.json").read_text())
    return found


def vectors(name: str) -> dict[str, Tensor]:
    return load_file(CASES / name / "vectors.safetensors")


def drafter(name: str, wiring: Wiring) -> Drafter:
    source = CheckpointSource(Checkpoint.open(CASES / name / "drafter"))
    return Drafter(wiring, source, target_source=MemorySource(load_file(CASES / "target.safetensors"), "target"))


def worst(got: Tensor, right: Tensor) -> float:
    """The largest error of a row, in units of the tolerance; infinite where another row is alive."""
    got, right = got.double().flatten(0, -2), right.double().flatten(0, -2)
    if not torch.equal(got.isnan(), right.isnan()):
        return float("inf")
    live = ~right.isnan().any(dim=1)
    bound = TOLERANCE * right[live].abs().amax(dim=1).clamp(min=1.0)
    return float(((got - right)[live].abs().amax(dim=1) / bound).max())


def steps_of(drafter: Drafter, held: dict[str, Tensor], rollout: Rollout = Rollout.TEACHER) -> list[Tensor]:
    return teacher_forced(drafter, held["input_ids"], held["hidden_states"], steps=STEPS, rollout=rollout).logits_steps


def test_index_lists_what_there_is() -> None:
    index = json.loads((CASES / "index.json").read_text())
    assert index["cases"] == list(VARIANTS)
    assert sorted(p.name for p in CASES.iterdir() if p.is_dir() and p.name != "__pycache__") == sorted(VARIANTS)
    assert index["tolerance"] == TOLERANCE
    files = [p for p in CASES.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert sum(p.stat().st_size for p in files) < BYTES


def test_every_field_has_a_case() -> None:
    shown = {f for name in VARIANTS for f in differs(name)}
    assert {f.name for f in fields(Wiring)} - shown == set(NO_CASE)


@pytest.mark.parametrize("name", VARIANTS)
def test_our_forward(name: str) -> None:
    held, wiring = vectors(name), wiring_from(stated(name)["wiring"])
    assert wiring == VARIANTS[name]
    made = drafter(name, wiring)
    for step, logits in enumerate(steps_of(made, held)):
        assert worst(logits, held[f"logits_step{step}"]) <= 1.0
    request, before = IncrementalDrafter(made), 0
    ids, states = held["input_ids"], held["hidden_states"]
    for i, rows in enumerate(held["rounds.committed"].tolist()):
        if before == 0:
            request.prefill(ids[: rows + 1], states[:rows])
        else:
            request.commit(ids[before + 1 : rows + 1], states[before:rows])
        before = rows
        drafted = request.draft(held["rounds.tokens"].shape[1])
        assert torch.equal(drafted.tokens, held["rounds.tokens"][i])
        assert torch.equal(drafted.draft_ids, held["rounds.draft_ids"][i])
        assert worst(drafted.logits, held["rounds.logits"][i]) <= 1.0


@pytest.mark.parametrize("name", VARIANTS)
def test_the_oracle(name: str) -> None:
    """One row, one head and one key at a time, in float64, from the files: shares nothing with the forward."""
    held, wiring = vectors(name), VARIANTS[name]
    tensors = {canonical(n): t for n, t in load_file(CASES / name / "drafter" / "model.safetensors").items()}
    target = load_file(CASES / "target.safetensors")
    found = Oracle(wiring, tensors, target).run(held["input_ids"], held["hidden_states"], STEPS)
    for step in range(STEPS):
        right = held[f"logits_step{step}"]
        got = torch.full_like(right, torch.nan, dtype=torch.float64)
        for (at, row), logits in found.logits.items():
            if at == step:
                got[row] = logits
        assert worst(got, right) <= 1.0
    drafts = held["rounds.tokens"].shape[1]
    own = Oracle(wiring, tensors, target)
    own.run(held["input_ids"], held["hidden_states"], drafts, Rollout.OWN_ARGMAX)
    for i, rows in enumerate(held["rounds.committed"].tolist()):
        got = torch.stack([own.logits[step, rows - 1] for step in range(drafts)])
        assert worst(got, held["rounds.logits"][i]) <= 1.0
        assert [own.propose(row) for row in got] == held["rounds.tokens"][i].tolist()


@pytest.mark.parametrize("name", [n for n in VARIANTS if n != "plain"])
def test_every_difference_shows(name: str) -> None:
    """With any one switch as in ``plain``, the files cannot be run or a row is off by far more than the tolerance."""
    held, wiring = vectors(name), VARIANTS[name]
    full = wiring.draft_vocab_size == wiring.target_vocab_size  # no map is then the identity, whatever it is called
    for field in (f for f in differs(name) if not (full and f == "vocab_map")):
        other = replace(wiring, **{field: getattr(PLAIN, field)})
        try:
            made = drafter(name, other)
            got = steps_of(made, held)
            request = IncrementalDrafter(made)
            rows = int(held["rounds.committed"][0])
            request.prefill(held["input_ids"][: rows + 1], held["hidden_states"][:rows])
            tokens = request.draft(held["rounds.tokens"].shape[1]).tokens
        except UserError:
            continue
        error = max(
            worst(logits, held[f"logits_step{s}"]) if logits.shape == held[f"logits_step{s}"].shape else 1e9 for s, logits in enumerate(got)
        )
        assert error > 100 or not torch.equal(tokens, held["rounds.tokens"][0]), field


@pytest.mark.parametrize("name", VARIANTS)
def test_made_again(name: str) -> None:
    """The tool makes what is committed: weights and inputs to the bit, logits within rounding of another torch."""
    case, held = from_seed(VARIANTS[name], stated(name)["seed"]), vectors(name)
    stored = {canonical(n): t for n, t in load_file(CASES / name / "drafter" / "model.safetensors").items()}
    assert stored.keys() == case.tensors.keys()
    assert all(torch.equal(stored[n], t) for n, t in case.tensors.items())
    assert held.keys() == case.inputs.keys() | case.expected.keys()
    for key, value in (case.inputs | case.expected).items():
        assert worst(value, held[key]) <= 1.0 if "logits" in key else torch.equal(value, held[key])
    assert json.loads((CASES / name / "drafter" / "config.json").read_text()) == config_json(VARIANTS[name])
    assert stated(name)["wiring"] == wiring_json(VARIANTS[name])


def test_target_made_again() -> None:
    held, made = load_file(CASES / "target.safetensors"), target_tensors()
    assert held.keys() == made.keys()
    assert all(torch.equal(held[n], t) for n, t in made.items())


def test_page_is_up_to_date() -> None:
    assert page.main(["--check"]) == 0


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("contract", "eagle3_contract", "transformers", "msgspec", "yaml", "click", "rich", "jsonschema"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import runpy
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[1] + "/example.py", run_name="__main__")
"""


def alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """``example.py`` where nothing of this project, and next to nothing else, can be imported."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", ALONE, str(folder)], capture_output=True, text=True, env=environment, cwd=folder)


def test_without_this_package(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    shutil.copytree(CASES, folder)
    done = alone(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(lines) == list(VARIANTS)
    ran = {name for name, said in lines.items() if said == "ok"}
    assert ran == {
        n
        for n in VARIANTS
        if set(differs(n)) <= {"states", "target_hidden_size", "norm_before_residual", "feedback", "kv_heads", "embedding"}
    }
    assert len(ran) >= 8
    # One weight, one last bit of the sixth digit: the engine's test fails, and says in which step and row.
    spoiled = load_file(folder / "plain" / "drafter" / "model.safetensors")
    spoiled["fc.weight"][0, 0] += 0.01
    save_file(spoiled, folder / "plain" / "drafter" / "model.safetensors")
    done = alone(folder)
    assert done.returncode == 1
    assert "plain: {'step 0': [0, " in done.stdout


def test_loader_is_short() -> None:
    assert len((CASES / "loader.py").read_text().splitlines()) <= 45
