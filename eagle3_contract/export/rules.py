"""The rules of ``contract export``."""

from __future__ import annotations

from typing import Final

from contract.findings import Rule, Severity


def _rule(name: str, title: str, dimension: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"export.{name}", title=title, severity=Severity.ERROR, dimension=dimension, why=why, remedy=remedy)


EXPRESSIBLE: Final = _rule(
    "expressible",
    "One config.json exists with which every named engine does what training did",
    "engine",
    "Each engine looks for other keys, and some things no key says: SGLang has no norm_before_residual, every engine sorts the states it "
    "captures, none feeds the normed last state as one of several.",
    "See what would have to change; or export for fewer engines.",
)
READ_BACK: Final = _rule(
    "read-back",
    "The exported folder, read back, is what training did",
    "engine",
    "What was written is read again from the disk, with every engine that was named.",
    "Report it with the folder's config.json: the export and the reading disagree.",
)
PERMUTED: Final = _rule(
    "permuted",
    "fc with permuted columns gives the logits of the original",
    "weights",
    "Engines capture in ascending order (vLLM interfaces.py:1578, SGLang walks the layers), so that a recipe in another order needs fc's "
    "columns in that order. The arithmetic is the same sum in another order.",
    "Use the original drafter with an engine that keeps the order (llama.cpp does), and report the difference.",
)
UNKNOWN: Final = _rule(
    "stated",
    "The contract states everything that a config.json must say",
    "contract",
    "What the contract does not know cannot be written for an engine; the engine would take a default.",
    "Answer the statements that the message names.",
)
OUT: Final = _rule(
    "out",
    "The folder to write is new or empty",
    "files",
    "Files that were there before would be part of the drafter: an engine loads every safetensors file of a folder.",
    "Name a folder that does not exist.",
)
LAYOUT: Final = _rule(
    "layout",
    "The drafter's weights are safetensors",
    "files",
    "A pickle cannot be renamed or permuted without running it.",
    "Convert the weights to safetensors first.",
)
RULES: Final = (EXPRESSIBLE, READ_BACK, PERMUTED, UNKNOWN, OUT, LAYOUT)
