"""Further drafter variants, recorded from the running engines by ``make test-engines`` (tools/engines), are predicted without exception.

Runs of drafters other than those of ``test_observed``; the records hold what the engine did, never what its config says.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.readings.observed import DATA, rows
from tests.readings.test_observed import differences

FURTHER = {
    engine: [json.loads(line) for line in (DATA / "further" / f"{engine}.jsonl").read_text().splitlines()] for engine in ("sglang", "vllm")
}
LEAST = 30


@pytest.mark.parametrize("row", [*FURTHER["sglang"], *FURTHER["vllm"]], ids=lambda r: str(r["id"]))
def test_the_engine_did_what_the_profile_says(row: dict[str, Any]) -> None:
    assert differences(row) == []


@pytest.mark.parametrize("engine", sorted(FURTHER))
def test_they_are_further_ones_and_enough(engine: str) -> None:
    assert len(FURTHER[engine]) >= LEAST
    known = [(r["drafter_config"], r["target_config"], r["drafter_header"], r["flags"]) for r in rows(engine)]
    assert [r["id"] for r in FURTHER[engine] if (r["drafter_config"], r["target_config"], r["drafter_header"], r["flags"]) in known] == []


@pytest.mark.parametrize("engine", sorted(FURTHER))
def test_every_kind_of_outcome_is_among_them(engine: str) -> None:
    assert {r["observed"]["outcome"] for r in FURTHER[engine]} == {"ok", "error_at_load", "error_at_first_request"}


@pytest.mark.parametrize("engine", sorted(FURTHER))
def test_runs_that_answered_were_recorded_whole(engine: str) -> None:
    """A record without what was fed, held or computed would agree with any prediction."""
    for row in FURTHER[engine]:
        seen = row["observed"]
        if seen["outcome"] != "ok" or seen.get("drafter_class") is None:
            continue
        assert seen["boundaries_fed"], row["id"]
        assert None not in seen["boundaries_fed"], row["id"]
        assert seen["params"], row["id"]
        assert seen["wiring"], row["id"]
        assert seen["wiring"].get("matches", True), row["id"]
        assert seen["wiring"]["next_step_hidden"] in ("pre_norm", "post_norm"), row["id"]
        assert seen["rope"], row["id"]


def test_a_wrong_record_is_seen() -> None:
    row = next(r for r in FURTHER["sglang"] if r["observed"]["outcome"] == "ok")
    fed = row["observed"]["boundaries_fed"]
    assert differences(row | {"observed": row["observed"] | {"boundaries_fed": [b + 1 for b in fed[:-1]] + fed[-1:]}}) != []
    assert differences(row | {"observed": row["observed"] | {"params": {}, "shared_with_target": None, "load_completed": False}}) == []
