"""The profiles: one module per engine, each a table of rules with their sources."""

from __future__ import annotations

from eagle3_contract.readings.profiles.others import OTHERS
from eagle3_contract.readings.profiles.sglang import SGLANG
from eagle3_contract.readings.profiles.vllm import VLLM
from eagle3_contract.readings.rules import Profile

PROFILES: dict[str, Profile] = {p.engine: p for p in (SGLANG, VLLM, *OTHERS)}
"""Every profile by the name of its engine."""
