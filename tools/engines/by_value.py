"""Which tensor a parameter holds, told by its values alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tools.engines.raw import UNWRITTEN


def source(
    param: torch.Tensor, own: Mapping[str, torch.Tensor], target: Mapping[str, torch.Tensor], fan_in: int | None = None
) -> dict[str, Any]:
    """Where a parameter's values come from.

    Args:
        param: the parameter.
        own: tensors of the drafter's files, keyed ``NAME`` or ``NAME [FILE]``.
        target: tensors of the target.
        fan_in: inputs of the linear layer it belongs to, which bound torch's own initial values.
    """
    value = param.float()
    for label, tensors in (("checkpoint", own), ("target", target)):
        for name, tensor in tensors.items():
            how = None if tensor.dtype == torch.bool else _match(value, tensor.float())
            if how is not None:
                return {"source": label, "tensor": name, "shape": list(param.shape)} | how
    return {"source": _constant(value, fan_in), "shape": list(param.shape)}


def _match(value: torch.Tensor, tensor: torch.Tensor) -> dict[str, Any] | None:
    """None: not this tensor. Otherwise how it fills the parameter."""
    if value.ndim != tensor.ndim or value.ndim == 0 or not value.numel() or not tensor.numel():
        return None
    if value.shape == tensor.shape:
        return {} if torch.equal(value, tensor) else None
    block = tuple(slice(0, min(a, b)) for a, b in zip(value.shape, tensor.shape, strict=True))
    if not torch.equal(value[block], tensor[block]):
        return None
    rest = value.clone()
    rest[block] = 0
    if all(a <= b for a, b in zip(value.shape, tensor.shape, strict=True)):
        return {"first_rows_of" if value.shape[1:] == tensor.shape[1:] else "top_left_block_of": list(tensor.shape)}
    if value.shape[1:] == tensor.shape[1:]:
        return {"rows": len(tensor), "rest": "zeros" if not rest.any() else _constant(value[len(tensor) :], None)}
    return {"fills_top_left_block": list(tensor.shape), "rest": "zeros" if not rest.any() else "other"}


def _constant(value: torch.Tensor, fan_in: int | None) -> str:
    if bool((value == UNWRITTEN).all()):
        return "uninitialised"
    if bool((value == 1).all()):
        return "ones"
    if not value.any():
        return "zeros"
    if fan_in and 0.9 * fan_in**-0.5 < float(value.abs().max()) <= fan_in**-0.5 + 1e-6:
        return "random_init_uniform"
    return "partly_uninitialised" if bool((value == UNWRITTEN).any()) else "other"
