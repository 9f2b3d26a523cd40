"""Write docs/heads.md: published heads x engines x versions, from specs/ and the profiles. ``python -m tools.generate_heads_page``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.files.atomic import atomic_write
from contract.statement import Fact, fact
from eagle3_contract.check.statements import walk
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.states import recipe_text
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import BOUNDARIES
from eagle3_contract.readings.view import DrafterView, Target

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
PUBLISHED = SPECS / "published.json"
PAGE = ROOT / "docs" / "heads.md"
VERSIONS: dict[str, tuple[str, ...]] = {
    "sglang": ("0.4.9", "0.5.5", "0.5.8", "0.5.12", "0.5.13", "0.5.17", "0.5.23"),
    "vllm[v1]": ("0.9.1", "0.10.1", "0.11.1", "0.12.0", "0.18.0", "0.22.0", "0.32.0"),
    "vllm[v2]": ("0.17.0", "0.24.0", "0.32.0"),
    "tensorrt-llm": ("1.4.0",),
    "llama.cpp": ("2026.6.1", "2026.8.31"),
    "lmdeploy": ("0.16.0",),
    "tokenspeed": ("0.1.0",),
    "atom": ("2026.8.22",),
    "mlx-vlm": ("0.7.10",),
    "eagle": ("2026.2.19",),
}
"""Releases at which some reading changed, and the newest one that was read."""
HEAD = """# Published heads, and what each engine feeds them

Written by `python -m tools.generate_heads_page` from the contracts in `specs/`, the config keys that public text quotes
(`specs/published.json`) and the profiles of the engines; `tests/specs/test_heads_page.py` keeps it current. Nothing here was read from the
heads' own files. *Training* is what the contract states, with its evidence; *same* says whether an engine feeds exactly that: **yes**,
**no**, or unknown. A range of versions stands for the releases from the first to the last named; what changed in between is in its own row.
"Refused" means that no class of the engine answers to the architecture string that is quoted, "nothing" that the target's class does not
capture in that release.

"""


@dataclass(frozen=True)
class Row:
    """One engine at one version: what it feeds, why, and where that is written."""

    version: str
    fed: str
    why: str
    source: str
    same: str


def page() -> str:
    """The whole page."""
    heads = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return HEAD + "\n".join(part for head in heads for part in _head(head))


def _head(head: dict[str, Any]) -> Iterator[str]:
    contract = load_contract(SPECS / head["contract"]).contract
    recipe = fact(contract.hidden_states.boundaries)
    statements = [fact(s) for _, s in walk(contract)]
    known = sum(s.known for s in statements)
    yield f"## {head['head']}\n"
    yield f"`specs/{head['contract']}`: {known} of {len(statements)} statements known. Training: {_training(recipe)}.\n"
    yield "| engine | versions | feeds | because | source | same |"
    yield "|---|---|---|---|---|---|"
    for engine, versions in VERSIONS.items():
        rows = [_row(engine, version, head, recipe) for version in versions]
        for first, last in _runs(rows):
            span = first.version if first is last else f"{first.version} to {last.version}"
            cells = (engine, span, first.fed, first.why, last.source, first.same)
            yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
    yield ""


def _training(recipe: Fact) -> str:
    if not recipe.known:
        return f"unknown, {recipe.reason}"
    how = f" ({recipe.evidence}: {recipe.note})" if recipe.note else ""
    return f"boundaries {recipe_text(recipe.value)}{how}"


def _row(engine: str, version: str, head: dict[str, Any], recipe: Fact) -> Row:
    config = {"model_type": "llama", **head["config"]}
    reading = read(DrafterView.of(config, {}), f"{engine}=={version}", Target(head["target"]))[0]
    found, architecture = reading.get(BOUNDARIES), reading.get("architecture")
    if architecture.rule.startswith("no class") and "architectures" in head["config"]:
        return Row(version, "refused", f"architecture {architecture.value}", architecture.source, "-")
    if reading.value("hidden_states.supported") is False:
        return Row(version, "nothing", reading.get("hidden_states.supported").rule, found.source, "-")
    if not found.known:
        return Row(version, "unknown", found.rule, found.source, "unknown")
    why = f"`{found.key}`: {found.rule}" if found.key else f"default: {found.rule}" if found.rule else found.origin.value
    same = "unknown" if not recipe.known else "**yes**" if list(recipe.value) == found.value else "**no**"
    return Row(version, recipe_text(found.value), why, found.source, same)


def _runs(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """First and last of each run of versions that say the same."""
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or (rows[i].fed, rows[i].why, rows[i].same) != (rows[start].fed, rows[start].why, rows[start].same):
            yield rows[start], rows[i - 1]
            start = i


if __name__ == "__main__":
    atomic_write(PAGE, page())
