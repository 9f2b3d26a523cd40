"""The hooks themselves: what SGLang's worker and scheduler do with a batch, written into a spool request by request.

A batch is recorded while it runs and held until the scheduler has taken its result over: with the overlap schedule SGLang 0.5.23 runs one
more round of a request that has already finished (managers/scheduler_components/batch_result_processor.py:1015-1022) and throws its
result away; such rounds are dropped here, too, and counted.

Legend: B requests of the batch, D draft tokens with the root, E accepted tokens with the one after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from eagle3_contract.engines.sglang.batches import row_counts, spans
from eagle3_contract.engines.sglang.drafter_hooks import DrafterForward
from eagle3_contract.engines.sglang.target_hooks import TargetForward
from eagle3_contract.engines.spool import Spool, copied

ROOT = -1


@dataclass(frozen=True, slots=True)
class Label:
    """What a request is called in the record: the prompt, the training sample that it repeats, and the run."""

    prompt_id: str
    sample: str | None
    run: str


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    request: str
    kind: str
    tensors: dict[str, Tensor]
    facts: dict[str, Any]


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch that runs: its requests, and what was seen of it.

    ``decoding`` are those that ride along in a prefill, one token each and without drafts (``--enable-mixed-chunk``); ``draft_step``
    counts the draft forwards of the round.
    """

    requests: list[Any]
    decoding: frozenset[str] = frozenset()
    events: list[_Event] = field(default_factory=list)
    draft_step: int = 0
    parents_BW: Tensor | None = None


