"""A small engine of its own: it drafts with the demo drafter, verifies, rewrites its cache, and writes down what real engines show.

Nothing of the package's forward is used, so that both are held against each other. The target is a text with its states (a demo sample): a
draft is accepted if it is the next token. ``FAULTS`` are what may be wrong with such an engine.

Legend: T tokens, C width of what reaches fc, H hidden, DV draft vocabulary, V target vocabulary, n rows of a forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from contract.files.bundle_manifest import CountInfo, EngineInfo, ForwardInfo, ModelInfo, Phase
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from verify.engine_drafter.simulated_drafter import Cache, Drafter, Fed, Out, Weights
from verify.engine_drafter.simulated_engine import FOLDER, JUNK, PROMPT, RECIPE, VOCAB, WINDOW, Engine


@dataclass
class Node:
    """A draft row: its token, the row that it follows (None: the root), its score and its physical place."""

    token: int
    row: int
    parent: Node | None
    score: float
    place: int = -1

    def path(self) -> list[Node]:
        return [*(self.parent.path() if self.parent else []), self]


class Request:
    """One request's run. ``forwards`` and ``tensors`` are what a bundle takes."""

    def __init__(self, engine: Engine, weights: Weights, text: Sequence[int], states_TC: Tensor, before: Sequence[Request] = ()) -> None:
        self.e, self.w, self.text, self.before = engine, weights, list(text), before
        self.states = states_TC.to(engine.dtype)
        self.d, self.cache = Drafter(engine, weights), Cache.empty(engine.dtype)
        if engine.has("blocks-reused") and before:  # what the request before left stands where it was, slot for slot
            last = before[-1].cache
            self.cache.key[: len(last.table)], self.cache.value[: len(last.table)] = last.key[last.table], last.value[last.table]
        self.forwards: list[ForwardInfo] = []
        self.tensors: dict[str, Tensor] = {}
        self.proposed: list[list[int]] = []
        self.parents: list[list[int]] = []
        self.emitted: list[list[int]] = []
        self.kept: list[int] = []
        self.round = 0
        self.fc: list[Tensor] = []
        self.generator = torch.Generator().manual_seed(11 + len(before))

    # --- what is written down

    def record(self, phase: Phase, step: int, fed: Fed, out: Out, logit_rows: Sequence[int], **more: Tensor) -> None:
        k = len(self.forwards)
        self.forwards.append(ForwardInfo(phase=phase, round=self.round, step=step, rows=len(fed.ids)))
        final, state, logits = out
        shown = self.shown(logits[list(logit_rows)])
        values = {
            "input_ids": torch.tensor(fed.ids),
            "position_ids": torch.tensor(fed.positions),
            "hidden_in": fed.hidden,
            "final_normed": final,
            "state_out": state,
            "logits": shown,
            "logit_rows": torch.tensor(list(logit_rows)),
            **more,
        }
        self.tensors |= {f"forward.{k}.{name}": value.clone() for name, value in values.items()}

    # --- committed rows

    def position(self, slot: int, *, draft: bool = False) -> int:
        off = self.e.has("position-plus-one") or (draft and self.e.has("draft-position-plus-one"))
        return slot + (1 if off else 0)

    def commit(self, phase: Phase, first: int, count: int, junk: int, junk_ids: Sequence[int]) -> Out:
        """Rows ``first`` ... of the sequence from the target's states, and rejected rows behind them."""
        rows, shift = count + junk, 0 if self.e.has("shifted-ids") else 1
        ids = [self.text[first + i + shift] for i in range(count)] + list(junk_ids)
        if self.e.has("chunk-boundary") and phase == "prefill" and first + count < PROMPT:
            ids[count - 1] = 7
        if self.e.has("refill-wrong-id") and phase == "prefill" and self.round and first <= PROMPT < first + count:
            ids[PROMPT - first] = 7
        if self.e.has("chunk-end-of-prompt") and phase == "prefill" and first + count < PROMPT:
            ids[count - 1] = self.text[PROMPT - 1]
        unknown = torch.randn(junk, self.states.shape[1], generator=self.generator).to(self.e.dtype) * JUNK
        fc_in = torch.cat([self.states[first : first + count], unknown])
        if self.e.has("permuted-slots"):
            a, b, c = fc_in.chunk(3, -1)
            fc_in = torch.cat([b, a, c], -1)
        if self.e.has("neighbour-states") and self.before and phase == "extend":
            fc_in[0] = self.before[-1].states[first]
        fc_out = self.d.fuse(fc_in)
        hidden = fc_in.clone() if self.e.has("fc-skipped") else fc_out.clone()
        if self.e.has("neighbour-row") and self.before and phase == "extend":
            hidden[count - 1] = self.before[-1].fc[2][count - 1]
        self.fc.append(fc_out)
        junk_places = [self.cache.fresh() if self.e.has("rejected-kept") else self.cache.place(first + count + i) for i in range(junk)]
        places = [self.cache.place(first + i) for i in range(count)] + junk_places
        order = [self.cache.table[s] for s in range(first)]
        if self.e.has("lost-chunk") and phase == "extend":
            order = order[8:]
        if self.e.has("prefix-not-seen"):
            order = order[self.e.chunk :]
        sees = [[*order, *self.kept, *places[: i + 1]] for i in range(rows)]
        if self.e.has("window"):
            sees = [row[-WINDOW:] for row in sees]
        stale = self.e.has("no-rewrite") and phase == "extend"
        writes = [not (stale and i < min(count - 1, self.e.drafts - 1)) for i in range(rows)]
        fed = Fed(ids, [self.position(first + i) for i in range(rows)], hidden, places, sees, writes)
        out = self.d.run(fed, self.cache)
        if self.e.has("rejected-kept"):
            self.kept += junk_places
        self.record(phase, 0, fed, out, [count - 1], fc_in=fc_in, fc_out=fc_out)
        final, state, logits = (t[count - 1] for t in out)
        return final, state, logits

    # --- drafts

    def shown(self, logits_nD: Tensor) -> Tensor:
        """The logits as the engine has them: of the draft vocabulary, or put where the map says among the target's."""
        if self.e.style != "vllm":
            return logits_nD
        wide = torch.full((len(logits_nD), VOCAB), float("-inf"))
        inside = (self.w.map >= 0) & (self.w.map < VOCAB)
        wide[:, self.w.map[inside]] = logits_nD[:, inside]
        return wide

    def proposal(self, logits_D: Tensor) -> int:
        """The token that is proposed after a row."""
        shown = self.shown(logits_D[None])[0]
        best = int(shown.topk(2).indices[1 if self.e.has("wrong-argmax") and self.round == 4 else 0])
        return best if self.e.style == "vllm" else self.token(best)

    def token(self, draft_id: int) -> int:
        return min(max(int(self.w.map[draft_id]), 0), VOCAB - 1)

    def handed(self, final: Tensor, state: Tensor) -> Tensor:
        return final if self.e.has("normed-feedback") else state

    def chain(self, root: int, out: Out, junk: int) -> list[int]:
        """Draft behind the committed slot ``root``; returns the proposed tokens."""
        final, state, logits = out
        proposed = [self.proposal(logits)]
        states = [self.handed(final, state)]
        for step in range(1, self.e.drafts):
            slot = root + step
            place = self.cache.place(slot)
            order = [self.cache.table[s] for s in range(self.e.chunk if self.e.has("prefix-not-seen") else 0, slot + 1)]
            if self.e.has("drafts-not-seen"):
                order = [*order[: root + 1], order[-1]]
            if self.e.has("rejected-in-sight"):
                order += [self.cache.table[s] for s in range(slot + 1, root + 1 + junk)]
            if self.e.has("slots-too-many"):
                order += [self.cache.place(s) for s in range(slot + 1, slot + 1 + step)]
            if self.e.has("window"):
                order = order[-WINDOW:]
            stale = self.e.has("stale-state") and step == self.e.drafts - 1
            position = self.position(root if self.e.has("constant-positions") else slot, draft=True)
            fed = Fed([proposed[-1]], [position], states[-2 if stale else -1][None], [place], [[*order[:], *self.kept]], [True])
            finals, state_outs, all_logits = self.d.run(fed, self.cache)
            self.record("draft", step, fed, (finals, state_outs, all_logits), [0])
            states.append(self.handed(finals[0], state_outs[0]))
            proposed.append(self.proposal(all_logits[0]))
        return proposed

    def tree(self, root: int, out: Out) -> tuple[list[int], list[int]]:
        """A tree of the best branches: (proposed tokens, parents among them)."""
        final, state, logits = out
        topk = self.e.topk
        order = [self.cache.table[s] for s in range(root + 1)]
        nodes: list[Node] = []
        best = logits.log_softmax(-1).topk(topk)
        frontier = [Node(self.token(int(i)), -1, None, float(v)) for v, i in zip(*best, strict=True)]
        handed = [self.handed(final, state)] * topk
        nodes += frontier
        lanes: list[list[int]] = []
        for step in range(1, self.e.steps):
            for node in frontier:
                node.place = self.cache.fresh()
            lanes.append([n.place for n in frontier])
            sees = []
            for i, node in enumerate(frontier):
                before = [n.place for n in node.path()[:-1]]
                if self.e.has("own-lane"):
                    before = [lane[i] for lane in lanes[:-1]]
                if self.e.has("siblings"):
                    before = [p for lane in lanes[:-1] for p in lane]
                sees.append([*order, *before, node.place])
            fed = Fed(
                [n.token for n in frontier], [self.position(root + step, draft=True)] * len(frontier), torch.stack(handed),
                [n.place for n in frontier], sees, [True] * len(frontier),
            )  # fmt: skip
            finals, state_outs, all_logits = self.d.run(fed, self.cache)
            parents = torch.tensor([n.row for n in frontier])
            self.record("draft", step, fed, (finals, state_outs, all_logits), range(len(frontier)), parents=parents)
            grown: list[Node] = []
            for row, node in enumerate(frontier):
                best = all_logits[row].log_softmax(-1).topk(topk)
                grown += [Node(self.token(int(i)), row, node, node.score + float(v)) for v, i in zip(*best, strict=True)]
            nodes += grown
            frontier = sorted(grown, key=lambda n: -n.score)[:topk]
            handed = [self.handed(finals[n.row], state_outs[n.row]) for n in frontier]
        ranked = sorted(nodes, key=lambda n: -n.score)
        chosen = ranked[: self.e.drafts]
        if self.e.has("worst-branch") and self.round == 2:
            chosen[-1] = next(n for n in reversed(ranked) if n.parent is None or n.parent in chosen)
        chosen.sort(key=lambda n: len(n.path()))
        return [n.token for n in chosen], [chosen.index(n.parent) if n.parent is not None else -1 for n in chosen]

    # --- the loop

    def run(self) -> Request:
        first = 0
        while first < PROMPT:
            count = min(self.e.chunk or PROMPT, PROMPT - first)
            out = self.commit("prefill", first, count, 0, [])
            first += count
            if first < PROMPT:
                self.chain(first - 1, out, 0)
        root, junk, skipped, again = PROMPT - 1, 0, False, list(self.e.preempted)
        while True:
            if skipped:
                proposed, parents = [0] * self.e.drafts, []
            else:
                proposed, parents = self.tree(root, out) if self.e.topk > 1 else (self.chain(root, out, junk), [])
            room = len(self.text) - 1 - (root + 2)
            if room < 0:
                return self
            accepted = self.accepted(proposed, parents, root, room)
            emitted = self.text[root + 2 : root + 3 + accepted]
            if self.e.has("refused-draft") and self.round == 5 and accepted:
                accepted, emitted = accepted - 1, emitted[:-1]
            if self.round in again:
                again.remove(self.round)
                root, junk = root + 1, 0
                out = self.refill(root)
                continue
            self.proposed.append(proposed)
            self.parents.append(parents)
            self.emitted.append(emitted)
            self.round += 1
            count, junk = accepted + 1, self.e.drafts - accepted
            junk_ids = [0] * junk if self.e.style == "sglang" else [*proposed, proposed[-1]][-junk:] if junk else []
            skipped = self.e.has("skipped-round") and self.round == 4
            if skipped:
                pass  # the drafter is left out, as vLLM does for a whole batch when one of its sequences is nearly full
            elif self.e.has("missing-row") and accepted and self.round > 3:
                # only the last committed row is fed; the one before it keeps what it was drafted with
                out = self.commit("extend", root + 1 + accepted, 1, 0, [])
            else:
                out = self.commit("extend", root + 1, count, junk, junk_ids)
            root += count

    def refill(self, root: int) -> Out:
        """Run everything up to the slot ``root`` again, in other places of the cache. The last row is new: its token came from no round."""
        first, table = self.e.kept, self.cache.table
        lost = table[first + 4 : root] if self.e.has("refill-not-seen") else []
        self.cache.table = table[:first]
        stop = root + 1
        while first < stop:
            count = min(self.e.chunk or stop, stop - first)
            out = self.commit("prefill", first, count, 0, [])
            first += count
            if first < stop:
                self.chain(first - 1, out, 0)
        if lost:
            self.cache.table[self.e.kept + 4 : self.e.kept + 4 + len(lost)] = [self.cache.fresh() for _ in lost]
        return out

    def held(self) -> dict[str, Tensor]:
        """The tensors of the whole request."""
        tokens = len(self.text) - 1
        return {
            "input_ids": torch.tensor(self.text[:tokens]),
            "position_ids": torch.arange(tokens),
            **{f"slot.{i}": part for i, part in enumerate(self.states.chunk(self.e.states, -1))},
            "round.proposed": padded(self.proposed, -1),
            "round.emitted": padded(self.emitted, -1),
            **({"round.parents": padded(self.parents, -2)} if self.e.topk > 1 else {}),
            **self.tensors,
        }

    def accepted(self, proposed: Sequence[int], parents: Sequence[int], root: int, room: int) -> int:
        if not parents:
            count = 0
            while count < min(len(proposed), room) and proposed[count] == self.text[root + 2 + count]:
                count += 1
            return count
        node, count = -1, 0
        while count < room:
            child = [i for i, (t, p) in enumerate(zip(proposed, parents, strict=True)) if p == node and t == self.text[root + 2 + count]]
            if not child:
                break
            node, count = child[0], count + 1
        return count


