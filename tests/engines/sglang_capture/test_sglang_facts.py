"""What a running SGLang says about itself."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_toys import CAPTURED, LAYERS, Drafter, Target, live_worker
from torch import nn

from eagle3_contract.engines.gate_facts import LiveFacts
from eagle3_contract.engines.sglang import gate_facts
from eagle3_contract.engines.sglang.facts import flags_set, layer_ids, parameters, sharing, tensor_rank


class Fused(nn.Linear):
    def __init__(self, rows: int, **more: Any) -> None:
        super().__init__(2, rows)
        for name, value in more.items():
            setattr(self, name, value)


def test_fused_parameters_are_taken_apart() -> None:
    layer = nn.Module()
    layer.self_attn, layer.mlp = nn.Module(), nn.Module()
    layer.self_attn.qkv_proj = Fused(8, total_num_heads=2, total_num_kv_heads=1, head_size=2)
    layer.self_attn.fused_qkv_a_proj_with_mqa = Fused(6)
    layer.self_attn.q_lora_rank, layer.self_attn.kv_lora_rank, layer.self_attn.qk_rope_head_dim = 3, 2, 1
    layer.mlp.gate_up_proj = Fused(6, output_sizes=[3, 3])
    layer.norm = nn.Linear(1, 1, bias=False)
    found = parameters(layer)
    rows = {
        "self_attn.q_proj": 4, "self_attn.k_proj": 2, "self_attn.v_proj": 2, "self_attn.q_a_proj": 3, "self_attn.kv_a_proj_with_mqa": 3,
        "mlp.gate_proj": 3, "mlp.up_proj": 3,
    }  # fmt: skip
    assert {n: len(p) for n, p in found.items() if n.endswith(".weight") and n != "norm.weight"} == {
        f"{n}.weight": r for n, r in rows.items()
    }
    assert {n for n in found if n.endswith(".bias")} == {f"{n}.bias" for n in rows}
    whole = torch.cat([found[f"self_attn.{n}_proj.weight"] for n in "qkv"])
    assert torch.equal(whole, layer.self_attn.qkv_proj.weight)
    assert found["norm.weight"].requires_grad is False


def test_ids_are_those_that_the_live_target_holds() -> None:
    target = Target()
    assert layer_ids(target) == CAPTURED
    target.model.layers_to_capture = []
    assert layer_ids(target) is None


@pytest.mark.parametrize(
    ("embedding", "head", "wanted"),
    [
        ("own", "own", {"embedding": "own", "lm_head": "own"}),
        ("target", "own", {"embedding": "target", "lm_head": "own"}),
        ("target", "target", {"embedding": "target", "lm_head": "target"}),
        ("target", "tied", {"embedding": "target", "lm_head": "tied_to_target"}),
        ("own", "tied", {"embedding": "own", "lm_head": "tied_to_own"}),
    ],
)
def test_whose_tables_are_used(embedding: str, head: str, wanted: dict[str, str]) -> None:
    target, drafter = Target(), Drafter()
    if embedding == "target":
        drafter.model.embed_tokens.weight = target.model.embed_tokens.weight
    if head == "target":
        drafter.lm_head.weight = target.lm_head.weight
    if head == "tied":
        drafter.lm_head = drafter.model.embed_tokens
    assert sharing(live_worker(target, drafter)) == wanted


def test_a_multimodal_target_keeps_its_tables_in_its_language_model() -> None:
    whole, drafter = nn.Module(), Drafter()
    whole.language_model = Target()
    drafter.model.embed_tokens.weight = whole.language_model.model.embed_tokens.weight
    assert sharing(live_worker(whole, drafter)) == {"embedding": "target", "lm_head": "own"}


def test_the_gate_gets_what_is_really_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_facts, "installed_version", lambda: "0.5.23")
    monkeypatch.setattr(gate_facts, "tensor_rank", lambda: 2)
    target, drafter = Target(), Drafter()
    drafter.model.embed_tokens.weight = target.model.embed_tokens.weight
    seen: list[Any] = []
    monkeypatch.setattr("eagle3_contract.engines.gate.at_start", lambda facts, mode: seen.append((facts, mode)))
    worker = live_worker(target, drafter, hot_token_id=torch.arange(12))
    gate_facts.check_at_start(worker, "warn")
    ((facts, mode),) = seen
    assert isinstance(facts, LiveFacts)
    assert mode == "warn"
    assert (facts.reference, facts.drafter, facts.target, facts.layers) == ("sglang==0.5.23", "/drafter", "/target", LAYERS)
    assert (facts.layer_ids, facts.shared) == (tuple(CAPTURED), {"embedding": "target", "lm_head": "own"})
    assert set(facts.parameters) == {"model.fc.weight", "lm_head.weight"}, "not the embedding, which is the target's"
    assert facts.target_ids is not None
    assert (facts.tp, facts.rank) == (1, 2)
    assert facts.flags == flags_set(worker.server_args)
    target.model.layers_to_capture = []
    assert gate_facts.live_facts(worker)["layer_ids"] == ()


def test_the_rank_is_the_engines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ModuleType("runtime_context")
    context.get_parallel = lambda: SimpleNamespace(tp_rank=3)
    for name in ("sglang", "sglang.srt"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", context)
    monkeypatch.setattr(sys.modules["sglang"], "srt", sys.modules["sglang.srt"], raising=False)
    monkeypatch.setattr(sys.modules["sglang.srt"], "runtime_context", context, raising=False)
    assert tensor_rank() == 3
