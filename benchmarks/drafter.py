"""Speed item 3: a drafter of Kimi-K2.5's size over 64 tokens and three steps, against the bare matrix products and against speculators.

Synthetic bfloat16 weights in a file, embedding table included (sparse, only the rows of the 64 tokens are written). The peer is the
Eagle3DraftModel of the speculators package on the same weights (``pip install -r benchmarks/requirements.txt``); without the package its
bound is reported as not measured. Peak memory is that of a process of its own, which also imported torch.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measure import Outcome, child_json, interleaved, main, paired, record
from torch import Tensor

from contract.files.checkpoint import Checkpoint
from contract.files.writing import encode_header
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import draft_steps
from eagle3_contract.drafter.names import D2T, EMBEDDING
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.wiring import Owner, Rope, Wiring

STEPS = 3
PEAK = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import drafter
wiring = drafter.wiring(sys.argv[3])
drafter.torch.set_num_threads(1)
ids, states = drafter.inputs(wiring)
drafter.ours(drafter.load(wiring, sys.argv[2]), ids, states)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


def wiring(scale: str) -> Wiring:
    """Kimi-K2.5's sizes with a plain Llama layer, which both programs have."""
    if scale == "tiny":
        sizes = {"hidden_size": 64, "intermediate_size": 128, "heads": 4, "draft_vocab_size": 96, "target_vocab_size": 256}
    else:
        sizes = {"hidden_size": 7168, "intermediate_size": 18432, "heads": 56, "draft_vocab_size": 32000, "target_vocab_size": 163840}
    width = sizes["hidden_size"]
    return Wiring(
        **sizes,
        target_hidden_size=width,
        states=3,
        layers=1,
        kv_heads=4 if scale == "tiny" else 8,
        head_dim=width // sizes["heads"],
        rms_norm_eps=1e-5,
        hidden_act="silu",
        rope=Rope(theta=50000.0),
        embedding=Owner.OWN,
        positions_start=1,
    )


def inputs(w: Wiring) -> tuple[Tensor, Tensor]:
    """64 tokens and their states."""
    torch.manual_seed(1)
    return torch.randint(0, w.target_vocab_size, (64,)), torch.randn(64, w.states * w.target_hidden_size).bfloat16()