class Probe:
    """Takes what the hooks see and writes it. Nothing that passes through is changed.

    Attributes:
        dropped_rounds: verifications of requests that had already finished.
        abandoned: requests that were retracted (their cache was needed) and are no longer recorded.
    """

    def __init__(self, spool: Spool, labels: Mapping[str, Label]) -> None:
        self._spool, self._labels = spool, labels
        self._batch: _Batch | None = None
        self._held: dict[int, tuple[Any, _Batch]] = {}
        self._known: set[str] = set()
        self.abandoned: set[str] = set()
        self.dropped_rounds = 0

    # The scheduler's step.

    def run_batch(self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Around a step: whatever target and drafter do inside belongs to this batch."""
        self._batch = running = _Batch(list(batch.reqs), riding(batch))
        try:
            result = original(worker, batch, *args, **kwargs)
        finally:
            self._batch = None
        self._held[id(result)] = (result, running)
        return result

    def take_result(self, original: Callable[..., Any], processor: Any, batch: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
        """Around the scheduler's taking over: what it takes is written, then the output of requests that are finished."""
        held = self._held.pop(id(result), None)
        if held is None:
            return original(processor, batch, result, *args, **kwargs)
        running = held[1]
        retracted = {r.rid for r in running.requests if r.is_retracted}
        finished = {r.rid for r in running.requests if r.finished()}
        made = original(processor, batch, result, *args, **kwargs)
        self.abandoned |= retracted
        skipped = finished | self.abandoned
        self.dropped_rounds += sum(e.kind == "round" and e.request in finished for e in running.events)
        for request in running.requests:
            if request.rid not in skipped and request.rid not in self._known:
                self._prompt(request)
        for event in running.events:
            if event.request not in skipped:
                self._spool.event(event.kind, event.tensors, request=event.request, **event.facts)
        for request in running.requests:
            if request.rid not in skipped and request.finished():
                self._output(request)
        return made

    def _prompt(self, request: Any) -> None:
        label = self._labels.get(request.rid, Label(request.rid, None, ""))
        self._known.add(request.rid)
        tensors = {"input_ids": torch.tensor(list(request.origin_input_ids), dtype=torch.int64)}
        self._spool.event("prompt", tensors, request=request.rid, prompt_id=label.prompt_id, sample=label.sample, run=label.run)

    def _output(self, request: Any) -> None:
        given = list(request.output_ids)[: request.finished_len]  # what a round emitted beyond the wanted length is not given out
        tensors = {"output_ids": torch.tensor(given, dtype=torch.int64)}
        self._spool.event("output", tensors, request=request.rid)

    # The target.

    def target(self, forward: TargetForward) -> None:
        """A forward of the target is through."""
        batch = self._batch
        if batch is None:
            return
        mode = forward.forward_batch.forward_mode.name
        phase = {"TARGET_VERIFY": "verify", "DECODE": "decode"}.get(mode, "prefill")
        self._split(batch, forward.forward_batch, "target", forward.tensors, {"phase": phase}, riding={"phase": "verify"})

    def verify(self, original: Callable[..., Any], worker: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Around a verification: the tree that was drafted, and what was accepted of it."""
        tree = batch.spec_info
        result = original(worker, batch, *args, **kwargs)
        running = self._batch
        if running is None or not running.requests:
            return result
        drafted_BD = copied(tree.draft_token).reshape(len(running.requests), -1)
        says_BD = copied(result.next_token_ids).reshape(drafted_BD.shape)
        accepted_B = copied(result.accept_lens)
        parents_BD = None
        if tree.tree_topk != 1:
            parents_BD = tree_parents(copied(tree.retrieve_next_token), copied(tree.retrieve_next_sibling))
        for at, request in enumerate(running.requests):
            tensors = {"proposed": drafted_BD[at, 1:], "emitted": says_BD[at, : int(accepted_B[at])]}
            if parents_BD is not None:
                tensors["parents"] = parents_BD[at]
            running.events.append(_Event(request.rid, "round", tensors, {}))
        running.draft_step = 0
        return result

    # The drafter.

    def tree(self, result: Any, step: int, *args: Any, **kwargs: Any) -> None:
        """After the choice of the rows that a draft forward runs: from which rows of the forward before they come."""
        topk = kwargs.get("topk", args[-1] if args else 1)
        if self._batch is None or topk == 1:
            return
        if step == 0:
            self._batch.parents_BW = torch.full((len(self._batch.requests), topk), ROOT, dtype=torch.int64)
        else:
            # SGLang numbers the candidates of step i from topk + (i - 1) * topk**2 on, topk for each row (spec_utils.py:460-464).
            self._batch.parents_BW = (copied(result[3][2]) - (topk + (step - 1) * topk**2)) // topk

    def drafter(self, forward: DrafterForward) -> None:
        """A forward of the drafter is through, logits and all."""
        batch = self._batch
        if batch is None:
            return
        mode = forward.forward_batch.forward_mode.name
        phase = {"DECODE": "draft", "DRAFT_EXTEND_V2": "extend", "DRAFT_EXTEND": "extend"}.get(mode, "prefill")
        tensors = dict(forward.tensors)
        batch.draft_step = batch.draft_step + 1 if phase == "draft" else 0
        if phase == "draft" and batch.parents_BW is not None:
            tensors["parents"] = batch.parents_BW.reshape(-1)
        facts = {"phase": phase, "step": batch.draft_step}
        self._split(batch, forward.forward_batch, "drafter", tensors, facts, riding={"phase": "extend"}, logits=forward.logits)

    def _split(
        self,
        batch: _Batch,
        forward_batch: Any,
        kind: str,
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, Any],
        *,
        riding: Mapping[str, Any],
        logits: Tensor | None = None,
    ) -> None:
        """An event for each request; ``riding`` replaces facts for those that ride along, which is a round without drafts."""
        rows = next(iter(tensors.values())).shape[0]
        if rows == 0:
            return
        counts = row_counts(forward_batch, len(batch.requests), rows)
        for at, (request, span) in enumerate(zip(batch.requests, spans(counts), strict=True)):
            own = {name: tensor[span].clone() for name, tensor in tensors.items()}
            if logits is not None:
                whole = logits.shape[0] == rows
                own["logits"] = logits[span if whole else slice(at, at + 1)].clone()
                own["logit_rows"] = torch.arange(counts[at]) if whole else torch.tensor([counts[at] - 1])
            rides = request.rid in batch.decoding
            if rides and kind == "drafter":
                given = {"proposed": torch.zeros(0, dtype=torch.int64), "emitted": own["input_ids"]}
                batch.events.append(_Event(request.rid, "round", given, {}))
            batch.events.append(_Event(request.rid, kind, own, {**facts, **riding} if rides else dict(facts)))


def riding(batch: Any) -> frozenset[str]:
    """Requests that ride along in a prefill. SGLang leaves ``decoding_reqs`` set on batches that come later."""
    return frozenset(r.rid for r in batch.decoding_reqs or ()) if batch.forward_mode.name == "MIXED" else frozenset()


def tree_parents(child_BD: Tensor, sibling_BD: Tensor) -> Tensor:
    """The parent of each proposed token [B, D - 1] as its index among the proposed, -1 for children of the root.

    Args:
        child_BD: first child of each node, -1 for none; node 0 is the root, the token last committed.
        sibling_BD: next sibling of each node.
    """
    found_BD = torch.full((child_BD.shape[0], child_BD.shape[1] - 1), ROOT, dtype=torch.int64)
    for row in range(child_BD.shape[0]):
        for node in range(child_BD.shape[1]):
            child = int(child_BD[row, node])
            while child > 0:
                found_BD[row, child - 1] = node - 1
                child = int(sibling_BD[row, child])
    return found_BD
