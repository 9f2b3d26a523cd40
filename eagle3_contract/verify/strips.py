"""Token by token, whether the first draft is the token that came: for the reports, on the first few samples.

Legend: T tokens, DV draft vocabulary.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from contract.findings import Json
from contract.report.strips import HIT, MISS, NONE

SAMPLES: Final = 3
TOKENS: Final = 320
"""What fits on a page; the figures count everything."""


class Strips:
    """Marks by sample and path."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[str, Json]] = {}

    def add(self, sample: str, path: str, logits_TD: Tensor, targets_D: Tensor, tokens_T: Tensor) -> None:
        """Row t [T-1, DV] of the first step says token t+2; a row without a token, or without finite logits, does not count."""
        if sample not in self._marks and len(self._marks) >= SAMPLES:
            return
        rows = max(0, min(len(tokens_T) - 2, TOKENS))
        said_T = targets_D[logits_TD[:rows].argmax(-1).cpu()]
        right = (said_T == tokens_T[2 : 2 + rows].cpu()).tolist()
        counts = torch.isfinite(logits_TD[:rows]).all(-1).tolist()
        marks = "".join(NONE if not c else HIT if r else MISS for r, c in zip(right, counts, strict=True))
        self._marks.setdefault(sample, {})[path] = marks

    def as_measurement(self) -> dict[str, Json]:
        """As ``contract.report.strips`` draws it."""
        return dict(self._marks)
