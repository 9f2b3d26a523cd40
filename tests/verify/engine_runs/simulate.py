"""A small engine for tests: it drafts and verifies with the real target and the real drafter, and records what a probe would.

Not an imitation of any engine's code: plain recomputation of the whole text, so that what it records is right by construction, and
places where a test can spoil it. Legend: T tokens, G target width, n rows of a forward, D drafts a round, K states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from contract.files.bundle_manifest import CountInfo, EngineInfo, ForwardInfo, ModelInfo
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.engines.target import Forward, Target
from eagle3_contract.model.states import Recipe
from eagle3_contract.verify.engine_runs.rounds import accepted_path

Tensors = dict[str, Tensor]


class NotedDrafter:
    """A drafter whose calls are written down: what ``IncrementalDrafter`` asks of it, forward by forward."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._fused: Tensors = {}
        self.noted: Tensors = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._drafter, name)

    def fuse(self, states_LC: Tensor) -> Tensor:
        out_LH = self._drafter.fuse(states_LC)
        self._fused = {"fc_in": states_LC, "fc_out": out_LH}
        return out_LH

    def run(self, ids_L: Tensor, hidden_LH: Tensor, positions_L: Tensor, attends: Sequence[object]) -> tuple[Tensor, Tensor]:
        final_LH, state_LH = self._drafter.run(ids_L, hidden_LH, positions_L, attends)  # type: ignore[arg-type]
        self.noted = {
            "input_ids": ids_L, "position_ids": positions_L, **self._fused, "hidden_in": hidden_LH, "final_normed": final_LH,
            "state_out": state_LH,
        }  # fmt: skip
        self._fused = {}
        return final_LH, state_LH


@dataclass
class Request:
    """What was recorded of one request, as ``BundleWriter.add`` wants it. ``text`` is every token known, the last bonus too."""

    id: str
    prompt_tokens: int
    run: str
    tensors: Tensors
    forwards: list[ForwardInfo]
    text: list[int]
    sample: str | None = None

    @property
    def proposed(self) -> list[list[int]]:
        return [[t for t in row if t >= 0] for row in self.tensors["round.proposed"].tolist()]

    @property
    def emitted(self) -> list[list[int]]:
        return [[t for t in row if t >= 0] for row in self.tensors["round.emitted"].tolist()]

    @property
    def accepted(self) -> int:
        """Accepted drafts; the text may end before the bonus of the last round."""
        parents = self.tensors.get("round.parents")
        trees = [None] * len(self.emitted) if parents is None else [[p for p in row if p > -2] for row in parents.tolist()]
        return sum(len(accepted_path(p, t, e)) for p, t, e in zip(self.proposed, trees, self.emitted, strict=True))


