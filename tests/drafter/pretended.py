"""The forward on a device that is only pretended: ``python -m tests.drafter.pretended`` prints what went wrong, case by case, as JSON.

A fake tensor has a device, a dtype and a shape, and no values; to mix two devices is an error, as it is on a real one. The device is
torch's private one under a name of its own, which is registered for the whole process: hence one apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.incremental import IncrementalDrafter
from eagle3_contract.drafter.rope import RotaryEmbedding
from eagle3_contract.drafter.weights import Embedding, MemorySource, Weights
from eagle3_contract.model.wiring import Feedback, NormBeforeFc, Rollout, Rope, Wiring

from .build import MLA, SMALL, small, target_tensors, tensors_for

NAME = "pretended"
TOKENS = 11
RICH = small(
    layers=2,
    norms_before_fc=(NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM),
    feedback=Feedback.POST_NORM,
    qk_norm=True,
    window=4,
    rope=Rope(type="yarn", scaling={"factor": 8.0, "original_max_position_embeddings": 64}),
)
WIRINGS = {"plain": SMALL, "rich": RICH, "mla": MLA}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def drafter(wiring: Wiring, dtype: torch.dtype) -> Drafter:
    """On the pretended device; its weights come from the CPU, as from a file."""
    tensors = {n: torch.empty(t.shape, dtype=t.dtype) for n, t in tensors_for(wiring).items()}
    target = {n: torch.empty(t.shape, dtype=t.dtype) for n, t in target_tensors(wiring).items()}
    return Drafter(wiring, MemorySource(tensors), target_source=MemorySource(target, "target"), device=f"{NAME}:0", dtype=dtype)


def there(*tensors: Tensor) -> None:
    for tensor in tensors:
        assert tensor.device.type == NAME, f"{list(tensor.shape)} is on {tensor.device}"


def whole(wiring: Wiring, dtype: torch.dtype) -> None:
    """Teacher forced, with the true and with its own tokens."""
    made = drafter(wiring, dtype)
    ids, states = torch.empty(TOKENS, dtype=torch.int64), torch.empty((TOKENS, made.states_width), dtype=dtype)
    for rollout in Rollout:
        out = teacher_forced(made, ids, states, steps=3, rollout=rollout)
        there(*out.logits_steps, *out.fed_ids_steps)
        assert all(z.dtype is torch.float32 and z.shape == (TOKENS - 1, wiring.draft_vocab_size) for z in out.logits_steps)


def cached(wiring: Wiring, dtype: torch.dtype) -> None:
    """Step by step with a KV cache."""
    made = drafter(wiring, dtype)
    request = IncrementalDrafter(made)
    request.prefill(torch.empty(6, dtype=torch.int64), torch.empty((5, made.states_width), dtype=dtype))
    request.commit(torch.empty(2, dtype=torch.int64), torch.empty((2, made.states_width), dtype=dtype))
    drafted = request.draft(3)
    there(drafted.tokens, drafted.draft_ids, drafted.logits)
    for cache in request._caches:
        assert cache._buffers is not None
        there(*cache._buffers)


def forgetful(wiring: Wiring, dtype: torch.dtype) -> None:
    """The twin that must fail: one weight stays on the CPU, where it was read."""
    take = Weights.__getitem__

    def stays(self: Weights, name: str) -> Tensor:
        value = take(self, name)
        return torch.empty(value.shape, dtype=value.dtype) if name == "norm.weight" else value

    with mock.patch.object(Weights, "__getitem__", stays):
        whole(wiring, dtype)


BODIES: dict[str, Callable[[Wiring, torch.dtype], None]] = {"whole": whole, "cached": cached, "forgetful": forgetful}


def without_values() -> list[mock._patch[Any]]:
    """What looks at values, which fake tensors have not: ranges of ids, the vocab map, the length that a dynamic rope looks at."""
    at = RotaryEmbedding.at

    def short(self: RotaryEmbedding, positions_L: Tensor) -> tuple[Tensor, Tensor]:
        with mock.patch.object(Tensor, "max", return_value=1):
            return at(self, positions_L)

    def ids(self: Drafter) -> Tensor:
        return torch.empty(self.wiring.draft_vocab_size, dtype=torch.int64, device=self.device)

    return [
        mock.patch.object(Embedding, "check", return_value=None),
        mock.patch("eagle3_contract.drafter.forward.check_inputs", return_value=None),
        mock.patch("eagle3_contract.drafter.weights._checked", lambda source, name, value: value),
        mock.patch.object(RotaryEmbedding, "at", short),
        mock.patch.object(Drafter, "target_ids", property(ids)),
    ]


def main() -> None:
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    found = {}
    for patch in without_values():
        patch.start()
    for body, run in BODIES.items():
        for name, wiring in WIRINGS.items():
            for dtype_name, dtype in DTYPES.items():
                try:
                    with FakeTensorMode(allow_non_fake_inputs=True):
                        run(wiring, dtype)
                    found[f"{body} {name} {dtype_name}"] = "fine"
                except (RuntimeError, AssertionError) as error:
                    found[f"{body} {name} {dtype_name}"] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
