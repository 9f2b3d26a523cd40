"""Writes `contract.yaml` and `golden/golden.safetensors` beside each drafter, from what the run recorded about itself (`training.json`).

The golden rows are the training script's own forward in float32, not the verifier's: they prove the wiring.

Shapes: T tokens, K states, H hidden size, W draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from safetensors.torch import load_file

from contract.files.checkpoint import Checkpoint
from eagle3_contract.model.fingerprint import fingerprint
from eagle3_contract.verify.golden import write_golden
from tools.demo_pair import settings
from tools.demo_pair.drafter import read_drafter
from tools.demo_pair.settings import RECIPES
from tools.demo_pair.target import be_deterministic, load

GOLDEN: Final = "golden/golden.safetensors"
"""Apart from the weights: engines load every safetensors file beside them."""
GOLDEN_TOKENS: Final = 48
FLOOR: Final = 1.4
"""Tokens a round below which the demo's drafters would not be worth serving; they reach about 1.6."""
HEADER: Final = """\
# yaml-language-server: $schema=contract.schema.json
# What training did for the demo drafter {upper}, trained on {recipe}. Written by tools/demo_pair/contract.py from training.json.
"""


def digest(path: Path) -> str:
    """`sha256:...` of a file."""
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@torch.no_grad()
def golden(data: Path, name: str) -> None:
    """Runs the training script's own drafter over the beginning of the first sample, three steps, in float32."""
    folder = data / f"drafter-{name}"
    sample = load_file(folder / "samples" / "sample-00.safetensors")
    ids_T = sample["input_ids"][:GOLDEN_TOKENS]
    states_TC = sample["states"][:GOLDEN_TOKENS].flatten(1).float()
    embedding_VH = load(data / "target").model.embed_tokens.weight.detach().float()
    drafter = read_drafter(folder / "model.safetensors")
    logits_TW = [drafter.logits(h_BTH)[0] for h_BTH in drafter.rollout(ids_T[None], states_TC[None], embedding_VH)]
    for step, rows_TW in enumerate(logits_TW):
        rows_TW[GOLDEN_TOKENS - 1 - step :] = float("nan")  # no token is left to be fed
    used_L = torch.unique(ids_T)
    (folder / GOLDEN).parent.mkdir(exist_ok=True)
    write_golden(
        folder / GOLDEN,
        input_ids_T=ids_T,
        hidden_states_TC=states_TC,
        logits_steps=[rows_TW[:-1] for rows_TW in logits_TW],
        embedding_ids_L=used_L,
        embedding_rows_LH=embedding_VH[used_L],
    )


def tensors(folder: Path) -> dict[str, Any]:
    """Every tensor of the drafter by its canonical name, and the embedding that is the target's."""
    stored = Checkpoint.open(folder).tensors
    names = {"BF16": "bfloat16", "I64": "int64", "BOOL": "bool"}
    listed: dict[str, Any] = {
        "embed_tokens.weight": {
            "shape": [settings.VOCAB_SIZE, settings.HIDDEN],
            "dtype": "bfloat16",
            "stored": False,
            "used": "target",
            "content": "target_copy",
        }
    }
    for name, ref in sorted(stored.items()):
        is_map = name in ("d2t", "t2d")
        listed[name.replace("midlayer.", "layers.0.")] = {
            "shape": list(ref.shape),
            "dtype": names[ref.dtype],
            "stored": True,
            "used": "not_used" if name == "t2d" else "own",
            "content": "map" if is_map else "independent",
        }
    return listed


def contract(data: Path, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """The contract's tree."""
    folder = data / f"drafter-{name}"
    of = record["drafters"][name]
    wiring = {key: value for key, value in of["wiring"].items() if key not in ("vocab", "alignment", "states", "target_hidden_size")}
    wiring |= {"later_layer_norm": "none", "window_follows_steps": True}
    samples = sorted((folder / "samples").iterdir())
    how = of["training"]
    return {
        "schema_version": 1,
        "kind": "eagle3",
        "drafter": {"path": ".", "files": {file: digest(folder / file) for file in ("config.json", "model.safetensors")}},
        "target": {
            "id": "eagle3-contract/demo-target",
            "revision": {"unknown": "it is published with this package only; the fingerprint identifies it"},
            "model_type": "llama",
            "layers": settings.LAYERS,
            "hidden_size": settings.HIDDEN,
            "dtype": "bfloat16",
            "quantization": "none",
            "tokenizer_sha256": digest(data / "target" / "tokenizer.json"),
            "fingerprint": fingerprint(Checkpoint.open(data / "target").tensors),
        },
        "hidden_states": {"boundaries": list(RECIPES[name]), "point": "residual"},
        "vocab": of["wiring"]["vocab"],
        "wiring": wiring,
        "alignment": of["wiring"]["alignment"],
        "tensors": tensors(folder),
        "training": {
            "trainer": "tools.demo_pair",
            "version": "1",
            "commit": {"unknown": "it lives in this repository; training.json names versions, seeds and digests"},
            "rollout": how["rollout"],
            "max_length": how["sequence_tokens"],
            "target_state": how["target_state"],
            "data": {
                "chat_template_sha256": {"unknown": "plain text, no template"},
                "thinking": "none",
                "modality": "text",
                "packed": how["packed"],
                "loss_mask_rule": how["loss_mask_rule"],
            },
            "samples": {
                "path": "samples",
                "count": len(samples),
                "states": list(RECIPES[name]),
                "manifest": {path.name: digest(path) for path in samples},
            },
            "metrics": {"definition": of["metrics"]["definition"], "accuracy": of["metrics"]["accuracy"]},
        },
        "golden": {"file": GOLDEN, "produced_by": "trainer", "sha256": digest(folder / GOLDEN)},
        "serving": {"steps": settings.TTT_STEPS, "topk": 1, "draft_tokens": settings.TTT_STEPS + 1},
        "acceptance": {
            "aggregation": "pooled",
            "counts_bonus": True,
            "counts_prefill": False,
            "k": settings.TTT_STEPS,
            "temperature": 0.0,
            "floor": FLOOR,
            "baselines": [],
        },
        "tolerances": {"states": None, "logits": None},
    }


def write_contracts(data: Path) -> None:
    """Golden rows first: the contract states their digest."""
    be_deterministic(0)
    record = json.loads((data / "training.json").read_text(encoding="utf-8"))
    for name, recipe in RECIPES.items():
        golden(data, name)
        tree = contract(data, name, record)
        text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
        head = HEADER.format(upper=name.upper(), recipe=list(recipe))
        (data / f"drafter-{name}" / "contract.yaml").write_text(head + text, encoding="utf-8")


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    write_contracts(parser.parse_args().data)


if __name__ == "__main__":
    main()
