"""docs/heads.md is what its generator writes now, and every contract of a published head is on it."""

from __future__ import annotations

import json

import pytest

from contract.jsonio import load_json_file
from tools.generate_heads_page import PAGE, PUBLISHED, SPECS, page


def test_page_is_current(request: pytest.FixtureRequest) -> None:
    text = page()
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run python -m tools.generate_heads_page"


def test_every_contract_is_on_the_page() -> None:
    listed = [h["contract"] for h in json.loads(PUBLISHED.read_text(encoding="utf-8"))]
    there = sorted(p.relative_to(SPECS).as_posix() for p in SPECS.rglob("*.yaml"))
    assert sorted(listed) == there
    load_json_file(PUBLISHED)  # strict: no key twice, no NaN


def test_known_incidents_show() -> None:
    """nvidia's gpt-oss v3 is right on SGLang from 0.5.17 on; thoughtworks' MiniMax head is one layer early on vLLM's V1 runner."""
    parts = {part.partition("\n")[0]: part.splitlines() for part in page().split("\n## ")}
    v3 = [line for line in parts["nvidia/gpt-oss-120b-Eagle3-v3"] if line.startswith("| sglang")]
    assert any("| 0.5.17 to 0.5.23 | [24, 30, 36] |" in line and line.endswith("**yes** |") for line in v3)
    assert all(line.endswith(("**no** |", "- |")) or "unknown" in line for line in v3 if "0.5.17" not in line)
    minimax = [line for line in parts["thoughtworks/MiniMax-M2.5-Eagle3"] if line.startswith("| vllm[v1]")]
    assert any("[1, 30, 58]" in line and line.endswith("**no** |") for line in minimax)
