"""What the hooks of worker and scheduler write, request by request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_toys import Drafter, Request, Target, forward_batch, ids, live_worker, mode

from contract.files.torch_tensors import load_tensor
from eagle3_contract.engines.committed import committed
from eagle3_contract.engines.sglang.drafter_hooks import DrafterHooks
from eagle3_contract.engines.sglang.facts import start_facts
from eagle3_contract.engines.sglang.probe import Label, Probe, tree_parents
from eagle3_contract.engines.sglang.target_hooks import TargetHooks
from eagle3_contract.engines.spool import Spool
from eagle3_contract.engines.spool_events import Drafter as DrafterEvent
from eagle3_contract.engines.spool_events import Round
from eagle3_contract.engines.spool_events import Target as TargetEvent
from eagle3_contract.engines.spool_read import Spool as Read
from eagle3_contract.engines.spool_read import open_spool

DRAFTS = 3


class Engine:
    """Drives the toy modules through the probe as SGLang's scheduler and worker do."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, labels: dict[str, Label] | None = None, *, topk: int = 1) -> None:
        monkeypatch.setattr("eagle3_contract.engines.sglang.facts.installed_version", lambda: "0.5.23")
        self.folder, self.topk = folder, topk
        self.target, self.drafter = Target(), Drafter()
        spool = Spool(folder)
        self.probe = Probe(spool, labels or {})
        spool.event("start", **start_facts(live_worker(self.target, self.drafter), "eager"))
        TargetHooks(self.target, self.probe.target, sweep=True)
        DrafterHooks(self.drafter, self.probe.drafter)

    def step(self, requests: list[Request], inside: Callable[[Any], Any], name: str, decoding: list[Request] | None = None) -> Any:
        batch = SimpleNamespace(reqs=requests, decoding_reqs=decoding, forward_mode=mode(name), spec_info=None)
        result = SimpleNamespace()

        def work(_worker: Any, batch: Any) -> Any:
            with torch.no_grad():
                inside(batch)
            return result

        assert self.probe.run_batch(work, None, batch) is result
        return result

    def take(self, requests: list[Request], result: Any, then: Callable[[], None] = lambda: None) -> None:
        self.probe.take_result(lambda *_: then(), None, SimpleNamespace(reqs=requests), result)

    def prefill(self, requests: list[Request], first: list[int], name: str = "EXTEND", decoding: list[Request] | None = None) -> Any:
        """Prompts at once, and the drafter behind them; ``first`` are the tokens sampled. Those that ride along run one row."""
        riders = decoding or []

        def inside(_: Any) -> None:
            tokens = [(r.origin_input_ids + r.output_ids)[-1:] if r in riders else r.origin_input_ids for r in requests]
            starts = [len(r.origin_input_ids + r.output_ids) - 1 if r in riders else 0 for r in requests]
            lengths = [len(t) for t in tokens]
            positions = [s + i for s, n in zip(starts, lengths, strict=True) for i in range(n)]
            made = self.target.model(ids(*(t for part in tokens for t in part)), ids(*positions), forward_batch(name, lengths))
            shifted = [t for part, new in zip(tokens, first, strict=True) for t in (*part[1:], new)]
            last = torch.tensor(lengths).cumsum(0) - 1
            self.drafter(ids(*shifted), ids(*positions), forward_batch(name, lengths, torch.cat(made[1], -1)), last)

        return self.step(requests, inside, name, decoding)

    def round(
        self, requests: list[Request], drafts: list[list[int]], emitted: list[list[int]], tree: Any = None, depths: Any = (0, 1, 2, 3)
    ) -> Any:
        """Draft steps of one row (or ``topk``) each, the verification of nodes that lie so deep, and the extend."""
        width = 1 + len(drafts[0])

        def verify(_worker: Any, batch: Any) -> Any:
            rows = [[(r.origin_input_ids + r.output_ids)[-1], *d] for r, d in zip(requests, drafts, strict=True)]
            known = [len(r.origin_input_ids + r.output_ids) - 1 for r in requests]
            positions = [k + depth for k in known for depth in depths]
            made = self.target.model(ids(*(t for row in rows for t in row)), ids(*positions), forward_batch("TARGET_VERIFY"))
            says = torch.zeros(len(requests), width, dtype=torch.int64)
            for at, tokens in enumerate(emitted):
                says[at, : len(tokens)] = ids(*tokens)
            self.states, self.says, self.positions = torch.cat(made[1], -1), says.flatten(), positions
            return SimpleNamespace(next_token_ids=says.flatten(), accept_lens=ids(*map(len, emitted)))

        def inside(batch: Any) -> None:
            n = len(requests)
            tops = torch.ones(n, self.topk)
            for step in range(DRAFTS):
                chosen = torch.arange(self.topk).expand(n, -1) if step else torch.arange(-1, self.topk).expand(n, -1)
                found = (None, None, None, (None, None, chosen + ((step - 1) * self.topk**2 + self.topk if step else 0)))
                assert self.probe.tree(found, step, tops, tops, None, None, self.topk) is None
                if step < DRAFTS - 1:
                    fed = torch.randn(n * self.topk, 4)
                    self.drafter(ids(*[7] * n * self.topk), ids(*[9 + step] * n * self.topk), forward_batch("DECODE", None, fed))
            flat = ids(*(t for r, d in zip(requests, drafts, strict=True) for t in (r.output_ids[-1], *d)))
            batch.spec_info = SimpleNamespace(draft_token=flat, tree_topk=self.topk, **(tree or {}))
            self.probe.verify(verify, None, batch)
            lengths = [width] * n
            self.drafter(self.says, ids(*self.positions), forward_batch("DRAFT_EXTEND_V2", lengths, self.states))

        return self.step(requests, inside, "DECODE", requests)  # decoding_reqs is left over from an earlier batch, as in SGLang

    def read(self) -> Read:
        return open_spool(self.folder)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(tmp_path / "spool", monkeypatch, {"one": Label("first", "sample-1", "batched")})


