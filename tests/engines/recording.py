"""A spool as an engine's hooks would write it, with states that tell token, boundary and whether the row was rejected.

Imports what the engine's process has: torch, safetensors, the standard library. Legend: n rows, G width, H drafter width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from eagle3_contract.engines.spool import Spool

WIDTH, LAYERS, VOCAB = 8, 4, 97
RECIPE = (0, 2, 3)
WRONG = 95
"""A draft that is never accepted."""
START = {
    "engine": "vllm", "version": "0.32.0", "runner": "v1", "mode": "eager", "tp": 1, "pp": 1, "device": "cpu", "dtype": "float32",
    "layer_ids": [0, 2, 3], "layers": LAYERS, "target_class": "LlamaForCausalLM", "drafter_class": "Eagle3LlamaForCausalLM",
    "flags": {"max_model_len": "64"},
}  # fmt: skip


def state(boundary: int, position: int, token: int, *, rejected: bool = False) -> Tensor:
    """One row [G] that no other boundary, position or token has."""
    make = torch.Generator().manual_seed(boundary * 1_000_003 + position * 1009 + token)
    return torch.randn(WIDTH, generator=make) + (1000.0 if rejected else 0.0)


def states(boundary: int, positions: Sequence[int], tokens: Sequence[int], rejected: Sequence[bool] = ()) -> Tensor:
    """Rows [n, G]."""
    flags = rejected or [False] * len(positions)
    return torch.stack([state(boundary, p, t, rejected=r) for p, t, r in zip(positions, tokens, flags, strict=True)])


def ints(values: Sequence[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64)


@dataclass
class Recording:
    """Writes a spool event by event."""

    folder: Path
    recipe: Sequence[int] = RECIPE
    sweep: bool = True
    start: dict[str, object] = field(default_factory=dict)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.spool = Spool(self.folder)
        self.spool.event("start", **(START | self.start))

    def prompt(
        self, request: str, tokens: Sequence[int], *, sample: str | None = None, run: str = "", prompt_id: str | None = None
    ) -> None:
        self.spool.event("prompt", {"input_ids": ints(tokens)}, request=request, prompt_id=prompt_id or request, sample=sample, run=run)

    def target(
        self, request: str, phase: str, positions: Sequence[int], tokens: Sequence[int], rejected: Sequence[bool] = (), **more: object
    ) -> None:
        tensors = {"input_ids": ints(tokens), "position_ids": ints(positions)}
        tensors |= {f"slot.{i}": states(b, positions, tokens, rejected) for i, b in enumerate(self.recipe)}
        if self.sweep:
            tensors |= {f"boundary.{b}": states(b, positions, tokens, rejected) for b in range(LAYERS + 1)}
            tensors["final_norm"] = states(LAYERS + 1, positions, tokens, rejected)
        self.spool.event("target", tensors, request=request, phase=phase, **more)

    def drafter(
        self, request: str, phase: str, step: int, tokens: Sequence[int], positions: Sequence[int], fc_in: Tensor | None = None
    ) -> None:
        n = len(tokens)
        tensors: dict[str, Tensor | None] = {"input_ids": ints(tokens), "position_ids": ints(positions), "hidden_in": torch.ones(n, WIDTH)}
        tensors |= {"logits": torch.zeros(1, VOCAB), "logit_rows": ints([n - 1]), "fc_in": fc_in}
        self.spool.event("drafter", tensors, request=request, phase=phase, step=step)

    def round(self, request: str, proposed: Sequence[int], emitted: Sequence[int], parents: Sequence[int] | None = None) -> None:
        self.rounds += 1
        tensors = {"proposed": ints(proposed), "emitted": ints(emitted), "parents": None if parents is None else ints(parents)}
        self.spool.event("round", tensors, request=request)

    def output(self, request: str, tokens: Sequence[int]) -> None:
        self.spool.event("output", {"output_ids": ints(tokens)}, request=request)

    def end(self, **counters: float) -> None:
        self.spool.event("end", counters={"rounds": float(self.rounds), **counters})

    def whole(
        self,
        request: str,
        prompt: Sequence[int],
        output: Sequence[int],
        accepted: Sequence[int],
        *,
        drafts: int = 3,
        chunk: int | None = None,
        cached: int = 0,
        **about: str | None,
    ) -> None:
        """A request from prompt to output: ``accepted`` drafts in each round, wrong ones behind them; prefill in chunks of ``chunk``."""
        self.prompt(request, prompt, **about)  # type: ignore[arg-type]  # texts, by name
        tokens, size = [*prompt, *output, *[5] * 20], chunk or len(prompt)  # 5 is what an engine emits that stops late
        for first in range(cached, len(prompt), size):
            positions = range(first, min(first + size, len(prompt)))
            self.target(request, "prefill", positions, [tokens[p] for p in positions])
            self.drafter(request, "prefill", 0, [tokens[p + 1] for p in positions], positions)
            self.steps(request, drafts, positions[-1])
        known = len(prompt) + 1
        for count in accepted:
            emitted = tokens[known : known + count + 1]
            proposed = [*emitted[:count], *[WRONG] * (drafts - count)]
            positions = range(known - 1, known + drafts)
            self.target(request, "verify", positions, [tokens[known - 1], *proposed], [i > count for i in range(drafts + 1)])
            self.round(request, proposed, emitted)
            known += count + 1
            self.drafter(request, "extend", 0, [*emitted, *[0] * (drafts - count)], positions)
            self.steps(request, drafts, known - 2)
        self.output(request, output)

    def steps(self, request: str, drafts: int, last: int) -> None:
        for step in range(1, drafts):
            self.drafter(request, "draft", step, [7], [last + step])
