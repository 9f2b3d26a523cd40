"""A tiny target, a drafter of it with samples and contract, and captures that can be spoilt: what every test of `verify` starts from.

Weights are random, so figures mean nothing; states, shapes and paths are real. Legend: T tokens, G hidden size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from factory import pair, tiny, write_contract
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from contract.files.bundle import open_bundle
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from contract.files.torch_tensors import load_tensor
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.engines.target import Target, load_target
from eagle3_contract.engines.transformers import Prompt, Provenance, capture, file_digests
from eagle3_contract.model.states import Recipe
from eagle3_contract.model.wiring import Wiring
from eagle3_contract.trainers.sample_formats.neutral import write_sample
from eagle3_contract.verify.run import verify

LAYERS = 8
VOCAB = 96
LENGTHS = (21, 21, 27)
SAMPLES = tuple(f"s{i}.safetensors" for i in range(len(LENGTHS)))


def write_target(folder: Path) -> Path:
    """A random Llama of 8 layers, float32, whose boundaries are well apart."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, tie_word_embeddings=False, initializer_range=0.25,
    )  # fmt: skip
    LlamaForCausalLM(config).eval().save_pretrained(folder)
    return folder


@dataclass
class Scenario:
    """Files of one pair. ``contract`` is the tree that ``rewrite`` writes."""

    folder: Path
    target_dir: Path
    target: Target
    contract: dict[str, object] = field(default_factory=dict)

    @property
    def spec(self) -> Path:
        return self.folder / "contract.yaml"

    @property
    def samples(self) -> Path:
        return self.folder / "samples"

    def rewrite(self, change: Callable[[dict], None]) -> None:  # type: ignore[type-arg]
        """Change the contract's tree and write it again."""
        change(self.contract)
        write_contract(self.spec, self.contract)

    def capture(self, recipe: Recipe, name: str = "capture") -> Path:
        """What an engine that feeds ``recipe`` gives on the samples' tokens."""
        drafter = file_digests(self.folder)
        files = {n: d for n, d in drafter.items() if n in ("config.json", "model.safetensors")}
        from contract.files.bundle_manifest import ModelInfo

        prompts = [Prompt(f"r{i}", ids, sample) for i, (ids, sample) in enumerate(zip(token_rows(), SAMPLES, strict=True))]
        out = self.folder.parent / f"{self.folder.name}-{name}"
        info = ModelInfo(id=None, model_type="llama", files=files)
        return capture(self.target_dir, prompts, recipe, out, dtype="float32", provenance=Provenance(drafter=info))

    def verify(self, capture: Path | None = None, *, samples: Path | None = None, target: bool = True, **more: object) -> Report:
        """Run `verify` on these files."""
        return verify(
            VerifyRequest(
                spec=str(self.spec),
                samples=None if samples is None else str(samples),
                capture=None if capture is None else str(capture),
                target=str(self.target_dir) if target else None,
                **more,  # type: ignore[arg-type]
            )
        )


def token_rows() -> list[Tensor]:
    """Token ids of the samples; the first two have one length."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCAB, (n,), generator=generator) for n in LENGTHS]


def build(folder: Path, target_dir: Path, *, recipe: Recipe = (0, 3, 5), wiring: Wiring | None = None) -> Scenario:
    """Drafter, samples and contract for a recipe."""
    w = wiring or tiny()
    made = pair(w, boundaries=recipe, ids=None, layout="flat", target_layers=LAYERS, dtype="float32")
    made.contract["target"] |= {"dtype": "float32", "tokenizer_sha256": {"unknown": "no tokenizer"}}
    target = load_target(target_dir, dtype="float32")
    samples = folder / "samples"
    samples.mkdir(parents=True)
    manifest = {}
    for name, ids_T in zip(SAMPLES, token_rows(), strict=True):
        forward = target.forward(ids_T)
        mask_T = torch.ones(len(ids_T), dtype=torch.uint8)
        mask_T[:5] = 0
        write_sample(
            samples / name, input_ids_T=ids_T, states_THk=[forward.states[s] for s in recipe], loss_mask_T=mask_T,
            last_TG=forward.states["final_norm"], boundaries=recipe, last="final_norm",
        )  # fmt: skip
        manifest[name] = "sha256:" + hashlib.sha256((samples / name).read_bytes()).hexdigest()
    made.contract["training"]["samples"] = {"path": "samples", "count": len(manifest), "states": list(recipe), "manifest": manifest}
    made.contract["training"]["metrics"] = {"definition": "specforge.acc", "accuracy": {"unknown": "random weights"}}
    made.write(folder)
    return Scenario(folder, target_dir, target, made.contract)


def spoil(
    bundle: Path, out: Path, change: Callable[[str, dict[str, Tensor]], dict[str, Tensor]], requests: Sequence[str] | None = None
) -> Path:
    """Write a bundle again with the tensors of its requests changed; digests and manifest are right again."""
    found = open_bundle(bundle)
    m = found.manifest
    with BundleWriter(
        out, kind=m.kind, engine=m.engine, target=m.target, recipe_fed=m.recipe_fed, layers=m.layers, drafter=m.drafter, imitates=m.imitates
    ) as writer:
        for request in found.requests:
            if requests is not None and request.id not in requests:
                continue
            tensors = {name: load_tensor(ref) for name, ref in request.tensors.items()}
            writer.add(request.id, entries(change(request.id, tensors)), sample=request.sample)
    return out


def failed(report: Report) -> set[str]:
    """The rules that failed."""
    return {c.rule for c in report.checks if c.status == "failed"}


def dump(report: Report) -> str:
    """For a failing assertion."""
    return json.dumps([[c.rule, c.status, c.message] for c in report.checks if c.status != "passed"], indent=1)
