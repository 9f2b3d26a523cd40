"""The forward reproduces what every trainer computed, and only under the wiring that the trainer really had."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from contract.files.checkpoint import Checkpoint
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Rollout, Wiring

from .references import DATA, REFERENCES, Reference, speculators_classic, speculators_default, target_source
from .switches import SWITCHES, invented

TOLERANCE = 1e-5
CANNOT_ACT = {
    # One step only: nothing is fed back or advanced.
    "eagle-infer": {"feedback", "step_positions", "rollout"},
    # Without a final norm there is one state to feed back.
    "specforge-norm-output-false-0": {"feedback"},
    "specforge-norm-output-false-1": {"feedback"},
}


@cache
def _reference(name: str) -> Reference:
    return REFERENCES[name]()


def _run(r: Reference, wiring: Wiring, rollout: Rollout = Rollout.TEACHER) -> list[Tensor]:
    drafter = Drafter(wiring, MemorySource(invented(wiring, r.tensors)), target_source=target_source())
    return teacher_forced(
        drafter,
        r.input_ids,
        r.hidden_states,
        position_ids_T=r.position_ids,
        document_ids_T=r.document_ids,
        steps=len(r.expected_steps),
        rollout=rollout,
    ).logits_steps


def _bound(expected: Tensor) -> float:
    return TOLERANCE * max(1.0, float(expected.nan_to_num().abs().max()))


@pytest.mark.parametrize("name", REFERENCES)
def test_trainer_reference_is_reproduced_on_its_live_rows(name: str) -> None:
    r = _reference(name)
    for got, expected in zip(_run(r, r.wiring), r.expected_steps, strict=True):
        assert torch.equal(got.isnan(), expected.isnan())
        live = ~expected.isnan()
        assert int(live.sum()) > 2000
        assert float((got - expected)[live].abs().max()) <= _bound(expected)


@pytest.mark.parametrize(("name", "switch"), [(n, s) for n in REFERENCES for s in SWITCHES if s not in CANNOT_ACT.get(n, set())])
def test_reference_is_missed_with_any_switch_flipped(name: str, switch: str) -> None:
    r = _reference(name)
    flipped = SWITCHES[switch].flip(r.wiring)
    missed = False
    for got, expected in zip(_run(r, flipped, SWITCHES[switch].rollout), r.expected_steps, strict=True):
        live = ~expected.isnan() & ~got.isnan()
        missed |= float((got - expected)[live].abs().max()) > 100 * _bound(expected)
    assert missed


@pytest.mark.parametrize("name", CANNOT_ACT)
def test_switches_said_not_to_act_do_not(name: str) -> None:
    r = _reference(name)
    plain = _run(r, r.wiring)
    for switch in CANNOT_ACT[name]:
        for got, expected in zip(_run(r, SWITCHES[switch].flip(r.wiring), SWITCHES[switch].rollout), plain, strict=True):
            assert torch.equal(got.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("reference", [speculators_classic, speculators_default])
def test_feedback_shows_from_the_second_step_on_only(reference: type[Reference]) -> None:
    r = reference()
    flipped = _run(r, SWITCHES["feedback"].flip(r.wiring))
    first, *later = zip(flipped, r.expected_steps, strict=True)
    live = ~first[1].isnan()
    assert float((first[0] - first[1])[live].abs().max()) <= _bound(first[1])
    for got, expected in later:
        live = ~expected.isnan()
        assert float((got - expected)[live].abs().max()) > 100 * _bound(expected)


@pytest.mark.parametrize("reference", [speculators_classic, speculators_default])
def test_taps_name_the_layer_input_that_the_trainer_saved(reference: type[Reference]) -> None:
    """speculators saved cat(embedding, hidden stream) at the entry of its first layer."""
    r = reference()
    taps = Recorder()
    drafter = Drafter(r.wiring, MemorySource(r.tensors))
    teacher_forced(drafter, r.input_ids, r.hidden_states, position_ids_T=r.position_ids, document_ids_T=r.document_ids, taps=taps)
    assert r.layer_input_steps is not None
    rows = r.input_ids.shape[0] - 1
    for step, expected in enumerate(r.layer_input_steps):
        live = ~expected[:, 0].isnan()
        fed = taps.spread(0, "fc_out", rows) if step == 0 else taps.spread(step - 1, _handed_on(r.wiring), rows)
        assert torch.allclose(fed[live], expected[live, 64:], rtol=1e-5, atol=1e-5)


def _handed_on(wiring: Wiring) -> str:
    return "final_normed" if wiring.feedback.value == "post_norm" else "layers.0.out"


@pytest.mark.parametrize("name", ["specforge-classic-0", "eagle-train-1", "modelopt", "angelslim"])
def test_cached_drafting_reproduces_the_reference_where_it_is_fed_the_same_tokens(name: str) -> None:
    r = _reference(name)
    request = IncrementalDrafter(Drafter(r.wiring, MemorySource(r.tensors), target_source=target_source()))
    for t in range(4, 20):
        if t == 4:
            request.prefill(r.input_ids[: t + 2], r.hidden_states[: t + 1])
        else:
            request.commit(r.input_ids[t + 1 : t + 2], r.hidden_states[t : t + 1])
        drafted = request.draft(3, fed_tokens=r.input_ids[t + 2 : t + 4])
        for step, expected in enumerate(r.expected_steps):
            assert float((drafted.logits[step] - expected[t]).abs().max()) <= _bound(expected)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("speculators-default", "speculators-0.9.0/default_0.9.0"),
        ("eagle-train-0", "eagle-official/ckpt"),
        ("modelopt", "modelopt-0.47.0/export_offline"),
        ("angelslim", "angelslim-0.5.0/ckpt_full"),
    ],
)
def test_checkpoint_as_the_trainer_wrote_it_reproduces_the_reference(name: str, folder: str) -> None:
    """Through the project's own readers: headers, rows, the pickle-based file of EAGLE; the embedding from a shard of the target."""
    r = _reference(name)
    source = CheckpointSource(Checkpoint.open(DATA / folder, known=("reference.safetensors",), allow_pickle=True))
    target = CheckpointSource(Checkpoint.open(DATA / "target_tiny" / "model-00001-of-00008.safetensors"))
    out = teacher_forced(
        Drafter(r.wiring, source, target_source=target),
        r.input_ids,
        r.hidden_states,
        position_ids_T=r.position_ids,
        document_ids_T=r.document_ids,
    )
    for got, expected in zip(out.logits_steps, r.expected_steps, strict=True):
        live = ~expected.isnan()
        assert float((got - expected)[live].abs().max()) <= _bound(expected)


@pytest.mark.parametrize("name", [n for n in REFERENCES if not n.startswith("speculators")])
def test_taps_name_the_layer_output_that_the_trainer_saved(name: str) -> None:
    r = _reference(name)
    taps = Recorder()
    drafter = Drafter(r.wiring, MemorySource(r.tensors), target_source=target_source())
    teacher_forced(drafter, r.input_ids, r.hidden_states, taps=taps)
    assert len(r.layer_out_steps) == len(r.expected_steps)
    for step, expected in enumerate(r.layer_out_steps):
        got = taps.spread(step, "layers.0.out", expected.shape[0])
        assert torch.equal(got.isnan(), expected.isnan())
        assert float((got - expected).nan_to_num().abs().max()) <= _bound(expected)