def give(request: Request, *tokens: int, end: int | None = None) -> None:
    request.output_ids += tokens
    request.finished_len = end


def kinds(read: Read, request: str) -> list[str]:
    return [type(e.event).__name__ + (f" {e.event.phase}" if hasattr(e.event, "phase") else "") for e in read.requests[request].events]


def serve_two(engine: Engine) -> tuple[Request, Request]:
    one, two = Request("one", [3, 4, 5]), Request("two", [6])
    both = [one, two]

    def first() -> None:
        give(one, 10)
        give(two, 11)

    engine.take(both, engine.prefill(both, [10, 11]), first)

    def second() -> None:
        give(one, 20, 12, end=3)
        give(two, 13)

    engine.take(both, engine.round(both, [[20, 21, 22], [30, 31, 32]], [[20, 12], [13]]), second)
    return one, two


def test_a_batch_is_taken_apart(engine: Engine) -> None:
    serve_two(engine)
    read = engine.read()
    wanted = ["Target prefill", "Drafter prefill", "Drafter draft", "Drafter draft", "Target verify", "Round", "Drafter extend"]
    assert list(read.requests) == ["one", "two"]
    assert kinds(read, "one") == kinds(read, "two") == wanted
    events = read.requests["one"].events
    assert [e.event.step for e in events if isinstance(e.event, DrafterEvent)] == [0, 1, 2, 0]
    assert events[0].integers("input_ids") == [3, 4, 5]
    assert read.requests["two"].events[0].integers("position_ids") == [0]
    assert events[1].integers("input_ids") == [4, 5, 10]
    assert events[1].integers("logit_rows") == [2]
    assert events[4].integers("input_ids") == [10, 20, 21, 22]
    assert (events[5].integers("proposed"), events[5].integers("emitted")) == ([20, 21, 22], [20, 12])
    assert events[6].integers("input_ids") == [20, 12, 0, 0]
    assert events[6].integers("logit_rows") == [0, 1, 2, 3]
    assert read.requests["two"].events[6].integers("position_ids") == [1, 2, 3, 4]


def test_rows_are_those_of_the_request(engine: Engine) -> None:
    serve_two(engine)
    table = engine.target.model.embed_tokens.weight.detach()
    for request, token in (("one", 10), ("two", 11)):
        verified = engine.read().requests[request].events[4]
        assert torch.equal(load_tensor(verified.tensors()["boundary.0"])[0], table[token])


def test_labels_and_outputs(engine: Engine) -> None:
    serve_two(engine)
    read = engine.read()
    assert (read.requests["one"].start.prompt_id, read.requests["one"].start.sample, read.requests["one"].start.run) == (
        "first", "sample-1", "batched",
    )  # fmt: skip
    assert (read.requests["two"].start.prompt_id, read.requests["two"].start.run) == ("two", "")
    output = read.requests["one"].output
    assert output is not None
    assert output.integers("output_ids") == [10, 20, 12]
    assert read.requests["two"].output is None


def test_a_recorded_request_can_be_put_together(engine: Engine) -> None:
    serve_two(engine)
    made = committed(engine.read().requests["one"], max_rows=99)
    assert made.tokens == [3, 4, 5, 10, 20, 12]
    assert (made.first, made.end) == (0, 5)
    assert made.rounds == [([20, 21, 22], [20, 12], None)]


