"""Make tests/smollm2/assets from the folder in which the SmolLM2 drafters were trained.

    python -m tools.pack_smollm2 --lab FOLDER --target FOLDER [--out tests/smollm2/assets]

``--lab`` holds drafter-a, drafter-b, samples/s01.pt ... s05.pt and scripts/train.py, the trainer; ``--target`` is SmolLM2-135M as
tests/smollm2/target.py writes it. The golden rows are computed by the trainer's own ``Drafter.step`` (imported from --lab, float32) on the
unpacked weights; nothing of eagle3_contract takes part in them. Prints the digests that the contracts list, and what packing costs.

Legend: T tokens, R = T - 1 rows, K states, G hidden size, DV draft vocabulary.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from eagle3_contract.trainers.sample_formats.neutral import write_sample
from tests.smollm2.assets import ASSETS, DRAFTERS, STORED, pack, unpack, write_model

STEPS = 3
GOLDEN_TOKENS = 10
SAMPLES = ("s01", "s02")
SAMPLE_TOKENS = 128
TEXTS = ("s01", "s02", "s03", "s04", "s05")


def main() -> None:
    """Read the arguments and write the assets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=ASSETS)
    given = parser.parse_args()
    trainer = _trainer(given.lab / "scripts" / "train.py")
    embedding_VH = _embedding(given.target)
    records = {name: torch.load(given.lab / "samples" / f"{name}.pt", weights_only=True) for name in TEXTS}
    given.out.mkdir(parents=True, exist_ok=True)
    _texts(records, given.out / "texts.jsonl")
    _samples(records, given.out / "samples")
    for drafter, recipe in DRAFTERS.items():
        original = load_file(given.lab / f"drafter-{drafter}" / "model.safetensors")
        parts = pack(original)
        for old in given.out.glob(f"drafter-{drafter}.xz.*"):
            old.unlink()
        for number, part in enumerate(parts):
            (given.out / f"drafter-{drafter}.xz.{number}").write_bytes(part)
        config = given.out / f"drafter-{drafter}.config.json"
        shutil.copyfile(given.lab / f"drafter-{drafter}" / "config.json", config)
        config.chmod(0o644)
        packed = unpack(parts)
        picked = [STORED.index(b) for b in recipe]
        _golden(trainer, packed, records["s01"], picked, embedding_VH, given.out / f"golden-{drafter}.safetensors")
        with tempfile.TemporaryDirectory() as folder:
            write_model(packed, Path(folder) / "model.safetensors")
            print(f"drafter-{drafter}: {sum(map(len, parts))} bytes in {len(parts)} parts")
            print("  model.safetensors", _digest(Path(folder) / "model.safetensors"))
        print("  config.json", _digest(config))
        for label, tensors in (("original", original), ("packed", packed)):
            print(f"  top-1 per step, {label}:", _top1(trainer, tensors, list(records.values()), picked, embedding_VH))
    for file in sorted((given.out / "samples").iterdir()):
        print(f"samples/{file.name}", _digest(file))


def _trainer(file: Path) -> ModuleType:
    spec = spec_from_file_location("smollm2_train", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def _embedding(target: Path) -> Tensor:
    for file in sorted(target.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            if "model.embed_tokens.weight" in opened.keys():  # noqa: SIM118  (safe_open is no mapping)
                return opened.get_tensor("model.embed_tokens.weight")
    raise SystemExit(f"{target} holds no model.embed_tokens.weight")


def _texts(records: dict[str, Any], file: Path) -> None:
    lines = [
        json.dumps({"id": name, "input_ids": r["input_ids"].tolist(), "prompt_tokens": int((r["loss_mask"] == 0).sum())})
        for name, r in records.items()
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _samples(records: dict[str, Any], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in SAMPLES:
        record = records[name]
        write_sample(
            folder / f"{name}.safetensors",
            input_ids_T=record["input_ids"][:SAMPLE_TOKENS],
            states_THk=[state[:SAMPLE_TOKENS] for state in record["hidden_states"]],
            loss_mask_T=record["loss_mask"][:SAMPLE_TOKENS],
            last_TG=record["last_hidden_state"][:SAMPLE_TOKENS],
            boundaries=STORED,
            last="final_norm",
            target_argmax_T=record["target_argmax"][:SAMPLE_TOKENS],
        )


@torch.no_grad()
def _logits(trainer: ModuleType, tensors: dict[str, Tensor], ids_T: Tensor, states_TC: Tensor, embedding_VH: Tensor) -> list[Tensor]:
    """[T, DV] per step: the trainer's forward, teacher forced, in float32. Rows without a token to be fed are garbage."""
    drafter = trainer.Drafter()
    drafter.load_state_dict({name: t.float() if t.is_floating_point() else t for name, t in tensors.items()})
    hidden, cache, found = drafter.fc(states_TC.float()[None]), [], []
    for step in range(STEPS):
        fed = F.embedding(trainer.shift(ids_T[None], 1 + step), embedding_VH.float())
        hidden = drafter.step(fed, hidden, step, cache)
        found.append(drafter.lm_head(drafter.norm(hidden))[0])
    return found


def _golden(
    trainer: ModuleType, tensors: dict[str, Tensor], record: dict[str, Any], picked: Sequence[int], embedding_VH: Tensor, file: Path
) -> None:
    ids_T = record["input_ids"][:GOLDEN_TOKENS]
    states_TC = torch.cat([record["hidden_states"][i][:GOLDEN_TOKENS] for i in picked], dim=-1)
    rows = {"input_ids": ids_T, "hidden_states": states_TC, "embedding_ids": ids_T.unique()}
    rows["embedding_rows"] = embedding_VH[rows["embedding_ids"]]
    for step, logits_TD in enumerate(_logits(trainer, tensors, ids_T, states_TC, embedding_VH)):
        rows[f"logits_step{step}"] = logits_TD[:-1].clone()
        rows[f"logits_step{step}"][GOLDEN_TOKENS - 1 - step :] = float("nan")
    write_model(rows, file, {"format": "eagle3-contract-golden", "format_version": "1"})


def _top1(
    trainer: ModuleType, tensors: dict[str, Tensor], records: Sequence[dict[str, Any]], picked: Sequence[int], embedding_VH: Tensor
) -> list[float]:
    """Share of the answer's rows in which the drafter names the target's own argmax, per step."""
    right, rows = [0] * STEPS, [0] * STEPS
    for record in records:
        ids_T = record["input_ids"]
        states_TC = torch.cat([record["hidden_states"][i] for i in picked], dim=-1)
        first = int((record["loss_mask"] == 0).sum()) - 1
        for step, logits_TD in enumerate(_logits(trainer, tensors, ids_T, states_TC, embedding_VH)):
            best_T = logits_TD.argmax(-1)
            told_T = best_T + tensors["d2t"][best_T]
            at = torch.arange(first, len(ids_T) - 2 - step)
            right[step] += int((told_T[at] == record["target_argmax"][at + 1 + step]).sum())
            rows[step] += len(at)
    return [round(r / n, 4) for r, n in zip(right, rows, strict=True)]


def _digest(file: Path) -> str:
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
