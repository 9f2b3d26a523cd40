"""Checkpoints that real trainers wrote, under contracts that say what those trainers did (tests/peers/data/README.md)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from factory import pair, tiny, write_contract

from contract.files.checkpoint import Checkpoint
from contract.findings import Status
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.open_drafter import torch_name
from eagle3_contract.check.run import check_spec
from eagle3_contract.model.names import canonical
from eagle3_contract.model.wiring import Feedback, NormBeforeFc, Owner, Rope

PEERS = Path(__file__).parents[1] / "peers" / "data"
TARGET = PEERS / "target_tiny" / "config.json"
SIZES = {
    "hidden_size": 64, "target_hidden_size": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate_size": 128,
    "draft_vocab_size": 128, "target_vocab_size": 512, "rope": Rope(theta=10000.0, table_length=256, rotary_dim=16),
}  # fmt: skip


@dataclass(frozen=True)
class Peer:
    """``faults``: the rules that must speak, because the trainer's own export contradicts its training."""

    folder: str
    architecture: str
    wiring: dict[str, Any] = field(default_factory=dict)
    faults: frozenset[str] = frozenset()
    engines: Sequence[str] = ()


SPECULATORS = {"norm_before_residual": True, "embedding": Owner.OWN}
OWN = {"embedding": Owner.OWN}
PEER_LIST = (
    Peer("speculators-0.9.0/eagle3_classic", "Eagle3DraftModel", SPECULATORS, engines=("vllm==0.32.0",)),
    Peer(
        "speculators-0.9.0/default_0.9.0",
        "Eagle3DraftModel",
        SPECULATORS | {"norms_before_fc": (NormBeforeFc.INPUT_NORM,), "feedback": Feedback.POST_NORM, "window": 2048},
    ),
    Peer("angelslim-0.5.0/ckpt_full", "Eagle3LlamaForCausalLM", OWN, engines=("vllm==0.32.0",)),
    Peer(
        "modelopt-0.47.0/export_offline",
        "LlamaForCausalLMEagle3",
        {"double_norm": True},
        # Its export writes YaRN into the config of a drafter trained with plain rope (modelopt hf_spec_export.py:213).
        faults=frozenset({"config.rope-type", "config.rope-scaling"}),
    ),
)


def contract_beside(peer: Peer, folder: Path) -> Path:
    """Copy the checkpoint and write its contract beside it."""
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(PEERS / peer.folder / name, folder / name)
    made = pair(tiny(**SIZES | peer.wiring))
    contract = made.contract
    contract["wiring"]["architecture"] = peer.architecture
    contract["target"]["hidden_size"] = 64
    for ref in Checkpoint.open(folder).tensors.values():
        name = canonical(ref.name)
        before = contract["tensors"].get(name, {})
        contract["tensors"][name] = {
            "shape": list(ref.shape),
            "dtype": torch_name(ref.dtype),
            "stored": True,
            "used": before.get("used", "own"),
            "content": "target_copy" if name == "embed_tokens.weight" else before.get("content", "independent"),
        }
    for name in [n for n in contract["tensors"] if n == "t2d" and "modelopt" in peer.folder]:
        del contract["tensors"][name]
    return write_contract(folder / "contract.yaml", contract)


@pytest.mark.parametrize("peer", PEER_LIST, ids=lambda p: p.folder)
def test_kept_but_for_what_the_export_got_wrong(peer: Peer, tmp_path: Path) -> None:
    report = check_spec(contract_beside(peer, tmp_path / "d"), integrity=Integrity.VALUES)
    failed = {c.rule: c.message for c in report.checks if c.status is Status.FAILED}
    unknown = [c.message for c in report.checks if c.status is Status.UNKNOWN and c.required]
    assert set(failed) == peer.faults, failed
    assert not unknown


@pytest.mark.parametrize("peer", [p for p in PEER_LIST if p.engines], ids=lambda p: p.folder)
def test_an_engine_that_serves_it_right(peer: Peer, tmp_path: Path) -> None:
    report = check_spec(contract_beside(peer, tmp_path / "d"), engines=peer.engines, target=TARGET)
    failed = {c.rule: c.message for c in report.checks if c.status is Status.FAILED and c.rule.startswith("reading.")}
    assert not failed, failed
    assert sum(c.rule == "reading.boundaries" for c in report.checks) == 2  # both runners


def test_speculators_default_on_sglang_is_refused(tmp_path: Path) -> None:
    report = check_spec(contract_beside(PEER_LIST[1], tmp_path / "d"), engines=["sglang==0.5.23"], target=TARGET)
    assert {"reading.outcome"} <= {c.rule for c in report.checks if c.status is Status.FAILED}


def test_official_checkpoint_is_a_pickle(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    for name in ("config.json", "pytorch_model.bin"):
        shutil.copy(PEERS / "eagle-official" / "ckpt" / name, folder / name)
    made = pair(tiny(**SIZES))
    made.contract["drafter"]["files"] = {"config.json": {"unknown": "made here"}, "pytorch_model.bin": {"unknown": "made here"}}
    report = check_spec(write_contract(folder / "contract.yaml", made.contract))
    assert int(report.exit_code) == 2
    assert "files.pickle-refused" in {c.rule for c in report.checks}
    allowed = check_spec(folder / "contract.yaml", allow_pickle=True)
    found = [c.message for c in allowed.checks if c.rule == "tensors.unexpected" and c.status is Status.FAILED]
    assert any("target_model." in m for m in found), found
    assert not [c for c in allowed.checks if c.rule == "drafter.kind" and c.status is Status.FAILED]