def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*r, *[fill] * (width - len(r))] for r in rows])


def samples(count: int, folder: Path = FOLDER) -> list[tuple[str, list[int], Tensor]]:
    """(name, tokens with one more that no draft can be, states side by side) of the first demo samples."""
    targets = set((load_file(folder / "model.safetensors")["d2t"] + torch.arange(1024)).tolist())
    never = next(t for t in range(VOCAB) if t not in targets)
    found = []
    for path in sorted((folder / "samples").glob("*.safetensors"))[:count]:
        held = load_file(path)
        found.append((path.name, [*held["input_ids"].tolist(), never], held["states"].flatten(1)))
    return found


def simulate(engine: Engine, count: int = 2) -> list[tuple[str, Request]]:
    """Run the engine over some samples, one after another."""
    torch.manual_seed(0)
    weights, done = Weights(engine), []
    for name, text, states in samples(count):
        cut = [*text[: engine.tokens], text[-1]]
        done.append((name, Request(engine, weights, cut, states[: engine.tokens, : 128 * engine.states], [r for _, r in done]).run()))
    return done


Spoil = Callable[[str, dict[str, Tensor]], None]
"""Changes the tensors of a request (named by its sample) before they are written."""


def written(out: Path, engine: Engine, requests: Sequence[Written], counted: dict[str, CountInfo] | None = None) -> Path:
    """A bundle of requests that are ready to be written."""
    name, version = ("vllm", "0.32.0") if engine.style == "vllm" else ("sglang", "0.5.23")
    info = EngineInfo(
        name=name, version=version, runner="v1" if name == "vllm" else None, mode="eager", flags=dict(engine.flags), device="cpu",
        dtype=str(engine.dtype).removeprefix("torch."), tp=1, pp=1, layer_ids=None,
    )  # fmt: skip
    model = ModelInfo(id=None, model_type="llama", files={})
    recipe = list(RECIPE[: engine.states])
    with BundleWriter(out, kind="eagle3", engine=info, target=model, recipe_fed=recipe, layers=12, drafter=None) as writer:
        for r in requests:
            writer.add(r.id, entries(r.tensors), sample=r.sample, prompt_tokens=PROMPT, run=r.run, forwards=r.forwards)
        writer.counts |= counted or {}
    return out


