"""Contracts over the checkpoints of real trainers, with the trainer's own logits as golden rows: kept as they are, and exit 1 with any
wiring switch of the contract flipped that acts on the reference."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import AS_THEY_ARE, Pair, pair, write_contract
from peers.references import REFERENCES, Reference, target_source
from peers.switches import SWITCHES
from peers.test_references import CANNOT_ACT
from safetensors.torch import save_file

from contract.findings import ExitCode, Status
from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.drafter.names import canonical_name
from eagle3_contract.model.wiring import LaterLayerNorm, Owner, Rope, Wiring
from eagle3_contract.verify.golden import write_golden
from eagle3_contract.verify.run import verify
from verify.scenario import dump, failed

DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16", torch.int64: "int64", torch.bool: "bool"}
NOT_IN_A_CONTRACT = {"lm_head"}
"""The head's owner needs the target's tensors, which golden rows do not hold."""


@cache
def reference_of(name: str) -> Reference:
    return REFERENCES[name]()


def stated(wiring: Wiring) -> Wiring:
    """The wiring as a contract states it: nothing left to a default."""
    rope = wiring.rope
    full = Rope(
        type=rope.type, theta=rope.theta, scaling=rope.scaling, table_length=rope.table_length or 2048,
        rotary_dim=rope.rotary_dim or wiring.head_dim, interleaved=rope.interleaved,
    )  # fmt: skip
    return replace(wiring, rope=full)


def write(reference: Reference, folder: Path) -> Pair:
    """The reference's checkpoint, its contract, and its logits as golden rows."""
    made = pair(stated(reference.wiring), boundaries=(2, 4, 5), ids=None, layout="flat", target_layers=8)
    tensors = {n: t.contiguous() for n, t in reference.tensors.items() if canonical_name(n) is not None}
    floats = {DTYPES[t.dtype] for t in tensors.values() if t.is_floating_point()}
    (made.config["torch_dtype"],) = floats
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(made.config))
    save_file(tensors, folder / "model.safetensors")
    listed = made.contract["tensors"]
    borrowed = {n: t for n, t in listed.items() if not t["stored"]}
    listed.clear()
    listed.update(borrowed)
    unused = {"t2d"} | (set() if reference.wiring.final_norm else {"norm.weight"})
    for name, tensor in tensors.items():
        is_map = name in ("d2t", "t2d")
        listed[str(canonical_name(name))] = {
            "shape": list(tensor.shape), "dtype": DTYPES[tensor.dtype], "stored": True,
            "used": "not_used" if name in unused else "own", "content": "map" if is_map else "independent",
        }  # fmt: skip
    ids_T = reference.input_ids.long()
    own = reference.wiring.embedding is Owner.OWN
    used_L = ids_T.unique()
    rows_LH = None if own else target_source().rows("model.embed_tokens.weight", used_L)
    write_golden(
        folder / "golden.safetensors", input_ids_T=ids_T, hidden_states_TC=reference.hidden_states.contiguous(),
        logits_steps=reference.expected_steps,
        position_ids_T=None if reference.position_ids is None else reference.position_ids.long(),
        document_ids_T=None if reference.document_ids is None else reference.document_ids.long(),
        embedding_ids_L=None if own else used_L, embedding_rows_LH=rows_LH,
    )  # fmt: skip
    digests = {f: "sha256:" + hashlib.sha256((folder / f).read_bytes()).hexdigest() for f in ("config.json", "model.safetensors")}
    made.contract["drafter"]["files"] = digests
    made.contract["golden"] = {"file": "golden.safetensors", "produced_by": "trainer"}
    write_contract(folder / "contract.yaml", made.contract)
    return made


def run(folder: Path) -> Report:
    return verify(VerifyRequest(spec=str(folder / "contract.yaml")))


def restate(contract: dict[str, Any], wiring: Wiring, rollout: str) -> None:
    """Write another wiring into a contract's tree."""
    w = stated(wiring)
    fields = contract["wiring"]
    fields.update({name: getattr(w, name) for name in AS_THEY_ARE})
    fields.update({name: getattr(w, name).value for name in ("attention", "feedback", "concat_order", "embedding", "lm_head")})
    fields["norms_before_fc"] = [n.value for n in w.norms_before_fc]
    fields["later_layer_norm"] = LaterLayerNorm.NONE.value
    fields["rope"].update(
        type=w.rope.type, theta=w.rope.theta, rotary_dim=w.rope.rotary_dim, interleaved=w.rope.interleaved,
        scaling={k: list(v) if isinstance(v, tuple) else v for k, v in w.rope.scaling.items()},
    )  # fmt: skip
    contract["alignment"].update(token_shift=w.token_shift, step_positions=w.step_positions.value)
    contract["training"]["rollout"] = rollout


@pytest.mark.parametrize("name", REFERENCES)
def test_contract_of_a_real_checkpoint_keeps_its_golden_rows(name: str, tmp_path: Path) -> None:
    write(reference_of(name), tmp_path / "drafter")
    report = run(tmp_path / "drafter")
    golden = [c.status for c in report.checks if c.rule == "golden.logits"]
    assert golden
    assert set(golden) == {Status.PASSED}, dump(report)
    assert report.exit_code is ExitCode.KEPT, dump(report)


@pytest.mark.parametrize(
    ("name", "switch"),
    [(n, s) for n in REFERENCES for s in SWITCHES if s not in CANNOT_ACT.get(n, set()) and s not in NOT_IN_A_CONTRACT],
)
def test_flipped_switch_in_the_contract_is_a_violation(name: str, switch: str, tmp_path: Path) -> None:
    reference = reference_of(name)
    made = write(reference, tmp_path / "drafter")
    way = SWITCHES[switch]
    restate(made.contract, way.flip(reference.wiring), way.rollout.value)
    write_contract(tmp_path / "drafter" / "contract.yaml", made.contract)
    report = run(tmp_path / "drafter")
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    if switch == "feedback":
        steps = {c.where.step: c.status for c in report.checks if c.rule == "golden.logits" and c.where is not None}
        assert (steps[0], steps[1]) == (Status.PASSED, Status.FAILED)
        assert "golden.logits" in failed(report)
