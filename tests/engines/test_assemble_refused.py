"""A spool that contradicts itself, is hostile or damaged makes no bundle, and the reason is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from assembled import ACCEPTED, OUTPUT, PROMPT, bundle_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import RECIPE, START, Recording, ints

from contract.errors import InputRejected, LimitExceeded, UserError
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.engines.spool_read import open_spool

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
