"""Hooks on live modules: what is given and what is made, under its name, and as it was at that moment."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sglang_toys import CAPTURED, LAYERS, WIDTH, Drafter, Target, forward_batch, ids
from torch import nn

from eagle3_contract.engines.sglang.drafter_hooks import DrafterForward, DrafterHooks
from eagle3_contract.engines.sglang.target_hooks import NoCapturingModel, TargetForward, TargetHooks, slots, stream_at_entry


def run_target(target: Target, *, sweep: bool) -> TargetForward:
    seen: list[TargetForward] = []
    TargetHooks(target, seen.append, sweep=sweep)
    with torch.no_grad():
        target.model(ids(3, 5), ids(0, 1), forward_batch("EXTEND", [2]))
    (forward,) = seen
    return forward


def boundary(target: Target, n: int) -> torch.Tensor:
    """The toy's residual stream: the embedding, and what each layer added (its number, from 1)."""
    return target.model.embed_tokens.weight.detach()[[3, 5]] + sum(range(1, n + 1))


@pytest.mark.parametrize("packed", [False, True])
def test_captured_states_are_slots_in_their_order(packed: bool) -> None:
    target = Target(packed=packed)
    tensors = run_target(target, sweep=False).tensors
    assert list(tensors) == ["input_ids", "position_ids", "slot.0", "slot.1", "slot.2", "final_norm"]
    for i, n in enumerate(CAPTURED):
        torch.testing.assert_close(tensors[f"slot.{i}"], boundary(target, n))
    torch.testing.assert_close(tensors["final_norm"], boundary(target, LAYERS) * 2)


def test_a_sweep_sees_every_boundary() -> None:
    target = Target()
    tensors = run_target(target, sweep=True).tensors
    for n in range(LAYERS + 1):
        torch.testing.assert_close(tensors[f"boundary.{n}"], boundary(target, n))


def test_without_capture_the_normed_state_is_what_is_fed() -> None:
    target = Target()
    target.model.layers_to_capture = []
    tensors = run_target(target, sweep=False).tensors
    assert torch.equal(tensors["slot.0"], tensors["final_norm"])
    assert "slot.1" not in tensors


def test_ids_come_from_the_batch_where_the_model_gets_embeddings() -> None:
    seen: list[TargetForward] = []
    target = Target()
    TargetHooks(target, seen.append, sweep=False)
    target.model.forward = lambda input_ids, positions, forward_batch: torch.zeros(2, WIDTH)  # a stand-in
    batch = forward_batch("EXTEND", [2])
    batch.input_ids = ids(7, 8)
    target.model(None, ids(0, 1), batch)
    assert seen[0].tensors["input_ids"].tolist() == [7, 8]


def test_a_target_that_captures_nowhere_is_named() -> None:
    with pytest.raises(NoCapturingModel, match="no module of Linear has layers_to_capture"):
        TargetHooks(nn.Linear(1, 1), lambda _: None, sweep=False)


def test_slots_of_a_packed_tensor_are_as_wide_as_the_stream() -> None:
    parts = slots(torch.zeros(2, 3), torch.arange(12.0).reshape(2, 6))
    assert [p.tolist() for p in parts] == [[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]


def test_models_of_the_older_style_pass_the_residual_along() -> None:
    hidden, residual = torch.ones(1, 2), torch.full((1, 2), 2.0)
    assert stream_at_entry({"hidden_states": hidden, "residual": None}).tolist() == [[1, 1]]
    assert stream_at_entry({"hidden_states": hidden, "residual": residual, "forward_batch": object()}).tolist() == [[3, 3]]
    with pytest.raises(TypeError, match="is a str"):
        stream_at_entry({"hidden_states": "gone"})


@pytest.mark.parametrize("more", [{}, {"single": True, "tuple_fc": True}])
def test_a_forward_of_the_drafter_is_whole(more: dict[str, bool]) -> None:
    seen: list[DrafterForward] = []
    drafter = Drafter(**more)
    DrafterHooks(drafter, seen.append)
    fed = torch.randn(2, len(CAPTURED) * WIDTH)
    kept = fed.clone()
    with torch.no_grad():
        out, state = drafter(ids(3, 5), ids(0, 1), forward_batch("EXTEND", [2], fed), torch.tensor([1]))
        fed.zero_()
        logits, made = out.next_token_logits.clone(), state.clone()
        out.next_token_logits.zero_()
        state.zero_()
        fused = kept @ drafter.model.fc.weight.T
    (forward,) = seen
    names = ["input_ids", "position_ids", "fc_in", "fc_out", "hidden_in", "final_normed", "state_out"]
    assert list(forward.tensors) == names
    assert torch.equal(forward.tensors["fc_in"], kept), "copied at once"
    torch.testing.assert_close(forward.tensors["fc_out"], fused)
    assert torch.equal(forward.tensors["hidden_in"], forward.tensors["fc_out"])
    assert torch.equal(forward.tensors["state_out"], made)
    assert torch.equal(forward.tensors["final_normed"], made * 2)
    assert forward.logits is not None
    assert torch.equal(forward.logits, logits)


def test_where_fc_is_skipped_nothing_is_said_of_it() -> None:
    seen: list[DrafterForward] = []
    drafter = Drafter()
    DrafterHooks(drafter, seen.append)
    fed = torch.randn(2, WIDTH)
    drafter(ids(3, 5), ids(7, 8), forward_batch("DECODE", None, fed))
    assert "fc_in" not in seen[0].tensors
    assert "fc_out" not in seen[0].tensors
    assert torch.equal(seen[0].tensors["hidden_in"], fed)


def test_a_module_run_outside_of_a_forward_is_not_recorded() -> None:
    seen: list[Any] = []
    drafter = Drafter()
    DrafterHooks(drafter, seen.append)
    drafter.model.fc(torch.zeros(1, len(CAPTURED) * WIDTH))
    drafter.logits_processor(torch.zeros(1, WIDTH), None)
    assert seen == []
