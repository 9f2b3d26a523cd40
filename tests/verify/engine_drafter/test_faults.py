"""Each fault of the simulated engine is found under its own rule, at the row where it is made, and explained."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from contract.findings import ExitCode
from verify.engine_drafter.conftest import Run
from verify.engine_drafter.simulated import simulate
from verify.engine_drafter.simulated_engine import FAULTS, PROMPT, WINDOW, Engine

TOKENS = 64
CHAIN = {"tokens": TOKENS}
SGLANG = {"tokens": TOKENS, "style": "sglang"}
TREE = {"tokens": 56, "style": "sglang", "topk": 4, "drafts": 7}
LONG = {"tokens": TOKENS, "drafts": 4}
PREEMPTED = {"tokens": TOKENS, "preempted": (4,)}
CHUNKED = {"tokens": TOKENS, "chunk": 10}


@dataclass(frozen=True)
class Found:
    """What the one failed check says: its rule and dimension, the place of its first row, and words of its message."""

    rule: str
    tensor: str
    phase: str
    token: int | None
    words: str
    dimension: str = "engine"
    how: dict[str, object] | None = None
    request: str = "r-00"
    requests: int = 1


EVERYWHERE = {
    "shifted-ids": Found("input-ids", "input_ids", "prefill", 0, "the row's own: nothing is shifted"),
    "chunk-boundary": Found("input-ids", "input_ids", "prefill", 9, "no token of the sequence near it", how=CHUNKED),
    "chunk-end-of-prompt": Found("input-ids", "input_ids", "prefill", 9, "the last one of the whole prompt", how=CHUNKED),
    "position-plus-one": Found("positions", "position_ids", "prefill", 0, "off by +1, as in every row"),
    "constant-positions": Found("positions", "position_ids", "draft", PROMPT, "positions do not advance"),
    "draft-position-plus-one": Found("positions", "position_ids", "draft", PROMPT, "off by +1 in every draft row and in no committed one"),
    "no-rewrite": Found("draft-kv", "state_out", "extend", 26, "as they were drafted, in the forward that should rewrite them, too"),
    "rejected-kept": Found("draft-kv", "state_out", "draft", 25, "the rejected rows of all earlier extends"),
    "rejected-in-sight": Found("draft-kv", "state_out", "draft", 25, "rejected rows that the extend left behind the last committed one"),
    "slots-too-many": Found("draft-kv", "state_out", "draft", PROMPT, "sees as many slots too many as its draft step counts", how=LONG),
    "drafts-not-seen": Found("draft-kv", "state_out", "draft", PROMPT + 1, "no draft row of the earlier steps", how=LONG),
    "own-lane": Found("draft-kv", "state_out", "draft", PROMPT + 1, "in its own place of the earlier steps", how=TREE),
    "siblings": Found("draft-kv", "state_out", "draft", PROMPT + 1, "the draft rows of other branches, too", how=TREE),
    "lost-chunk": Found("drafter-forward", "state_out", "extend", PROMPT, "none of"),
    "refill-wrong-id": Found("input-ids", "input_ids", "prefill", PROMPT, "no token of the sequence near it", how=PREEMPTED),
    "refill-not-seen": Found("drafter-forward", "state_out", "draft", None, "none of", how=PREEMPTED),
    "norm-before-residual": Found("drafter-wiring", "state_out", "prefill", 0, "norm_before_residual true instead of false", "wiring"),
    "hidden-first": Found("drafter-wiring", "state_out", "prefill", 0, "concat_order hidden_first instead of embedding_first", "wiring"),
    "rope-theta": Found("drafter-wiring", "state_out", "prefill", 2, "theta 500000 instead of default with theta 10000", "wiring"),
    "no-final-norm": Found("drafter-wiring", "final_normed", "prefill", 0, "final_norm false instead of true", "wiring"),
    "hidden-norm-of-ones": Found("drafter-wiring", "state_out", "prefill", 0, "ones in place of layers.0.hidden_norm.weight", "wiring"),
    "zero-embedding": Found("drafter-wiring", "state_out", "prefill", 0, "zeros in place of the embedding", "wiring"),
    "other-embedding": Found("drafter-forward", "state_out", "prefill", 0, "none of"),
    "normed-feedback": Found("feedback", "hidden_in", "draft", PROMPT, "the parent's state behind the final norm"),
    "stale-state": Found("feedback", "hidden_in", "draft", PROMPT + 2, "it is state_out of draft step 1 of the same round", how=LONG),
    "neighbour-row": Found("hidden-input", "hidden_in", "extend", PROMPT, "fc_out of request r-00", request="r-01", requests=2),
    "neighbour-states": Found("fc-input", "fc_in", "extend", PROMPT, "its own state of request r-00", request="r-01", requests=2),
    "permuted-slots": Found("fc-input", "fc_in", "prefill", 0, "slot 0 carries the state of slot 1; slot 1 carries the state of slot 0"),
    "absolute-map": Found("vocab-map", "proposed", "prefill", PROMPT - 1, "d2t is read as absolute ids", "vocab", SGLANG),
    "permuted-map": Found("vocab-map", "proposed", "prefill", PROMPT - 1, "its tokens, in another order of the draft ids", "vocab", SGLANG),
    "permuted-head": Found("vocab-map", "logits", "prefill", PROMPT - 1, "another order of the draft ids", "vocab"),
    "other-head": Found("logits", "logits", "prefill", PROMPT - 1, "the first rows of the target's head"),
    "scaled-head": Found("logits", "logits", "prefill", PROMPT - 1, "1.01 times those of our head"),
    "wrong-argmax": Found("proposals", "proposed", "extend", None, "is not the first of the row's logits"),
    "worst-branch": Found("proposals", "proposed", "extend", None, "leaves out a branch likelier", how=TREE),
    "refused-draft": Found("verification", "emitted", "verification", None, "a right draft was refused"),
}


@pytest.mark.parametrize("fault", EVERYWHERE)
def test_a_fault_is_found_and_located(run: Run, fault: str) -> None:
    due = EVERYWHERE[fault]
    judged = run(Engine(fault=fault, **(due.how or CHAIN)), due.requests)
    assert judged.exit_code is ExitCode.VIOLATED
    check = judged.one(f"engine.{due.rule}")
    first = check.evidence["first"]
    assert due.words in check.message
    assert (check.dimension, first["tensor"], first["phase"], first["request"]) == (due.dimension, due.tensor, due.phase, due.request)
    assert due.token is None or first["token"] == due.token, check.message
    assert judged.measurement["first"]["rule"] == check.rule
    assert check.fix


def test_all_faults_are_here() -> None:
    assert {*EVERYWHERE, "blocks-reused", "window", "fc-skipped", "missing-row", "skipped-round"} == set(FAULTS)


def test_the_same_maps_and_heads_in_logits_of_the_targets_vocabulary(run: Run) -> None:
    """vLLM shows its logits where the map puts them, so that a wrong map shows in them already."""
    check = run(Engine(fault="absolute-map", tokens=40)).one("engine.vocab-map")
    assert "stand at other tokens than the contract's map says: d2t is read as absolute ids" in check.message


def test_only_the_round_at_fault_is_named(run: Run) -> None:
    check = run(Engine(fault="wrong-argmax", tokens=TOKENS)).one("engine.proposals")
    assert check.evidence["first"]["round"] == 4
    assert check.evidence["rows"] == 3  # each of the round's proposals


def test_a_committed_row_that_never_ran(run: Run) -> None:
    """The forward that lacks the row is named; what follows from it is not called anything else than unexplained or stale."""
    judged = run(Engine(fault="missing-row", tokens=TOKENS))
    assert "engine.rows-accounted" in judged.rules
    check = next(c for c in judged.failed if c.rule == "engine.rows-accounted")
    assert "committed rows never ran from the target's states" in check.message
    assert judged.rules == {"engine.rows-accounted", "engine.draft-kv"}, judged.text
    assert check.evidence["first"]["round"] >= 4


def test_a_round_without_the_drafter_leaves_a_hole(run: Run) -> None:
    """Rows of the round that was left out never ran; the rounds behind it are accounted for all the same (seen on vLLM)."""
    judged = run(Engine(fault="skipped-round", tokens=TOKENS))
    hole, zeros = (c for c in judged.failed if c.rule == "engine.rows-accounted")
    assert "the drafter was left out for whole rounds before it" in hole.message
    assert "zeros were proposed in a round without running the drafter" in zeros.message
    assert hole.evidence["first"]["round"] == 5
    ((_, request),) = simulate(Engine(fault="skipped-round", tokens=TOKENS), 1)
    first = PROMPT + 1 + sum(map(len, request.emitted[:3]))
    last = first + len(request.emitted[3]) - 1
    assert f"the drafter was not run for round 4: tokens {first} to {last} were never fed" in hole.message
    assert hole.fix is not None
    assert "gpu_model_runner.py" in hole.fix
    assert judged.rules == {"engine.rows-accounted", "engine.draft-kv"}, judged.text
    assert "committed rows before it never ran" in next(c.message for c in judged.failed if c.rule == "engine.draft-kv")
    assert "unaccounted" not in judged.measurement["rows"]


@pytest.mark.parametrize("fault", ["norm-before-residual", "no-rewrite"])
def test_found_in_bfloat16_too(run: Run, fault: str) -> None:
    judged = run(Engine(fault=fault, tokens=TOKENS, dtype=torch.bfloat16))
    assert judged.rules == {"engine.drafter-wiring" if fault == "norm-before-residual" else "engine.draft-kv"}, judged.text


def test_two_faults_at_once_are_told_apart(run: Run) -> None:
    """A wiring that differs, and under it a cache: each is named with its own rows."""
    judged = run(Engine(fault="rejected-kept+norm-before-residual", tokens=TOKENS))
    assert judged.rules == {"engine.drafter-wiring", "engine.draft-kv"}, judged.text
    wiring, cache = (next(c for c in judged.failed if c.rule == f"engine.{name}") for name in ("drafter-wiring", "draft-kv"))
    assert "norm_before_residual" in wiring.message
    assert wiring.evidence["first"]["phase"] == "prefill"
    assert "rejected rows of all earlier extends" in cache.message


@pytest.mark.parametrize("how", [{"style": "vllm"}, {"style": "sglang", "drafts": 2}, {"preempted": (3,)}, {"chunk": 10}])
def test_slots_too_many_however_it_runs(run: Run, how: dict[str, object]) -> None:
    """What stands in the slots that are read too many is zeros, rejected rows or drafts of earlier rounds."""
    check = run(Engine(fault="slots-too-many", **{"tokens": TOKENS, "drafts": 4, **how})).one("engine.draft-kv")
    assert "disable_padded_drafter_batch" in (check.fix or "")
    assert check.evidence["explanation"]["fits"]


def test_blocks_that_are_used_again_are_no_fault(run: Run) -> None:
    """Who reads its own rows only never sees what others left."""
    assert run(Engine(fault="blocks-reused", tokens=TOKENS, drafts=4), 3).failed == []


def test_slots_too_many_in_blocks_that_served_others(run: Run) -> None:
    check = run(Engine(fault="slots-too-many+blocks-reused", tokens=TOKENS, drafts=4), 3).one("engine.draft-kv")
    assert "with what the requests before it left in them" in check.message
    assert len(check.evidence["per_request"]) == 3


def test_a_window_that_a_serving_flag_asks_for(run: Run) -> None:
    """The flags that the engine ran with are part of its reading: the flag is named, and it alone explains the rows."""
    # SGLang: a token sees the window and itself.
    flags = (("speculative_draft_window_size", str(WINDOW - 1)), ("speculative_algorithm", "EAGLE3"), ("cached: page_size", "4"))
    check = run(Engine(fault="window", flags=flags, **SGLANG)).one("engine.drafter-wiring")
    assert f"window {WINDOW} instead of" in check.message
    assert "flag --speculative_draft_window_size" in (check.fix or "")


def test_a_window_that_no_flag_asks_for(run: Run) -> None:
    """The twin without the flag: the same rows, and nothing in the files or flags that makes them so."""
    assert run(Engine(fault="window", **SGLANG)).rules == {"engine.drafter-forward"}