def write(folder: Path, w: Wiring) -> int:
    """Write the drafter; bytes of its weights without the embedding."""
    shapes = tensor_shapes(w)
    described: dict[str, tuple[str, tuple[int, ...]]] = {name: ("BF16", shape) for name, shape in shapes.items()}
    described[D2T] = ("I64", (w.draft_vocab_size,))
    header, size = encode_header(described)
    torch.manual_seed(0)
    at, kept = len(header), 0
    with open(folder / "model.safetensors", "wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
        for name, (_, shape) in described.items():
            count = 1
            for dim in shape:
                count *= dim
            if name == EMBEDDING:
                for token in set(inputs(w)[0].tolist()):
                    row = torch.randn(shape[1]).bfloat16().view(torch.int16).numpy().tobytes()
                    os.pwrite(file.fileno(), row, at + token * shape[1] * 2)
                at += 2 * count
                continue
            if name == D2T:
                data = torch.zeros(shape, dtype=torch.int64).numpy().tobytes()
            elif len(shape) == 1:
                data = (0.5 + torch.rand(shape)).bfloat16().view(torch.int16).numpy().tobytes()
            else:
                # One block of random numbers over and over: 900 million of them would take longer than the benchmark.
                block = (torch.randn(1 << 20) / shape[-1] ** 0.5).bfloat16().repeat(count // (1 << 20) + 1)[:count]
                data = block.view(torch.int16).numpy().tobytes()
            os.pwrite(file.fileno(), data, at)
            at += len(data)
            kept += len(data)
    return kept


def load(w: Wiring, folder: str | Path) -> Drafter:
    """The drafter in bfloat16; of the embedding nothing is read yet."""
    return Drafter(w, CheckpointSource(Checkpoint.open(folder)), dtype=torch.bfloat16)


def ours(drafter: Drafter, ids_T: Tensor, states_TC: Tensor) -> list[Tensor]:
    """Argmax of each step, as the peer reports it."""
    return [step.logits.argmax(dim=-1) for step in draft_steps(drafter, ids_T, states_TC, steps=STEPS)]


def products(drafter: Drafter, states_TC: Tensor) -> Tensor:
    """The matrix products of the forward, on its shapes and weights, and nothing else."""
    w, held = drafter.wiring, drafter.weights
    rows = len(states_TC) - 1
    out = F.linear(states_TC[:rows], held["fc.weight"])
    wide = torch.cat([out, out], dim=-1)
    at = "layers.0."
    for step in range(STEPS):
        n = rows - step
        q = F.linear(wide[:n], held[f"{at}self_attn.q_proj.weight"])
        F.linear(wide[:n], held[f"{at}self_attn.k_proj.weight"])
        F.linear(wide[:n], held[f"{at}self_attn.v_proj.weight"])
        h = F.linear(q, held[f"{at}self_attn.o_proj.weight"])
        up = F.linear(h, held[f"{at}mlp.gate_proj.weight"])
        F.linear(h, held[f"{at}mlp.up_proj.weight"])
        h = F.linear(up, held[f"{at}mlp.down_proj.weight"])
        out = F.linear(h, held["lm_head.weight"])
    assert out.shape[-1] == w.draft_vocab_size
    return out


@dataclass
class Peer:
    """speculators' drafter, with our tensors as its parameters."""

    model: Any

    @classmethod
    def build(cls, drafter: Drafter, ids_T: Tensor) -> Peer:
        """Raises ImportError without the package."""
        from speculators.config import SpeculatorsConfig, VerifierConfig
        from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
        from speculators.proposals.greedy import GreedyTokenProposalConfig
        from transformers import LlamaConfig

        w = drafter.wiring
        layer = LlamaConfig(
            vocab_size=w.target_vocab_size,
            hidden_size=w.hidden_size,
            intermediate_size=w.intermediate_size,
            num_hidden_layers=1,
            num_attention_heads=w.heads,
            num_key_value_heads=w.kv_heads,
            head_dim=w.head_dim,
            rms_norm_eps=w.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": w.rope.theta},
            max_position_embeddings=4096,
        )
        layer._attn_implementation = "eager"
        config = Eagle3SpeculatorConfig(
            transformer_layer_config=layer,
            draft_vocab_size=w.draft_vocab_size,
            eagle_aux_hidden_state_layer_ids=[2, 30, 58],
            speculators_config=SpeculatorsConfig(
                algorithm="eagle3",
                proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=STEPS)],
                default_proposal_method="greedy",
                verifier=VerifierConfig(name_or_path=None, architectures=[]),
            ),
        )
        with torch.device("meta"):
            model = Eagle3DraftModel(config)
        held = drafter.weights
        state = {name: held[name] for name in tensor_shapes(w) if name != EMBEDDING}
        # Rows that nobody asks for stay untouched, and so take no memory.
        table = torch.empty(w.target_vocab_size, w.hidden_size, dtype=torch.bfloat16)
        table[ids_T] = held.embedding.rows(ids_T)
        state[EMBEDDING] = table
        model.load_state_dict(state, strict=False, assign=True)
        model.rotary_emb = type(model.rotary_emb)(model.rotary_emb.config)
        return cls(model.eval())

    @torch.no_grad()
    def run(self, ids_T: Tensor, states_TC: Tensor) -> list[Tensor]:
        """Draft tokens of each step; its rows are ours, its later steps keep rows that have no token any more."""
        tokens = self.model(
            hidden_states=states_TC[None, :-1],
            input_ids=ids_T[None, 1:],
            document_ids=torch.zeros(1, len(ids_T) - 1, dtype=torch.int64),
            ttt_steps=STEPS,
        )
        return [t[0] for t in tokens]


def run(outcome: Outcome, options: argparse.Namespace) -> None:
    """Write the drafter, measure its peak in a process of its own, then all three in this one."""
    torch.set_num_threads(1)
    w = wiring(outcome.scale)
    with tempfile.TemporaryDirectory() as place:
        weight_bytes = write(Path(place), w)
        peak = child_json(PEAK, str(Path(__file__).parent), place, outcome.scale)
        drafter = load(w, place)
        ids_T, states_TC = inputs(w)
        bodies = {"drafter": lambda: ours(drafter, ids_T, states_TC), "bare products": lambda: products(drafter, states_TC)}
        try:
            peer = Peer.build(drafter, ids_T)
        except ImportError as error:
            outcome.notes.append(f"speculators is not measured: {error}; pip install -r benchmarks/requirements.txt")
        else:
            bodies["speculators"] = lambda: peer.run(ids_T, states_TC)
            pairs = [(a, b[: len(a)]) for a, b in zip(ours(drafter, ids_T, states_TC), peer.run(ids_T, states_TC), strict=True)]
            agree = sum(int((a == b).sum()) for a, b in pairs) / sum(len(a) for a, _ in pairs)
            outcome.figure("argmax equal to speculators'", 100 * agree, "%")
        times = interleaved(bodies, options.runs or (1 if outcome.scale == "tiny" else 5))
    record(outcome, times)
    outcome.figure("weights without the embedding", weight_bytes / 2**30, "GiB")
    outcome.bound("drafter / bare matrix products", paired(times["drafter"], times["bare products"]), 1.2)
    if "speculators" in times:
        outcome.bound("drafter / speculators", paired(times["drafter"], times["speculators"]), 1.0)
    outcome.bound("peak memory of a process / weights without the embedding", peak / weight_bytes, 1.2)


TITLE = "drafter of Kimi-K2.5's size, 64 tokens, three steps, bfloat16"

if __name__ == "__main__":
    raise SystemExit(main(TITLE, run))
