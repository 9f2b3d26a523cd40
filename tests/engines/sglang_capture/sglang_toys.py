"""A toy of SGLang: modules with the names and calls that the hooks rely on, and a worker that runs them batch by batch.

What is added up is simple enough that every recorded row can be told by value. Legend: N rows, G width of the target, H of the drafter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, LAYERS, VOCAB, DRAFT_VOCAB = 4, 5, 40, 12
CAPTURED = [0, 2, 4]


class Stream:
    """SGLang's residual stream: what the layers have added so far, beside what the last one gave."""

    def __init__(self) -> None:
        self.residual: Tensor | None = None

    def snapshot(self, hidden: Tensor) -> Tensor:
        return hidden.clone() if self.residual is None else hidden + self.residual


class TargetLayer(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(float(n + 1)))

    def forward(self, positions: Tensor, hidden_states: Tensor, forward_batch: Any, capture_output: Any = None) -> Tensor:
        stream = forward_batch.residual_stream
        if capture_output is not None:
            capture_output(stream.snapshot(hidden_states))
        stream.residual = stream.snapshot(hidden_states)
        return torch.full_like(hidden_states, self.weight.item())


class Norm(nn.Module):
    def forward(self, hidden: Tensor, residual: Tensor | None = None) -> Any:
        return hidden * 2 if residual is None else ((hidden + residual) * 2, hidden + residual)


class TargetModel(nn.Module):
    def __init__(self, layers: int = LAYERS, *, packed: bool = False) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(TargetLayer(n) for n in range(layers))
        self.norm = Norm()
        self.layers_to_capture = list(CAPTURED)
        self.packed = packed

    def forward(self, input_ids: Tensor, positions: Tensor, forward_batch: Any, input_embeds: Tensor | None = None) -> Any:
        forward_batch.residual_stream = Stream()
        hidden = self.embed_tokens(input_ids)
        captured: list[Tensor] = []
        for n, layer in enumerate(self.layers):
            hidden = layer(positions, hidden, forward_batch, capture_output=captured.append if n in self.layers_to_capture else None)
        hidden, _ = self.norm(hidden, forward_batch.residual_stream.residual)
        if not captured:
            return hidden
        return hidden, torch.cat(captured, -1) if self.packed else captured


class Target(nn.Module):
    def __init__(self, *, packed: bool = False) -> None:
        super().__init__()
        self.model = TargetModel(packed=packed)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)


class DrafterLayer(nn.Module):
    def forward(self, positions: Tensor, embeds: Tensor, hidden_states: Tensor, forward_batch: Any, residual: Tensor | None) -> Any:
        return embeds, hidden_states + 1


class DrafterModel(nn.Module):
    def __init__(self, *, single: bool = False, tuple_fc: bool = False) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.fc = TupleLinear() if tuple_fc else nn.Linear(len(CAPTURED) * WIDTH, WIDTH, bias=False)
        if single:
            self.midlayer = DrafterLayer()
        else:
            self.layers = nn.ModuleList([DrafterLayer()])
        self.norm = Norm()

    def forward(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> Any:
        embeds = self.embed_tokens(input_ids)
        hidden = forward_batch.spec_info.hidden_states
        if hidden.shape[-1] != WIDTH:
            made = self.fc(hidden)
            hidden = made[0] if isinstance(made, tuple) else made
        layer = self.layers[0] if hasattr(self, "layers") else self.midlayer
        hidden, residual = layer(positions, embeds, hidden, forward_batch, None)
        normed, state = self.norm(hidden, residual)
        return normed, [state]


class TupleLinear(nn.Linear):
    """A parallel linear of SGLang: the output, and a bias that is left to be added."""

    def __init__(self) -> None:
        super().__init__(len(CAPTURED) * WIDTH, WIDTH, bias=False)

    def forward(self, given: Tensor) -> Any:
        return super().forward(given), None


class Logits(nn.Module):
    def forward(self, hidden: Tensor, rows: Tensor | None) -> Any:
        given = hidden if rows is None else hidden[rows]
        return SimpleNamespace(next_token_logits=given.sum(-1, keepdim=True) + torch.arange(DRAFT_VOCAB))


class Drafter(nn.Module):
    def __init__(self, **more: bool) -> None:
        super().__init__()
        self.model = DrafterModel(**more)
        self.lm_head = nn.Linear(WIDTH, DRAFT_VOCAB, bias=False)
        self.logits_processor = Logits()

    def forward(self, input_ids: Tensor, positions: Tensor, forward_batch: Any, rows: Tensor | None = None) -> Any:
        normed, state = self.model(input_ids, positions, forward_batch)
        return self.logits_processor(normed, rows), state[0]


@dataclass
class Request:
    rid: str
    origin_input_ids: list[int]
    output_ids: list[int] = field(default_factory=list)
    finished_len: int | None = None
    is_retracted: bool = False

    def finished(self) -> bool:
        return self.finished_len is not None


def mode(name: str) -> Any:
    return SimpleNamespace(name=name)


def forward_batch(name: str, lengths: list[int] | None = None, hidden: Tensor | None = None, *, on_cpu: bool = True) -> Any:
    """A ForwardBatch: what the hooks read of it."""
    counts = None if lengths is None else torch.tensor(lengths)
    return SimpleNamespace(
        forward_mode=mode(name),
        extend_seq_lens_cpu=lengths if on_cpu else None,
        extend_seq_lens=counts,
        spec_info=SimpleNamespace(hidden_states=hidden),
        residual_stream=None,
        input_ids=None,
    )


def ids(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def live_worker(target: Target, drafter: Drafter, **more: Any) -> Any:
    """An EAGLEWorkerV2 and its EagleDraftWorker in one: what the plugin reads of them."""
    args = SimpleNamespace(
        tp_size=1, pp_size=1, device="cpu", speculative_eagle_topk=1, speculative_num_steps=3, quantization=None,
        speculative_draft_model_path="/drafter", model_path="/target",
    )  # fmt: skip
    config = SimpleNamespace(num_hidden_layers=LAYERS)
    runner = SimpleNamespace(model=target, dtype=torch.float32, model_config=config, decode_cuda_graph_runner=None)
    drafting = SimpleNamespace(draft_runner=SimpleNamespace(model=drafter), cuda_graph_runner=None, cuda_graph_runner_for_draft_extend=None)
    facts = {"server_args": args, "target_worker": SimpleNamespace(model_runner=runner), "draft_worker": drafting}
    return SimpleNamespace(**(facts | {"draft_runner": drafting.draft_runner, "hot_token_id": None} | more))
