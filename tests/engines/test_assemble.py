"""From spools to bundles: every row in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from assembled import ACCEPTED, OUTPUT, PROMPT, bundle_of, ids
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import LAYERS, RECIPE, VOCAB, WIDTH, WRONG, Recording, states

from contract.errors import InputRejected
from contract.files.bundle import BundleRequest
from contract.files.torch_tensors import load_tensor
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.engines.assemble import Sampling


def assert_rows_right(request: BundleRequest) -> None:
    """Every state of every row is that of its token at its position, none of a rejected draft."""
    tokens, positions = ids(request), ids(request, "position_ids")
    for i, boundary in enumerate(RECIPE):
        assert torch.equal(load_tensor(request.tensors[f"slot.{i}"]), states(boundary, positions, tokens))
    for boundary in range(LAYERS + 1):
        assert torch.equal(load_tensor(request.tensors[f"boundary.{boundary}"]), states(boundary, positions, tokens))


def test_a_request_is_rebuilt(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED, sample="s0", run="")
    recording.end(drafted_tokens=12.0)
    bundle = bundle_of(recording.folder)
    (request,) = bundle.requests
    assert ids(request) == [*PROMPT, *OUTPUT[:-1]]
    assert ids(request, "position_ids") == list(range(14))
    assert_rows_right(request)
    assert (request.info.prompt_tokens, request.info.run, request.sample) == (7, "", "s0")
    phases = [(f.phase, f.round, f.step, f.rows) for f in request.info.forwards]
    assert phases[:5] == [("prefill", 0, 0, 7), ("draft", 0, 1, 1), ("draft", 0, 2, 1), ("extend", 1, 0, 4), ("draft", 1, 1, 1)]
    assert len(phases) == 15
    assert load_tensor(request.tensors["round.emitted"]).tolist() == [[22, 23, 24], [25, -1, -1], [26, 27, -1], [28, -1, -1]]
    assert load_tensor(request.tensors["round.proposed"]).tolist()[1] == [WRONG] * 3
    assert ids(request, "forward.3.input_ids") == [22, 23, 24, 0]
    assert request.tensors["forward.3.logits"].shape == (1, VOCAB)
    manifest = bundle.manifest
    assert (manifest.counts["rounds"].recorded, manifest.counts["rounds"].counted) == (4, 4)
    assert manifest.counts["forwards"].recorded == 15
    assert manifest.counts["forwards"].counted is None
    assert manifest.counters == {"rounds": 4.0, "drafted_tokens": 12.0}
    assert manifest.engine.flags == {"max_model_len": "64"}
    assert "prefix_ids" not in request.tensors
    assert "round.parents" not in request.tensors


def test_chunks_and_prefix(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED, chunk=3, cached=2, run="chunked", prompt_id="p")
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert ids(request, "prefix_ids") == PROMPT[:2]
    assert ids(request) == [*PROMPT, *OUTPUT[:-1]][2:]
    assert ids(request, "position_ids") == list(range(2, 14))
    assert_rows_right(request)
    assert request.id == "p@chunked"
    assert [f.phase for f in request.info.forwards[:6]] == ["prefill", "draft", "draft", "prefill", "draft", "draft"]


def test_a_tree_keeps_the_accepted_path(recording: Recording) -> None:
    recording.prompt("r0", PROMPT)
    recording.target("r0", "prefill", range(7), PROMPT)
    recording.drafter("r0", "prefill", 0, [*PROMPT[1:], 21], range(7))
    #            0   1   2   3   4   accepted: 1 (22), its child 3 (23)
    proposed, parents = [50, 22, 23, 23, 60], [-1, -1, 0, 1, 3]
    kept = [False, True, False, False, True, False]
    recording.target(
        "r0", "verify", [7, 8, 8, 9, 9, 10], [21, *proposed], [k == 0 and i > 0 and i not in (2, 4) for i, k in enumerate(kept)]
    )
    recording.round("r0", proposed, [22, 23, 24], parents)
    recording.output("r0", [21, 22, 23, 24])
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert ids(request) == [*PROMPT, 21, 22, 23]
    assert_rows_right(request)
    assert load_tensor(request.tensors["round.parents"]).tolist() == [parents]


def test_decoding_without_drafts(recording: Recording) -> None:
    recording.prompt("r0", PROMPT)
    recording.target("r0", "prefill", range(7), PROMPT)
    recording.target("r0", "decode", [7], [21])
    recording.target("r0", "verify", [8], [22])
    recording.round("r0", [], [23])
    recording.output("r0", [21, 22, 23])
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert ids(request) == [*PROMPT, 21, 22]
    assert_rows_right(request)


def test_a_row_that_was_run_again(recording: Recording) -> None:
    recording.prompt("r0", PROMPT)
    recording.target("r0", "prefill", range(5), PROMPT[:5])
    recording.target("r0", "prefill", range(3, 7), PROMPT[3:])
    recording.output("r0", [21])
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert_rows_right(request)


def test_what_is_beyond_the_output_is_left_out(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT[:3], [2, 3])
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert ids(request) == [*PROMPT, *OUTPUT[:3]]
    assert_rows_right(request)


def test_several_starts_make_one_bundle(tmp_path: Path) -> None:
    plain = Recording(tmp_path / "plain")
    plain.whole("r0", PROMPT, OUTPUT, ACCEPTED, prompt_id="p", run="")
    plain.end(drafted_tokens=12.0, mean_length=2.0)
    cached = Recording(tmp_path / "cached", start={"flags": {"max_model_len": "64", "enable_prefix_caching": "True"}})
    cached.whole("r0", PROMPT, OUTPUT, ACCEPTED, prompt_id="p", run="warm")
    cached.whole("r1", PROMPT, OUTPUT, ACCEPTED, prompt_id="p", run="cached", cached=4)
    cached.end(drafted_tokens=24.0, mean_length=3.0)
    bundle = bundle_of(plain.folder, cached.folder)
    assert [r.id for r in bundle.requests] == ["p", "p@cached"]
    assert bundle.manifest.counters == {
        "rounds": 12.0, "drafted_tokens": 36.0, "plain: mean_length": 2.0, "cached: mean_length": 3.0,
    }  # fmt: skip
    assert bundle.manifest.engine.flags == {"max_model_len": "64", "cached: enable_prefix_caching": "True"}
    assert bundle.manifest.counts["rounds"].recorded == 12


def test_two_engines_are_two_captures(tmp_path: Path) -> None:
    one, other = Recording(tmp_path / "one"), Recording(tmp_path / "other", start={"version": "0.31.0"})
    for recording in (one, other):
        recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
        recording.end()
    with pytest.raises(InputRejected, match=r"version '0\.32\.0' and '0\.31\.0'") as raised:
        bundle_of(one.folder, other.folder)
    assert raised.value.rule == "engine.spool-order"


def test_sampling(tmp_path: Path, recording: Recording) -> None:
    for i in range(3):
        recording.whole(f"r{i}", PROMPT, OUTPUT, ACCEPTED)
    recording.end()
    bundle = bundle_of(recording.folder, sampling=Sampling(requests=2, rows=10))
    assert len(bundle.requests) == 2
    counts = bundle.manifest.counts
    assert (counts["requests"].recorded, counts["requests"].counted, counts["rounds"].recorded) == (2, 3, 12)
    request = bundle.requests[0]
    assert request.tokens == 10
    assert_rows_right(request)
    assert load_tensor(request.tensors["round.emitted"]).tolist() == [[22, 23, 24]]
    assert max(f.round for f in request.info.forwards) == 1


@pytest.mark.parametrize(("rows", "chunk", "left"), [(5, None, 5), (5, 4, 5), (7, 7, 7)])
def test_sampling_within_the_prefill(recording: Recording, rows: int, chunk: int | None, left: int) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED, chunk=chunk)
    recording.end()
    (request,) = bundle_of(recording.folder, limits=DEFAULT_LIMITS.lowered(capture_rows=rows)).requests
    assert request.tokens == left
    assert request.info.prompt_tokens == min(left, 7)
    assert_rows_right(request)


def test_what_a_server_leaves_behind(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
    recording.prompt("r1", PROMPT)
    recording.target("r1", "prefill", range(7), PROMPT)
    with pytest.raises(InputRejected) as raised:
        bundle_of(recording.folder)
    assert raised.value.rule == "engine.spool-end"
    bundle = bundle_of(recording.folder, sampling=Sampling(unfinished=True))
    assert [r.id for r in bundle.requests] == ["r0"]
    assert bundle.manifest.counts["requests"].counted == 2
    assert bundle.manifest.counts["rounds"].counted is None


def test_a_half_written_event_is_none(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
    recording.end()
    (recording.folder / "000000099-1.safetensors.part").write_bytes(b"half")
    assert len(bundle_of(recording.folder).requests) == 1


@settings(max_examples=25, deadline=None)
@given(
    prompt=st.lists(st.integers(0, VOCAB - 2), min_size=1, max_size=9),
    accepted=st.lists(st.integers(0, 3), max_size=5),
    chunk=st.integers(1, 9),
    cached=st.integers(0, 8),
    late=st.integers(0, 3),
)
def test_whatever_was_accepted_is_rebuilt(
    tmp_path_factory: pytest.TempPathFactory, prompt: list[int], accepted: list[int], chunk: int, cached: int, late: int
) -> None:
    recording = Recording(tmp_path_factory.mktemp("spool") / "spool", sweep=False)
    cached = min(cached, len(prompt) - 1)
    last = 0 if not accepted else min(late, accepted[-1])  # an engine may emit more than the output keeps
    output = [(31 + 7 * i) % 90 for i in range(1 + sum(a + 1 for a in accepted) - last)]
    recording.whole("r", prompt, output, accepted, chunk=chunk, cached=cached)
    recording.end()
    (request,) = bundle_of(recording.folder).requests
    assert ids(request) == [*prompt, *output][cached : cached + request.tokens]
    assert cached + request.tokens >= len(prompt) + len(output) - 1
    for i, boundary in enumerate(RECIPE):
        assert torch.equal(load_tensor(request.tensors[f"slot.{i}"]), states(boundary, ids(request, "position_ids"), ids(request)))
    assert load_tensor(request.tensors["slot.0"]).shape[1] == WIDTH