def test_what_is_emitted_beyond_the_end_is_no_output(engine: Engine) -> None:
    one = Request("one", [3])
    engine.take([one], engine.prefill([one], [10]), lambda: give(one, 10, 11, 12, end=2))
    output = engine.read().requests["one"].output
    assert output is not None
    assert output.integers("output_ids") == [10, 11]


def test_a_round_behind_the_end_is_dropped_and_counted(engine: Engine) -> None:
    one = Request("one", [3])
    first = engine.prefill([one], [10])
    one.output_ids.append(10)
    late = engine.round([one], [[20, 21, 22]], [[13]])  # the overlap schedule launches it before the first result is taken over

    def finish() -> None:
        one.finished_len = 1

    engine.take([one], first, finish)
    before = list(engine.folder.iterdir())
    engine.take([one], late)
    assert list(engine.folder.iterdir()) == before
    assert engine.probe.dropped_rounds == 1
    assert engine.read().count(Round) == 0


def test_a_retracted_request_is_no_longer_recorded(engine: Engine) -> None:
    one = Request("one", [3, 4])
    engine.take([one], engine.prefill([one], [10]), lambda: give(one, 10))
    result = engine.round([one], [[20, 21, 22]], [[13]])
    one.is_retracted = True
    engine.take([one], result)
    one.is_retracted = False
    engine.take([one], engine.prefill([one], [13]), lambda: give(one, 13, end=2))
    assert engine.probe.abandoned == {"one"}
    assert kinds(engine.read(), "one") == ["Target prefill", "Drafter prefill"]
    assert engine.read().requests["one"].output is None


def test_those_that_ride_along_in_a_prefill_are_rounds_without_drafts(engine: Engine) -> None:
    one, two = Request("one", [3, 4]), Request("two", [6, 7])
    engine.take([one], engine.prefill([one], [10]), lambda: give(one, 10))

    def both() -> None:
        give(one, 11, end=2)
        give(two, 12)

    engine.take([two, one], engine.prefill([two, one], [12, 11], "MIXED", [one]), both)
    read = engine.read()
    assert kinds(read, "one") == ["Target prefill", "Drafter prefill", "Target verify", "Round", "Drafter extend"]
    assert kinds(read, "two") == ["Target prefill", "Drafter prefill"]
    ridden = read.requests["one"].events[3]
    assert (ridden.integers("proposed"), ridden.integers("emitted")) == ([], [11])
    assert committed(read.requests["one"], max_rows=99).rounds == [([], [11], None)]


def test_a_tree_has_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tmp_path / "tree", monkeypatch, topk=2)
    one = Request("one", [3])
    engine.take([one], engine.prefill([one], [10]), lambda: give(one, 10))
    tree = {"retrieve_next_token": ids(1, 3, -1, -1)[None], "retrieve_next_sibling": ids(-1, 2, -1, -1)[None]}
    engine.take([one], engine.round([one], [[20, 21, 22]], [[20, 22, 9]], tree, (0, 1, 1, 2)), lambda: give(one, 20, 22, 9, end=4))
    events = engine.read().requests["one"].events
    rounds = [e for e in events if isinstance(e.event, Round)]
    assert rounds[0].integers("parents") == [-1, -1, 0]
    drafts = [e for e in events if isinstance(e.event, DrafterEvent) and e.event.phase == "draft"]
    assert [e.integers("parents") for e in drafts] == [[-1, -1], [0, 0]]
    assert committed(engine.read().requests["one"], max_rows=99).end == 4


def test_parents_of_a_tree_by_children_and_siblings() -> None:
    # root -> 1, 2; 1 -> 3; 2 -> 4, 5; and a chain
    child = torch.stack([ids(1, 3, 4, -1, -1, -1), ids(1, 2, 3, 4, 5, -1)])
    sibling = torch.stack([ids(-1, 2, -1, -1, 5, -1), ids(-1, -1, -1, -1, -1, -1)])
    assert tree_parents(child, sibling).tolist() == [[-1, -1, 0, 1, 1], [-1, 0, 1, 2, 3]]


def test_forwards_outside_of_a_batch_are_not_recorded(engine: Engine) -> None:
    engine.target.model(ids(1), ids(0), forward_batch("EXTEND", [1]))
    engine.drafter(ids(1), ids(0), forward_batch("DECODE", None, torch.zeros(1, 4)))
    engine.take([], SimpleNamespace())
    assert len(list(engine.folder.iterdir())) == 1


def test_a_batch_that_fails_leaves_nothing_behind(engine: Engine) -> None:
    one = Request("one", [3])

    def fail(_: Any) -> None:
        raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        engine.step([one], fail, "EXTEND")
    engine.target.model(ids(1), ids(0), forward_batch("EXTEND", [1]))
    assert engine.read().count(TargetEvent) == 0
