"""Lays the finished pair out as it ships: `target/`, `drafter-a|b/` with `samples/`, `prompts.jsonl`, `training.json`, `NOTICE`.

Shapes: T tokens of one sample, K states of the recipe, H hidden size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import safetensors
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save

from tools.demo_pair import drafter as drafting
from tools.demo_pair import settings
from tools.demo_pair import target as targeting
from tools.demo_pair.evaluate import evaluate
from tools.demo_pair.generate import GREEDY_SHARE, record_states
from tools.demo_pair.settings import RECIPES, SCALES, SEEDS, Scale
from tools.demo_pair.target import be_deterministic, load

SAMPLE_FORMAT: Final = "eagle3-contract-sample"
SAMPLE_VERSION: Final = "1"
NOTICE: Final = """\
The models, the tokenizer, the prompts and the samples in this folder were made from text of
CPython {python}: docstrings of its standard library and the topics of its interactive help.

Copyright (c) 2001-2023 Python Software Foundation; All Rights Reserved
Licensed under the Python Software Foundation License Version 2,
https://docs.python.org/3/license.html#psf-license

Changes: the text was collected, shuffled and tokenized, language models were trained on it, and
the samples are beginnings of its documents, continued by such a model. Modules whose sources carry
other terms were left out; tools/demo_pair/corpus.py holds the rule. The trained weights are part of
eagle3-contract and come under its licence, Apache-2.0.
"""


def canonical(serialized: bytes) -> bytes:
    """A safetensors file with its metadata in sorted order: the library writes it in the order of a randomly seeded hash map."""
    length = int.from_bytes(serialized[:8], "little")
    header = json.loads(serialized[8 : 8 + length])
    header = {"__metadata__": dict(sorted(header.pop("__metadata__").items())), **header}
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + serialized[8 + length :]


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Indented JSON, keys in the given order."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def drafter_config(name: str) -> dict[str, Any]:
    """config.json as SpecForge's exporter writes it: flat Llama keys, sorted. Only A says which layers it was trained on."""
    values: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": settings.BOS_ID,
        "draft_vocab_size": settings.DRAFT_VOCAB_SIZE,
        "dtype": "bfloat16",
        "eos_token_id": settings.EOS_ID,
        "head_dim": settings.HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": settings.HIDDEN,
        "initializer_range": drafting.SPREAD,
        "intermediate_size": settings.INTERMEDIATE,
        "max_position_embeddings": settings.MAX_POSITIONS,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": settings.HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": settings.KV_HEADS,
        "pad_token_id": None,
        "pretraining_tp": 1,
        "rms_norm_eps": settings.RMS_EPS,
        "rope_parameters": {"rope_theta": settings.ROPE_THETA, "rope_type": "default"},
        "rope_theta": settings.ROPE_THETA,
        "tie_word_embeddings": False,
        "transformers_version": transformers.__version__,
        "use_cache": True,
        "vocab_size": settings.VOCAB_SIZE,
    }
    if name == "a":
        # SpecForge's numbering: id k is the output of layer k, that is boundary k + 1.
        layer_ids = [boundary - 1 for boundary in RECIPES[name]]
        values["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": layer_ids, "use_aux_hidden_state": True}
    return dict(sorted(values.items()))


def wiring(name: str) -> dict[str, Any]:
    """Every fact of the drafter's arithmetic, under the names of the contract file."""
    return {
        "architecture": "LlamaForCausalLMEagle3",
        "layers": 1,
        "hidden_size": settings.HIDDEN,
        "target_hidden_size": settings.HIDDEN,
        "intermediate_size": settings.INTERMEDIATE,
        "heads": settings.HEADS,
        "kv_heads": settings.KV_HEADS,
        "head_dim": settings.HEAD_DIM,
        "states": len(RECIPES[name]),
        "attention": "gqa",
        "mla": None,
        "norms_before_fc": [],
        "fc_applied": True,
        "fc_bias": False,
        "hidden_norm": True,
        "double_norm": False,
        "norm_before_residual": False,
        "later_layer_norm": "input_layernorm",
        "final_norm": True,
        "feedback": "pre_norm",
        "concat_order": "embedding_first",
        "rope": {
            "type": "default",
            "theta": settings.ROPE_THETA,
            "scaling": {},
            "table_length": settings.MAX_POSITIONS,
            "rotary_dim": settings.HEAD_DIM,
            "interleaved": False,
        },
        "window": None,
        "qk_norm": False,
        "qkv_bias": False,
        "o_bias": False,
        "mlp_bias": False,
        "rms_norm_eps": settings.RMS_EPS,
        "hidden_act": "silu",
        "attention_scale": None,
        "logit_scale": 1.0,
        "embedding": "target",
        "lm_head": "own",
        "vocab": {
            "draft_size": settings.DRAFT_VOCAB_SIZE,
            "target_size": settings.VOCAB_SIZE,
            "target_padded_size": settings.VOCAB_SIZE,
            "present": True,
            "map": "offset",
        },
        "alignment": {"token_shift": 1, "positions_start": 0, "step_positions": "advance"},
    }


