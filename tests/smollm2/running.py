"""What the tests do with the pair: run the command line, capture a recipe with hooks, verify a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contract.cli.main import main
from contract.files.bundle_manifest import ModelInfo
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.engines.target import Target
from eagle3_contract.engines.transformers import Prompt, Provenance, capture_from, file_digests
from eagle3_contract.model.states import Recipe
from eagle3_contract.trainers.samples import find_samples, load_sample
from eagle3_contract.verify.run import verify


def contract_line(*line: str | Path, out: Path) -> tuple[int, Any]:
    """Run ``contract LINE`` with a JSON report in ``out``: the exit code and the report."""
    code = main([str(word) for word in line] + ["--device", "cpu", "--format", f"json={out}"])
    return code, json.loads(out.read_text(encoding="utf-8"))


def captured(target: Target, contract: Path, recipe: Recipe, out: Path) -> Path:
    """The bundle of an engine that feeds ``recipe`` on the committed samples."""
    samples = [load_sample(file, allow_pickle=False) for file in find_samples(contract.parent / "samples")]
    files = {n: d for n, d in file_digests(contract.parent).items() if n in ("config.json", "model.safetensors")}
    prompts = [Prompt(s.name.removesuffix(".safetensors"), s.input_ids_T, s.name) for s in samples]
    more = Provenance(drafter=ModelInfo(id=None, model_type=None, files=files))
    return capture_from(target, prompts, recipe, out, model=ModelInfo(id=None, model_type="llama", files={}), provenance=more)


def verified(contract: Path, target_dir: Path, bundle: Path | None = None) -> Report:
    """`contract verify` on the committed samples."""
    capture = None if bundle is None else str(bundle)
    return verify(VerifyRequest(spec=str(contract), capture=capture, target=str(target_dir), device="cpu"))
