"""From spools to bundles: every row in its place, and everything that does not fit refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import LAYERS, RECIPE, START, VOCAB, WIDTH, WRONG, Recording, ints, states

from contract.errors import InputRejected, LimitExceeded, UserError
from contract.files.bundle import Bundle, BundleRequest, open_bundle
from contract.files.bundle_manifest import ModelInfo
from contract.files.torch_tensors import load_tensor
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.engines.assemble import Sampling, assemble
from eagle3_contract.engines.spool_read import open_spool

TARGET = ModelInfo(id="tiny", model_type="llama", files={})
PROMPT = [11, 12, 13, 14, 15, 16, 17]
OUTPUT = [21, 22, 23, 24, 25, 26, 27, 28]
ACCEPTED = [2, 0, 1, 0]  # 1 + 3 + 1 + 2 + 1 = 8 tokens


def bundle_of(*folders: Path, limits: Limits = DEFAULT_LIMITS, recipe: Sequence[int] = RECIPE, **more: object) -> Bundle:
    spools = [open_spool(f, limits=limits) for f in folders]
    out = folders[0].parent / "bundle"
    return open_bundle(assemble(spools, out, recipe=tuple(recipe), target=TARGET, drafter=None, limits=limits, **more))  # type: ignore[arg-type]


def ids(request: BundleRequest, name: str = "input_ids") -> list[int]:
    found: list[int] = load_tensor(request.tensors[name]).tolist()
    return found


def assert_rows_right(request: BundleRequest) -> None:
    """Every state of every row is that of its token at its position, none of a rejected draft."""
    tokens, positions = ids(request), ids(request, "position_ids")
    for i, boundary in enumerate(RECIPE):
        assert torch.equal(load_tensor(request.tensors[f"slot.{i}"]), states(boundary, positions, tokens))
    for boundary in range(LAYERS + 1):
        assert torch.equal(load_tensor(request.tensors[f"boundary.{boundary}"]), states(boundary, positions, tokens))


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "spool")


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


Fault = Callable[[Recording], None]


def lost_row(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(3), PROMPT[:3])
    r.target("r0", "prefill", range(4, 7), PROMPT[4:])
    r.output("r0", [21])


def two_values(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(5), PROMPT[:5])
    r.target("r0", "prefill", range(4, 7), PROMPT[4:], [True, False, False])
    r.output("r0", [21])


def other_token(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), [*PROMPT[:-1], 90])
    r.output("r0", [21])


def unexplained(r: Recording) -> None:
    r.whole("r0", PROMPT, OUTPUT, ACCEPTED[:-1])


def half_a_prefill(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(5), PROMPT[:5])
    r.output("r0", [21])


def other_output(r: Recording) -> None:
    r.whole("r0", PROMPT, OUTPUT, [2])
    r.output("r1", OUTPUT)


def says_otherwise(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.target("r0", "verify", [7, 8], [21, 22])
    r.round("r0", [22], [22, 30])
    r.output("r0", [21, 22, 23])


def round_without_rows(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.round("r0", [22], [22, 23])
    r.output("r0", [21, 22, 23])


def rows_without_round(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.target("r0", "verify", [7, 8], [21, 22])
    r.target("r0", "verify", [9, 10], [23, 24])
    r.output("r0", [21, 22, 23])


def accepted_what_was_not_proposed(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.target("r0", "verify", [7, 8], [21, 40])
    r.round("r0", [40], [22, 23])
    r.output("r0", [21, 22, 23])


def verified_other_drafts(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.target("r0", "verify", [7, 8], [21, 41])
    r.round("r0", [22], [22, 23])
    r.output("r0", [21, 22, 23])


def verified_elsewhere(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.target("r0", "verify", [8, 9], [21, 22])
    r.round("r0", [22], [22, 23])
    r.output("r0", [21, 22, 23])


def step_left_out(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(7), PROMPT)
    r.drafter("r0", "prefill", 0, PROMPT, range(7))
    r.drafter("r0", "draft", 2, [7], [8])
    r.output("r0", [21])


def no_output(r: Recording) -> None:
    r.prompt("r0", PROMPT)


def no_prompt(r: Recording) -> None:
    r.output("r0", [21])


def two_prompts(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.prompt("r0", PROMPT)


def two_outputs(r: Recording) -> None:
    r.whole("r0", PROMPT, [21], [])
    r.output("r0", [21])


def two_starts(r: Recording) -> None:
    r.spool.event("start", **START)
    r.whole("r0", PROMPT, [21], [])


def slot_too_few(r: Recording) -> None:
    r.recipe = RECIPE[:2]
    r.whole("r0", PROMPT, OUTPUT, ACCEPTED)


def slots_change(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "prefill", range(5), PROMPT[:5])
    r.recipe = RECIPE[:2]
    r.target("r0", "prefill", range(5, 7), PROMPT[5:])
    r.output("r0", [21])


def nothing(_: Recording) -> None:
    return None


def stopped_at_the_limit(r: Recording) -> None:
    r.whole("r0", PROMPT, [21], [])
    r.spool.event("full", limit_bytes=12)


def cached_whole(r: Recording) -> None:
    r.prompt("r0", PROMPT)
    r.target("r0", "decode", [7], [21])
    r.output("r0", [21, 22])


FAULTS: list[tuple[Fault, str, str]] = [
    (lost_row, "spool-row", "rows from token 4 on, and those before end at 3"),
    (two_values, "spool-row", "token 4 was run twice, with two values of slot.0"),
    (other_token, "spool-row", "row 6 is token 6 = 90; token 6 is 17"),
    (unexplained, "spool-tokens", r"output token 7 \(28\) has no forward"),
    (half_a_prefill, "spool-tokens", r"output token 0 \(21\)"),
    (other_output, "spool-order", "request r1 has no prompt"),
    (says_otherwise, "spool-tokens", r"emitted \[22, 30\], the output says \[22, 23\]"),
    (round_without_rows, "spool-order", "no rows of the target verify"),
    (rows_without_round, "spool-order", "before the round of its last verification"),
    (accepted_what_was_not_proposed, "spool-order", "token 22 is no draft"),
    (verified_other_drafts, "spool-order", r"the target ran \[21, 41\]"),
    (verified_elsewhere, "spool-order", "verified from position 8, and 8 tokens are known"),
    (step_left_out, "spool-order", "draft step 2 of the drafter after step 0"),
    (no_output, "spool-tokens", "r0 has no output"),
    (no_prompt, "spool-order", "r0 has no prompt"),
    (two_prompts, "spool-order", "a second event prompt of request r0"),
    (two_outputs, "spool-order", "a second event output of request r0"),
    (two_starts, "spool-order", "a second event start"),
    (slot_too_few, "recipe-unknown", r"the engine fed 2 states, its reading says \[0, 2, 3\]"),
    (slots_change, "spool-read", "the number of slots changes"),
    (nothing, "spool-tokens", "no request of 0 was finished"),
    (stopped_at_the_limit, "spool-full", "stopped at 12 bytes"),
    (cached_whole, "spool-row", "the first row is token 7 of a prompt of 7"),
]


@pytest.mark.parametrize(("fault", "rule", "says"), FAULTS, ids=[f.__name__ for f, _, _ in FAULTS])
def test_a_contradiction_is_refused(recording: Recording, fault: Fault, rule: str, says: str) -> None:
    fault(recording)
    recording.end()
    with pytest.raises(InputRejected, match=says) as raised:
        bundle_of(recording.folder)
    assert raised.value.rule == f"engine.{rule}"
    assert not (recording.folder.parent / "bundle").exists()


PREFILL: dict[str, object] = {"kind": "target", "request": "r0", "phase": "prefill"}
HOSTILE: list[tuple[str, dict[str, object], dict[str, torch.Tensor]]] = [
    ("unknown key", {"kind": "output", "request": "r0", "requests": 1}, {"output_ids": ints([1])}),
    ("unknown kind", {"kind": "outputs", "request": "r0"}, {"output_ids": ints([1])}),
    ("missing key", {"kind": "prompt", "request": "r1", "run": ""}, {"input_ids": ints([1])}),
    ("wrong type", {"kind": "drafter", "request": "r0", "phase": "draft", "step": "1"}, {"input_ids": ints([1])}),
    ("negative", {"kind": "drafter", "request": "r0", "phase": "draft", "step": -1}, {"input_ids": ints([1])}),
    ("control character", {"kind": "output", "request": "r\u0000"}, {"output_ids": ints([1])}),
    ("endless counter", {"kind": "end", "counters": {"rounds": 1e300}}, {}),
    ("counter below zero", {"kind": "end", "counters": {"rounds": -1.0}}, {}),
    ("no tensor", {"kind": "output", "request": "r0"}, {}),
    ("unknown tensor", {"kind": "output", "request": "r0"}, {"output_ids": ints([1]), "more": ints([1])}),
    ("float ids", {"kind": "output", "request": "r0"}, {"output_ids": torch.ones(1)}),
    ("no rows", PREFILL, {"input_ids": ints([]), "position_ids": ints([]), "slot.0": torch.ones(0, 4)}),
    ("rows differ", PREFILL, {"input_ids": ints([1]), "position_ids": ints([1]), "slot.0": torch.ones(2, 4)}),
    ("slot left out", PREFILL, {"input_ids": ints([1]), "position_ids": ints([1]), "slot.1": torch.ones(1, 4)}),
    ("positions differ", PREFILL, {"input_ids": ints([1]), "position_ids": ints([1, 2]), "slot.0": torch.ones(1, 4)}),
    ("parents differ", {"kind": "round", "request": "r0"}, {"proposed": ints([1, 2]), "emitted": ints([1]), "parents": ints([0])}),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "tensors"), [h[1:] for h in HOSTILE], ids=[h[0] for h in HOSTILE])
def test_a_hostile_event_is_refused(recording: Recording, facts: dict[str, object], tensors: dict[str, torch.Tensor]) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
    recording.spool.event(str(facts["kind"]), tensors, **{k: v for k, v in facts.items() if k != "kind"})
    with pytest.raises(InputRejected) as raised:
        open_spool(recording.folder)
    assert raised.value.rule == "engine.spool-read"


def test_files_that_are_no_events(recording: Recording, tmp_path: Path) -> None:
    (recording.folder / "notes.txt").write_text("no event")
    with pytest.raises(InputRejected, match=r"notes\.txt is no event"):
        open_spool(recording.folder)
    (recording.folder / "notes.txt").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    os.symlink(elsewhere, recording.folder / "000000009-1.safetensors")
    with pytest.raises(UserError) as raised:
        open_spool(recording.folder)
    assert raised.value.rule in ("files.symlink", "files.path-escape")


def test_limits(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
    recording.end()
    for name, value in (("spool_events", 3), ("capture_bytes", 2000)):
        with pytest.raises(LimitExceeded, match=name):
            open_spool(recording.folder, limits=DEFAULT_LIMITS.lowered(**{name: value}))


def test_events_of_one_request_from_two_processes(recording: Recording) -> None:
    recording.whole("r0", PROMPT, OUTPUT, ACCEPTED)
    last = max(recording.folder.iterdir())
    recording.drafter("r0", "extend", 0, [7], [9])
    new = max(recording.folder.iterdir())
    assert new != last
    new.rename(recording.folder / f"{new.name.partition('-')[0]}-1.safetensors")
    with pytest.raises(InputRejected, match="two processes"):
        open_spool(recording.folder)


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


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small spool that makes a bundle."""
    recording = Recording(tmp_path_factory.mktemp("sound") / "spool", sweep=False)
    recording.whole("r", PROMPT, OUTPUT, ACCEPTED)
    recording.end()
    return recording.folder


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_spool_is_refused_or_harmless(sound: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever bytes change, the answer is a bundle or a reason, never a crash."""
    folder = tmp_path_factory.mktemp("damaged") / "spool"
    shutil.copytree(sound, folder)
    file = data.draw(st.sampled_from(sorted(folder.iterdir())))
    held = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(held[: data.draw(st.sampled_from([len(held), len(held), len(held) // 2]))])
    assert outcome(folder).startswith(("engine.", "files.", "bundle.", "a bundle"))


def outcome(folder: Path) -> str:
    """The rule that a spool breaks, if it breaks one."""
    try:
        return f"a bundle of {len(bundle_of(folder).requests)}"
    except UserError as error:
        return error.rule
