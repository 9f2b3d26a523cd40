"""Tiny drafters in the places and spellings of real trainers, with a random target that really runs. Everything is written by the test."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from factory import pair, tiny
from torch import Tensor

from contract.findings import Check, Status
from contract.reporting import Report
from contract.requests import InitRequest
from contract.statement import Fact, fact
from eagle3_contract.engines.target import Target
from eagle3_contract.init.run import init
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import State
from eagle3_contract.model.wiring import Wiring
from eagle3_contract.trainers.sample_formats.neutral import write_sample
from tests.verify.scenario import LAYERS, VOCAB

LENGTHS = (40, 33, 27)


@dataclass(frozen=True)
class Ran:
    """What one ``init`` gave."""

    report: Report
    path: Path

    @property
    def contract(self) -> Contract:
        return load_contract(self.path).contract

    def fact(self, path: str) -> Fact:
        at: Any = self.contract
        for part in path.split("."):
            at = getattr(at, part)
        return fact(at)

    def value(self, path: str) -> Any:
        return self.fact(path).value

    def failed(self, rule: str | None = None) -> list[Check]:
        return [c for c in self.report.checks if c.status is Status.FAILED and (rule is None or c.rule == rule)]

    def open(self) -> set[str]:
        """The fields that are asked for."""
        return {str(c.where.key) for c in self.failed("init.open-question") if c.where is not None}

    def messages(self) -> str:
        return "\n".join(f"{c.status} {c.rule}: {c.message}" for c in self.report.checks if c.status is not Status.PASSED)


def run(drafter: Path, out: Path | None = None, **more: Any) -> Ran:
    """``contract init`` with everything allowed."""
    place = out or drafter.parent / f"{drafter.name}.yaml"
    settings = more.pop("settings", {})
    request = InitRequest(drafter=str(drafter), out=str(place), settings=settings, allow_pickle=more.pop("allow_pickle", True), **more)
    return Ran(init(request), place)


def drafter(
    folder: Path,
    *,
    wiring: Wiring | None = None,
    ids: Sequence[int] | None = None,
    layout: str = "nested",
    boundaries: Sequence[State] = (2, 4, 5),
    config: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    dialect: str = "midlayer",
) -> Path:
    """A drafter's folder without a contract. ``config`` and ``tensors`` change what is written; None removes."""
    made = pair(wiring or tiny(), boundaries=boundaries, ids=ids, layout=layout, target_layers=LAYERS, dtype="float32", dialect=dialect)
    made.config["dtype"] = made.config.pop("torch_dtype", "float32")
    for holder, changes in ((made.config, config or {}), (made.tensors, tensors or {})):
        for name, value in changes.items():
            if value is None:
                holder.pop(name, None)
            else:
                holder[name] = value  # type: ignore[assignment]  # the test gives what the holder takes
    made.write(folder)
    (folder / "contract.yaml").unlink()
    return folder


def tokens() -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    return [torch.randint(0, VOCAB, (n,), generator=generator) for n in LENGTHS]


def list_of_states(folder: Path, target: Target, states: Sequence[State]) -> Path:
    """speculators' early dumps: a list of states, of which the loader takes the last one for the target's."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, ids_T in enumerate(tokens()):
        seen = target.forward(ids_T).states
        mask_T = torch.ones(len(ids_T), dtype=torch.int64)
        mask_T[:4] = 0
        record: dict[str, Any] = {"input_ids": ids_T, "loss_mask": mask_T, "hidden_states": [seen[s].clone() for s in states]}
        torch.save(record, folder / f"data_{i}.pt")
    return folder


def fused(folder: Path, target: Target, states: Sequence[State], *, keys: tuple[str, str], last: State) -> Path:
    """SpecForge's and ModelOpt's dumps: the fc input in one tensor, the last state in another."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, ids_T in enumerate(tokens()):
        seen = target.forward(ids_T).states
        record = {
            "input_ids": ids_T, "loss_mask": torch.ones(len(ids_T), dtype=torch.int64),
            keys[0]: torch.cat([seen[s] for s in states], dim=-1), keys[1]: seen[last].clone(),
        }  # fmt: skip
        torch.save(record, folder / f"data_{i}.ckpt")
    return folder


def speculators_config(**more: Any) -> dict[str, Any]:
    """Keys that speculators writes, for ``drafter(layout="speculators")``."""
    return {"speculators_version": "0.9.0", "norm_before_residual": False} | more


def copy_peer(source: Path, folder: Path) -> Path:
    """A trainer's checkpoint without the references that lie beside it."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("reference*.safetensors", "ref*.safetensors", "*.md"))
    return folder


def edit_json(path: Path, **changes: Any) -> None:
    """Change a JSON file; None removes a key."""
    tree = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            tree.pop(key, None)
        else:
            tree[key] = value
    path.write_text(json.dumps(tree, indent=1))


def neutral(folder: Path, target: Target, states: Sequence[State], *, named: bool = True) -> Path:
    """Samples in the neutral format, which needs no child process to read."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, ids_T in enumerate(tokens()):
        seen = target.forward(ids_T).states
        mask_T = torch.ones(len(ids_T), dtype=torch.uint8)
        mask_T[:4] = 0
        write_sample(
            folder / f"s{i}.safetensors", input_ids_T=ids_T, states_THk=[seen[s] for s in states], loss_mask_T=mask_T,
            last_TG=seen["final_norm"], boundaries=tuple(states) if named else None, last="final_norm" if named else None,
        )  # fmt: skip
    return folder