@dataclass
class Written:
    """One request as a bundle takes it."""

    id: str
    tensors: dict[str, Tensor]
    forwards: list[ForwardInfo]
    sample: str | None = None
    run: str = ""


def write(out: Path, engine: Engine, requests: Sequence[tuple[str, Request]], change: Spoil | None = None) -> Path:
    """The bundle of a run."""
    ready = []
    for sample, r in requests:
        tensors = r.held()
        if change is not None:
            change(sample, tensors)
        ready.append(Written(f"r-{sample[7:9]}", tensors, r.forwards, sample if engine.tokens == 176 else None))
    count = sum(len(r.forwards) for r in ready)
    return written(out, engine, ready, {"forwards": CountInfo(recorded=count, counted=count, by="the simulation")})


def cached(request: Request, count: int) -> Written:
    """The same request as if the first chunk of its prompt, of ``count`` tokens, had come from a prefix cache."""
    gone = next(k for k, f in enumerate(request.forwards) if f.phase == "prefill" and k)
    tensors: dict[str, Tensor] = {"prefix_ids": torch.tensor(request.text[:count])}
    for name, value in request.held().items():
        if name.startswith("forward."):
            _, k, what = name.split(".")
            if int(k) >= gone:
                tensors[f"forward.{int(k) - gone}.{what}"] = value
        else:
            tensors[name] = value if name.startswith("round.") else value[count:]
    return Written("cached", tensors, request.forwards[gone:], run="cached")


def accepted(requests: Sequence[tuple[str, Request]]) -> int:
    return sum(len(e) - 1 for _, r in requests for e in r.emitted)