def samples_of(out: Path, ids_BT: torch.Tensor, name: str) -> list[bytes]:
    """The sample files of one drafter: ids, loss mask, the recipe's states and boundary LAYERS, in the target's own bfloat16."""
    recipe = RECIPES[name]
    states_BTKH, _ = record_states(load(out / "target"), ids_BT, [*recipe, settings.LAYERS])
    mask_T = (torch.arange(ids_BT.shape[1]) >= settings.PROMPT_TOKENS).to(torch.uint8)
    metadata = {
        "format": SAMPLE_FORMAT,
        "format_version": SAMPLE_VERSION,
        "boundaries": json.dumps(recipe),
        "last": f"boundary {settings.LAYERS}",
        "dtype": "bfloat16",
    }
    files = []
    for ids_T, states_TKH in zip(ids_BT, states_BTKH, strict=True):
        tensors = {
            "input_ids": ids_T.clone(),
            "loss_mask": mask_T,
            "states": states_TKH[:, : len(recipe)].contiguous(),
            "last_hidden_state": states_TKH[:, len(recipe)].contiguous(),
        }
        files.append(canonical(save(tensors, metadata)))
    return files


def digests(data: Path) -> dict[str, str]:
    """sha256 of every file of the folder but training.json, which holds them, and what contract.py makes from it."""
    files = sorted(
        path for path in data.rglob("*") if path.is_file() and path.name not in ("training.json", "contract.yaml", "golden.safetensors")
    )
    return {path.relative_to(data).as_posix(): f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files}


def training_record(out: Path, data: Path, scale: Scale, ids_BT: torch.Tensor) -> dict[str, Any]:
    """All that is known of the run, read from the steps' own records and the settings."""
    read = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*.json"))}
    report = evaluate(data, ids_BT)
    shipped = evaluate(data, ids_BT[: settings.SHIPPED_SAMPLES])
    record: dict[str, Any] = {
        "made_by": "python -m tools.demo_pair",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "safetensors": safetensors.__version__,
        },
        "scale": asdict(scale),
        "seeds": SEEDS,
        "corpus": read["corpus"]["corpus"],
        "target": {"layers": settings.LAYERS, "dtype": "bfloat16", "optimizer_steps": scale.target_steps, **read["target"]},
        "generated": {**read["generate"], "greedy_share_of_training": 1 / GREEDY_SHARE},
        "held_out": {key: value for key, value in report.items() if key != "drafters"},
        "drafters": {},
    }
    for name, recipe in RECIPES.items():
        right = report["drafters"][name]["cases"][0]
        record["drafters"][name] = {
            "boundaries": list(recipe),
            "point": "residual",
            "wiring": wiring(name),
            "training": {
                "seed": SEEDS[name],
                "optimizer_steps": scale.drafter_steps,
                "sequences_per_step": scale.drafter_batch,
                "sequence_tokens": settings.SEQUENCE,
                "peak_learning_rate": scale.drafter_lr,
                "matrix_weight_decay": drafting.MATRIX_DECAY,
                "warmup_steps": targeting.WARMUP_STEPS,
                "autocast": "bfloat16",
                "rollout": "teacher",
                "ttt_steps": settings.TTT_STEPS,
                "step_decay": settings.STEP_DECAY,
                "target_state": {"boundary": settings.LAYERS, "normed": False, "norm_applied_by_trainer": True},
                "loss_mask_rule": "mask_of_state",
                "packed": False,
                "start": "last layer, final norm and head rows of the target; fc and the embedding's half of q, k, v random",
                "log": read[f"drafter-{name}"]["log"],
            },
            "metrics": {
                "definition": report["definition"],
                "accuracy": right["top1"],
                "rows": right["rows"],
                "continuations": report["continuations"],
                "tau": {"drafts": settings.TTT_STEPS, "rounds": right["rounds"], "tokens_per_round": right["tau"]},
                "on_shipped_samples": {
                    "accuracy": shipped["drafters"][name]["cases"][0]["top1"],
                    "rows": shipped["drafters"][name]["cases"][0]["rows"],
                    "tokens_per_round": shipped["drafters"][name]["cases"][0]["tau"],
                },
            },
            **report["drafters"][name],
        }
    record["files"] = digests(data)
    return record


def package(out: Path, data: Path, scale: Scale) -> None:
    """Reads what the other steps left in `out`, writes `data` anew."""
    be_deterministic(0)
    for folder in ("target", "drafter-a", "drafter-b", "drafter-a/samples", "drafter-b/samples"):
        shutil.rmtree(data / folder, ignore_errors=True)
        (data / folder).mkdir(parents=True)
    for source in [*sorted((out / "target").iterdir()), *sorted((out / "tokenizer").iterdir())]:
        shutil.copyfile(source, data / "target" / source.name)
    ids_BT = load_file(out / "heldout.safetensors")["input_ids"].long()
    shipped_BT = ids_BT[: settings.SHIPPED_SAMPLES]
    for name in RECIPES:
        shutil.copyfile(out / f"drafter-{name}" / "model.safetensors", data / f"drafter-{name}" / "model.safetensors")
        write_json(data / f"drafter-{name}" / "config.json", drafter_config(name))
        for index, content in enumerate(samples_of(out, shipped_BT, name)):
            (data / f"drafter-{name}" / "samples" / f"sample-{index:02d}.safetensors").write_bytes(content)
    tokenizer = tokenizers.Tokenizer.from_file(str(data / "target" / "tokenizer.json"))
    prompts = [ids[: settings.PROMPT_TOKENS] for ids in shipped_BT.tolist()]
    lines = [
        json.dumps({"id": f"prompt-{index:02d}", "input_ids": ids, "text": tokenizer.decode(ids)}, ensure_ascii=False)
        for index, ids in enumerate(prompts)
    ]
    (data / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (data / "NOTICE").write_text(NOTICE.format(python=platform.python_version()), encoding="utf-8")
    write_json(data / "training.json", training_record(out, data, scale, ids_BT))


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="where to put the pair; DIR/data if not given")
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    arguments = parser.parse_args()
    package(arguments.out, arguments.data or arguments.out / "data", SCALES[arguments.scale])


if __name__ == "__main__":
    main()
