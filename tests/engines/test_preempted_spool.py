"""A request that is run again after a preemption, from its events to a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from recording import LAYERS, RECIPE, WRONG, Recording, states

from contract.errors import InputRejected
from contract.files.bundle import BundleRequest, open_bundle
from contract.files.bundle_manifest import ModelInfo
from contract.files.torch_tensors import load_tensor
from eagle3_contract.engines.assemble import assemble
from eagle3_contract.engines.spool_read import open_spool

PROMPT = [11, 12, 13, 14, 15, 16, 17]
OUTPUT = [21, 22, 23, 24, 25, 26, 27]
TOKENS = [*PROMPT, *OUTPUT]
DRAFTS = 3


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "spool")


def run(recording: Recording, *, chunk: int = 20, cached: int = 0, kept: int = 0) -> None:
    """The prompt, a round of two tokens, drafts that are forgotten, everything again (which gives a token), a round of three."""
    recording.prompt("r0", PROMPT)
    fill(recording, cached, len(PROMPT), chunk)
    verify(recording, 1)
    fill(recording, kept, len(PROMPT) + 3, chunk)
    recording.target("r0", "verify", range(10, 14), [24, 25, 26, WRONG], [False, False, False, True])
    recording.round("r0", [25, 26, WRONG], [25, 26, 27])
    recording.output("r0", OUTPUT)
    recording.end()


def fill(recording: Recording, first: int, end: int, chunk: int) -> None:
    for start in range(first, end, chunk):
        positions = range(start, min(start + chunk, end))
        recording.target("r0", "prefill", positions, [TOKENS[p] for p in positions])
        recording.drafter("r0", "prefill", 0, [TOKENS[p + 1] for p in positions], positions)
        recording.steps("r0", DRAFTS, positions[-1])


def verify(recording: Recording, accepted: int) -> None:
    proposed = [22, WRONG, WRONG]
    recording.target("r0", "verify", range(7, 11), [21, *proposed], [i > accepted for i in range(4)])
    recording.round("r0", proposed, [22, 23])
    recording.drafter("r0", "extend", 0, [22, 23, WRONG, WRONG], range(7, 11))
    recording.steps("r0", DRAFTS, 8)


def bundle(recording: Recording) -> BundleRequest:
    spool, target = open_spool(recording.folder), ModelInfo(id="tiny", model_type="llama", files={})
    out = assemble([spool], recording.folder.parent / "bundle", recipe=RECIPE, target=target, drafter=None)
    (request,) = open_bundle(out).requests
    return request


@pytest.mark.parametrize("how", [{}, {"chunk": 4}, {"kept": 4}, {"chunk": 3, "kept": 2}, {"cached": 4}, {"cached": 4, "chunk": 3}])
def test_a_preempted_request_is_rebuilt(recording: Recording, how: dict[str, int]) -> None:
    run(recording, **how)
    request, first = bundle(recording), how.get("cached", 0)
    tokens, positions = TOKENS[first:-1], list(range(first, len(TOKENS) - 1))
    assert load_tensor(request.tensors["input_ids"]).tolist() == tokens
    assert load_tensor(request.tensors["position_ids"]).tolist() == positions
    for i, boundary in enumerate(RECIPE):
        assert torch.equal(load_tensor(request.tensors[f"slot.{i}"]), states(boundary, positions, tokens))
    for boundary in range(LAYERS + 1):
        assert torch.equal(load_tensor(request.tensors[f"boundary.{boundary}"]), states(boundary, positions, tokens))
    assert load_tensor(request.tensors["round.emitted"]).tolist() == [[22, 23, -1], [25, 26, 27]]
    refill = [f for f in request.info.forwards if f.phase == "prefill" and f.round == 1]
    assert sum(f.rows for f in refill) == len(PROMPT) + 3 - how.get("kept", 0)


@pytest.mark.parametrize(("by", "refused"), [(1e-6, False), (0.01, True)])
def test_rounding_is_no_second_value(recording: Recording, monkeypatch: pytest.MonkeyPatch, by: float, refused: bool) -> None:
    """Other batches, other kernels: a row that is run again may be rounded otherwise, and no more; the first value is kept."""
    written, count = recording.spool.event, 0

    def event(kind: str, tensors: dict[str, torch.Tensor] | None = None, **more: object) -> None:
        nonlocal count
        count += kind == "target"
        if kind == "target" and count > 2 and tensors is not None:
            tensors = {name: x * (1 + by) if name.startswith("slot.") else x for name, x in tensors.items()}
        written(kind, tensors, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(recording.spool, "event", event)
    run(recording)
    if refused:
        with pytest.raises(InputRejected, match=r"was run twice, with two values of slot\.0"):
            bundle(recording)
        return
    assert torch.equal(load_tensor(bundle(recording).tensors["slot.0"])[:9], states(RECIPE[0], range(9), TOKENS[:9]))
