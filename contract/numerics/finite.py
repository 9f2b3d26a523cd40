"""Whether a tensor holds finite numbers only."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def all_finite(x: Tensor) -> bool:
    """True if no element is NaN or infinite; of a float tensor of any shape and layout, empty ones too.

    One pass in vector instructions: the smallest and the largest element are NaN if any element is (torch.aminmax). ``isfinite().all()``
    on a CPU takes some ten times as long, since it computes and stores a bool for each element.
    """
    if not x.numel():
        return True
    low, high = torch.aminmax(x)
    return math.isfinite(float(low)) and math.isfinite(float(high))
