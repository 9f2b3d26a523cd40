"""How every server is asked for its target's own greedy tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Json

GREEDY: Final[Mapping[str, Json]] = {
    "temperature": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}
"""Said in full, for a model's generation_config.json would fill in what is left out."""
