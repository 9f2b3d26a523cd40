"""Narrow dtypes: near float32, with norms and softmax in float32. Devices: nothing is made on any other than the one named."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contract.errors import ToolError, UsageError
from eagle3_contract.drafter.devices import resolve_device
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.norms import rms_norm
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Feedback, NormBeforeFc, Rollout, Rope, Wiring

from .build import MLA, SMALL, drafter_for, inputs_for, small, target_tensors, tensors_for

YARN = Rope(type="yarn", scaling={"factor": 8.0, "original_max_position_embeddings": 64})
RICH = small(
    layers=2,
    norms_before_fc=(NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM),
    feedback=Feedback.POST_NORM,
    qk_norm=True,
    window=4,
    rope=YARN,
)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 0.05), (torch.float16, 0.007)])
@pytest.mark.parametrize("wiring", [SMALL, RICH, MLA], ids=["plain", "rich", "mla"])
def test_narrow_dtypes_stay_near_float32(wiring: Wiring, dtype: torch.dtype, bound: float) -> None:
    """The median row: within six units of the dtype's last place of the largest logit."""
    inputs = inputs_for(wiring)
    wide = teacher_forced(drafter_for(wiring), inputs.ids, inputs.states).logits_steps
    narrow = teacher_forced(drafter_for(wiring, dtype=dtype), inputs.ids, inputs.states).logits_steps
    for a, b in zip(narrow, wide, strict=True):
        live = ~b[:, 0].isnan()
        assert a.dtype is torch.float32
        assert torch.equal(a.isnan(), b.isnan())
        error = ((a - b)[live].norm(dim=1) / b[live].norm(dim=1)).median()
        assert 0 < float(error) < bound


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mean_square_is_float32(dtype: torch.dtype) -> None:
    """4096 squares of 300 exceed float16 by far, and in bfloat16 a running sum stops growing."""
    x = torch.full((1, 4096), 300.0, dtype=dtype)
    out = rms_norm(x, torch.full((4096,), 2.0, dtype=dtype), 1e-5)
    assert out.dtype is dtype
    assert torch.equal(out, torch.full_like(out, 2.0))


def test_norm_rounds_before_the_weight() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(5, 64).to(torch.bfloat16), torch.randn(64).to(torch.bfloat16)
    wide = x.float()
    # As transformers writes it: a division by the root differs in the last bit of float32, and now and then in one of bfloat16.
    expected = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(torch.bfloat16) * weight
    assert torch.equal(rms_norm(x, weight, 1e-5), expected)


def test_rotation_is_float32_before_it_is_rounded() -> None:
    """At position 100000 an angle in bfloat16 would be wrong by hundreds of radians."""
    inputs = inputs_for(SMALL)
    far = torch.arange(11) + 100_000
    near = teacher_forced(drafter_for(SMALL, dtype=torch.bfloat16), inputs.ids, inputs.states, position_ids_T=far).logits_steps[0]
    exact = teacher_forced(drafter_for(SMALL), inputs.ids, inputs.states, position_ids_T=far).logits_steps[0]
    assert float(((near - exact).norm(dim=1) / exact.norm(dim=1)).median()) < 0.05


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8])
def test_other_dtypes_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(UsageError) as caught:
        drafter_for(SMALL, dtype=dtype)
    assert caught.value.rule == "drafter.dtype"


@pytest.mark.parametrize("wiring", [SMALL, RICH, MLA, small(rope=Rope(type="dynamic", scaling={"factor": 2.0}, table_length=4))])
def test_nothing_is_created_on_the_default_device(wiring: Wiring) -> None:
    """With ``meta`` as the default device, a tensor made without a device has no values, and mixing it in fails."""
    tensors, target = tensors_for(wiring), target_tensors(wiring)
    inputs = inputs_for(wiring)
    docs = torch.tensor([0] * 6 + [1] * 5)

    def whole() -> list[Tensor]:
        drafter = Drafter(wiring, MemorySource(tensors), target_source=MemorySource(target), device="cpu")
        out = [
            logits
            for rollout in Rollout
            for logits in teacher_forced(drafter, inputs.ids, inputs.states, document_ids_T=docs, steps=3, rollout=rollout).logits_steps
        ]
        request = IncrementalDrafter(drafter)
        request.prefill(inputs.ids[:6], inputs.states[:5])
        request.commit(inputs.ids[6:8], inputs.states[5:7])
        return [*out, request.draft(3).logits]

    expected = whole()
    with torch.device("meta"):
        got = whole()
    for a, b in zip(got, expected, strict=True):
        assert a.device.type == "cpu"
        assert torch.equal(a.nan_to_num(), b.nan_to_num())


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
@pytest.mark.parametrize("wiring", [SMALL, RICH, MLA], ids=["plain", "rich", "mla"])
def test_every_device_there_is_gives_what_the_cpu_gives(wiring: Wiring, device: str) -> None:
    inputs = inputs_for(wiring)
    expected = teacher_forced(drafter_for(wiring), inputs.ids, inputs.states).logits_steps
    drafter = drafter_for(wiring, device=device)
    for a, b in zip(teacher_forced(drafter, inputs.ids, inputs.states).logits_steps, expected, strict=True):
        assert a.device.type == device
        assert torch.allclose(a.cpu().nan_to_num(), b.nan_to_num(), atol=1e-4)
    request = IncrementalDrafter(drafter)
    request.prefill(inputs.ids[:6], inputs.states[:5])
    drafted = request.draft(3, fed_tokens=inputs.ids[6:8])
    assert torch.allclose(drafted.logits.cpu(), torch.stack([step[4] for step in expected]), atol=1e-4)


def test_devices_by_name() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda")
    for name in ("gpu", "cuda:x", "cpu:0", "", "cuda:-1", "meta"):
        with pytest.raises(UsageError) as caught:
            resolve_device(name)
        assert caught.value.rule == "drafter.device"
    with pytest.raises(ToolError, match=r"torch sees \d+ CUDA devices"):
        resolve_device("cuda:99")
