"""A vLLM small enough to be read: the attributes that are hooked, and one engine step in vLLM's order. No vLLM is needed.

Legend: N rows of the batch, B requests, W width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

WIDTH, VOCAB, LAYERS, SLOTS = 4, 11, 3, 2
PAD_ROWS = 2


class Layer(nn.Module):
    """Adds what came before into the residual in place, as vLLM's fused norm does."""

    def forward(self, positions: Tensor, hidden_states: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        if residual is None:
            residual = hidden_states.clone()
        else:
            residual += hidden_states
        return torch.full_like(hidden_states, 0.5) * positions[:, None], residual


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.aux_hidden_state_layers = (1, 2)

    def forward(self, input_ids: Tensor, positions: Tensor) -> tuple[Tensor, list[Tensor]]:
        hidden: Tensor = self.embed_tokens(input_ids)
        residual: Tensor | None = None
        slots = []
        for index, layer in enumerate(self.layers):
            if index in self.aux_hidden_state_layers:
                slots.append(hidden if residual is None else hidden + residual)
            hidden, residual = layer(positions, hidden, residual)
        return hidden + residual + 100, slots


class Target(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Holder()
        self.lm_head = nn.Linear(WIDTH, VOCAB)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.fc = nn.Linear(WIDTH * SLOTS, WIDTH, bias=False)


class Drafter(nn.Module):
    """Hands on ``hidden + position``, so that every row can be told by its value."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Inner()
        self.lm_head = nn.Linear(WIDTH, VOCAB)
        self.draft_id_to_target_id = nn.Parameter(torch.tensor([0, 2, 2]), requires_grad=False)

    def combine_hidden_states(self, hidden_states: Tensor) -> Tensor:
        return self.model.fc(hidden_states)

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        return self.lm_head(hidden_states)

    def forward(self, input_ids: Tensor, positions: Tensor, hidden_states: Tensor, inputs_embeds: Any = None) -> tuple[Tensor, Tensor]:
        state = hidden_states + positions[:, None]
        return state * 2, state


class Proposer:
    method, parallel_drafting = "eagle3", False

    def __init__(self, steps: int) -> None:
        self.model = Drafter()
        self.num_speculative_tokens = steps

    def propose(
        self,
        num_speculative_tokens: int,
        target_token_ids: Tensor,
        target_positions: Tensor,
        target_hidden_states: Tensor,
        token_indices_to_sample: Tensor | None,
        common_attn_metadata: Any,
    ) -> Tensor:
        """As v1/spec_decode/llm_base_proposer.py: rows of all requests first, then one row a request; buffers longer than the batch."""
        hidden = self.model.combine_hidden_states(target_hidden_states)
        ends = common_attn_metadata.query_start_loc_cpu[1:] - 1 if token_indices_to_sample is None else token_indices_to_sample
        normed, state = self.model(
            input_ids=_padded(target_token_ids), positions=_padded(target_positions), hidden_states=_padded(hidden), inputs_embeds=None
        )
        drafts = [self.model.compute_logits(normed[ends]).argmax(-1)]
        state, positions = state[ends], target_positions[ends]
        common_attn_metadata.query_start_loc_cpu = torch.arange(len(ends) + 1)
        for _ in range(num_speculative_tokens - 1):
            positions = positions + 1
            normed, state = self.model(
                input_ids=_padded(drafts[-1]), positions=_padded(positions), hidden_states=_padded(state), inputs_embeds=None
            )
            normed, state = normed[: len(ends)], state[: len(ends)]
            drafts.append(self.model.compute_logits(normed).argmax(-1))
        return torch.stack(drafts, 1)

    def dummy_run(self) -> None:
        """What vLLM does to warm up: a forward that is no request's."""
        self.model(
            input_ids=torch.zeros(5, dtype=torch.long), positions=torch.zeros(5, dtype=torch.long), hidden_states=torch.zeros(5, WIDTH)
        )


def _padded(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((PAD_ROWS, *rows.shape[1:]), 7)])


class Runner:
    """Holds a batch, and runs one step of it."""

    def __init__(self, steps: int = 3) -> None:
        self.model = Target()
        self.drafter = Proposer(steps)
        self.device = "cpu"
        self.input_batch = SimpleNamespace(req_ids=[], vocab_size=VOCAB)
        self.query_start_loc = SimpleNamespace(np=np.zeros(8, dtype=np.int32))
        self.discard_request_mask = SimpleNamespace(np=np.zeros(8, dtype=bool))
        self.requests: dict[str, Any] = {}
        self.sampled: list[list[int]] = []

    def get_model(self) -> nn.Module:
        return self.model

    def _model_forward(self, input_ids: Tensor | None = None, positions: Tensor | None = None, **more: Any) -> Any:
        return self.model.model(input_ids, positions)

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        return SimpleNamespace(sampled_token_ids=torch.tensor(self.sampled))

    def _on_request_state_removed(self, req_id: str, req_state: Any) -> None:
        self.removed = req_id

    def finish(self, request: str) -> None:
        self._on_request_state_removed(request, self.requests.pop(request))

    def step(
        self,
        batch: Sequence[tuple[str, list[int], int, list[int], list[int]]],
        *,
        discarded: Sequence[str] = (),
        places: Sequence[int] | None = None,
    ) -> Tensor:
        """One step. ``batch``: request, its token ids, the position of the first, its drafts among them, what the sampler gives."""
        self.input_batch.req_ids = [b[0] for b in batch]
        starts = np.cumsum([0] + [len(b[1]) for b in batch])
        self.query_start_loc.np[: len(starts)] = starts
        self.query_start_loc.np[len(starts) :] = starts[-1] + PAD_ROWS
        self.discard_request_mask.np[: len(batch)] = [b[0] in discarded for b in batch]
        for request, ids, first, _, _ in batch:
            self.requests.setdefault(
                request, SimpleNamespace(num_prompt_tokens=first + len(ids), prompt_token_ids=ids, sampling_params=None)
            )
        ids_N = torch.tensor([i for b in batch for i in b[1]])
        positions_N = torch.tensor([b[2] + n for b in batch for n in range(len(b[1]))])
        made = self._model_forward(input_ids=_padded(ids_N), positions=_padded(positions_N))
        longest = max(len(b[4]) for b in batch)
        self.sampled = [b[4] + [-1] * (longest - len(b[4])) for b in batch]
        drafts = [b[3] for b in batch]
        metadata = None
        if any(drafts):
            metadata = SimpleNamespace(
                num_draft_tokens=[len(d) for d in drafts], draft_token_ids=torch.tensor([i for d in drafts for i in d])
            )
        self._sample(None, metadata)
        slots = torch.cat([s[: len(ids_N)] for s in made[1]], -1)
        common = SimpleNamespace(query_start_loc_cpu=torch.from_numpy(starts))
        return self.drafter.propose(
            self.drafter.num_speculative_tokens,
            target_token_ids=ids_N,
            target_positions=positions_N,
            target_hidden_states=slots,
            token_indices_to_sample=None if places is None else torch.tensor(places),
            common_attn_metadata=common,
        )


class Worker:
    """What vLLM's worker shows."""

    rank = 0

    def __init__(self, steps: int = 3) -> None:
        self.model_runner = Runner(steps)
        model = SimpleNamespace(
            enforce_eager=True,
            dtype=torch.float32,
            model="target",
            max_model_len=64,
            quantization=None,
            get_total_num_hidden_layers=lambda: LAYERS,
        )
        self.vllm_config = SimpleNamespace(
            model_config=model,
            compilation_config=SimpleNamespace(mode=0),
            parallel_config=SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=1),
            scheduler_config=SimpleNamespace(max_num_seqs=4, max_num_batched_tokens=32, async_scheduling=True),
            cache_config=SimpleNamespace(enable_prefix_caching=False, block_size=32),
            speculative_config=SimpleNamespace(
                method="eagle3", num_speculative_tokens=steps, draft_model_config=SimpleNamespace(model="drafter")
            ),
        )

    def load_model(self, load: Any) -> None:
        load(self.model_runner.drafter.model)

    def compile_or_warm_up_model(self) -> float:
        return 1.5