@dataclass
class Engine:
    """``states`` spoils what the target hands over (rows [T, G] by boundary), ``propose`` what is proposed."""

    target: Target
    drafter: Drafter
    recipe: Recipe
    drafts: int = 3
    sweep: bool = True
    chunk: int | None = None
    states: Callable[[int | str, Tensor], Tensor] = field(default=lambda state, x: x)
    propose: Callable[[int, list[int]], list[int]] = field(default=lambda round_, tokens: tokens)
    steer: Callable[[int, int], int] = field(default=lambda position, token: token)
    """Changes the target's own greedy token at a position."""

    def generate(
        self, id_: str, prompt: Sequence[int], new_tokens: int, *, run: str = "", sample: str | None = None, cached: int = 0,
        preempted: Sequence[int] = (),
    ) -> Request:  # fmt: skip
        """Rounds until ``new_tokens`` are there; the last round is whole. The drafts of ``preempted`` rounds are forgotten, everything is
        run again, which gives a token, and the round is drafted anew."""
        again = list(preempted)
        text = [*prompt]
        states_TC, said = self._run(text)
        text.append(said[-1])
        self.noted = NotedDrafter(self.drafter)
        drafting = IncrementalDrafter(self.noted)  # type: ignore[arg-type]
        self.forwards: list[ForwardInfo] = []
        self.tensors: Tensors = {}
        drafting.prefill(torch.tensor(text), states_TC)
        self.fed = [states_TC]
        if cached:
            self.noted.noted = {name: x[cached:] for name, x in self.noted.noted.items()}
        self._prefill(len(prompt) - cached, 0)
        proposed_RD: list[list[int]] = []
        emitted_RE: list[list[int]] = []
        number = 0
        while len(text) < len(prompt) + new_tokens:
            proposed = self._draft(drafting, number, text)
            if number in again:
                again.remove(number)
                states_TC, said = self._run(text)
                text.append(said[-1])
                drafting = IncrementalDrafter(self.noted)  # type: ignore[arg-type]
                drafting.prefill(torch.tensor(text), states_TC)
                self.fed.append(states_TC[-1:])
                self._prefill(len(text) - 1, number)
                continue
            states_TC, said = self._run([*text, *proposed])
            said, states_NC = said[len(text) - 1 :], states_TC[len(text) - 1 :]
            lead = 0
            while lead < len(proposed) and proposed[lead] == said[lead]:
                lead += 1
            emitted = said[: lead + 1]
            proposed_RD.append(proposed)
            emitted_RE.append(emitted)
            text += emitted
            number += 1
            drafting.commit(torch.tensor(emitted), states_NC[: len(emitted)])
            self.fed.append(states_NC[: len(emitted)])
            self._note("extend", number, 0)
        return self._request(id_, text, cached, len(prompt), run, sample, proposed_RD, emitted_RE)

    def _request(
        self,
        id_: str,
        text: list[int],
        cached: int,
        prompt: int,
        run: str,
        sample: str | None,
        proposed: list[list[int]],
        emitted: list[list[int]],
    ) -> Request:
        ids = text[:-1] if emitted else text[:prompt]
        forward = self.target.forward(ids)
        tensors: Tensors = {
            "input_ids": torch.tensor(ids[cached:]),
            "position_ids": torch.arange(cached, len(ids)),
            "greedy": torch.tensor(self._say(forward)[cached:]),
        }
        if cached:
            tensors["prefix_ids"] = torch.tensor(ids[:cached])
        parts = torch.cat(self.fed)[cached : len(ids)].chunk(len(self.recipe), dim=-1)
        tensors |= {f"slot.{i}": x_TG.clone() for i, x_TG in enumerate(parts)}
        if self.sweep:
            for state, x_TG in forward.states.items():
                name = "final_norm" if state == "final_norm" else f"boundary.{state}"
                tensors[name] = self.states(state, x_TG)[cached:].clone()
        if emitted:
            tensors["round.proposed"] = table(proposed)
            tensors["round.emitted"] = table(emitted)
        return Request(id_, prompt, run, tensors | self.tensors, self.forwards, text, sample)

    def _say(self, forward: Forward) -> list[int]:
        """The target's greedy token after each of its tokens."""
        return [self.steer(i + 1, int(t)) for i, t in enumerate(forward.greedy)]

    def _run(self, ids: list[int]) -> tuple[Tensor, list[int]]:
        """What the drafter is fed [T, K*G], and what the target says."""
        forward = self.target.forward(ids, wanted=set(self.recipe))
        return torch.cat([self.states(s, forward.states[s]) for s in self.recipe], dim=-1), self._say(forward)

    def _draft(self, drafting: IncrementalDrafter, number: int, text: list[int]) -> list[int]:
        """Step by step, so that each forward can be noted."""
        proposed: list[int] = []
        for step in range(1, self.drafts + 1):
            tokens = drafting.draft(step, fed_tokens=torch.tensor(proposed, dtype=torch.int64)).tokens.tolist()
            if step > 1:
                self._note("draft", number, step - 1)
            proposed.append(tokens[-1])
        return self.propose(number, proposed)

    def _prefill(self, rows: int, number: int) -> None:
        """One forward, or several whose rows are those of one (the chunks of a causal model)."""
        whole, size = self.noted.noted, self.chunk or rows
        for start in range(0, rows, size):
            self.noted.noted = {name: x[start : start + size] for name, x in whole.items()}
            self._note("prefill", number, 0)

    def _note(self, phase: str, number: int, step: int) -> None:
        k, noted = len(self.forwards), self.noted.noted
        rows = len(noted["input_ids"])
        self.forwards.append(ForwardInfo(phase=phase, round=number, step=step, rows=rows))  # type: ignore[arg-type]
        logits_1V = torch.full((1, self.drafter.wiring.target_vocab_size), float("-inf"))
        logits_1V[:, self.drafter.target_ids] = self.drafter.head(noted["final_normed"][-1:])
        self.tensors |= {f"forward.{k}.{name}": x.clone() for name, x in noted.items()}
        self.tensors |= {f"forward.{k}.logits": logits_1V, f"forward.{k}.logit_rows": torch.tensor([rows - 1])}


def table(rows: list[list[int]], pad: int = -1) -> Tensor:
    """A matrix of rows that are padded to one length."""
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


def write(
    out: Path, requests: Sequence[Request], *, recipe: Recipe, layers: int, dtype: str = "float32", engine: str = "transformers",
    drafter: dict[str, str] | None = None, model_type: str = "llama", counters: dict[str, float] | None = None,
    flags: dict[str, str] | None = None, counts: dict[str, CountInfo] | None = None,
) -> Path:  # fmt: skip
    """Write a bundle, with the engine's counters as they should be unless ``counters`` says otherwise."""
    info = EngineInfo(
        name=engine, version="0", runner=None, mode="eager", flags=flags or {}, device="cpu", dtype=dtype, tp=1, pp=1, layer_ids=None
    )
    plain = [r for r in requests if "round.emitted" in r.tensors]
    right = {
        "rounds": float(sum(len(r.emitted) for r in plain)),
        "accepted_tokens": float(sum(r.accepted for r in plain)),
        "drafted_tokens": float(sum(len(p) for r in plain for p in r.proposed)),
    }
    target = ModelInfo(id=None, model_type=model_type, files={})
    own = None if drafter is None else ModelInfo(id=None, model_type=None, files=drafter)
    with BundleWriter(out, kind="eagle3", engine=info, target=target, recipe_fed=recipe, layers=layers, drafter=own) as writer:
        for r in requests:
            writer.add(r.id, entries(r.tensors), sample=r.sample, prompt_tokens=r.prompt_tokens, run=r.run, forwards=r.forwards)
        writer.counters = right if counters is None else counters
        writer.counts = counts or {"requests": CountInfo(recorded=len(requests), counted=len(requests), by="the test")}
    return out
