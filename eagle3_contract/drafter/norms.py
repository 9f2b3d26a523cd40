"""Root mean square norm, accumulated in float32 whatever the dtype of the stream. Legend: R any leading rows, H width."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x_RH: Tensor, weight_H: Tensor, eps: float) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight``, in the dtype of ``x``.

    The mean square and the division are float32 and the result is rounded before the weight is applied, as in transformers' LlamaRMSNorm
    and vLLM's RMSNorm.forward_native.
    """
    wide_RH = x_RH.to(torch.float32)
    scale_R1 = torch.rsqrt(wide_RH.square().mean(dim=-1, keepdim=True) + eps)
    return (wide_RH * scale_R1).to(x_RH.dtype) * weight_H
