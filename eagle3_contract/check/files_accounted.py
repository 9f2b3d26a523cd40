"""The drafter's folder is a closed world: every file is listed in the contract, and every listed file is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Rule, Severity, Where
from eagle3_contract.check.context import CheckContext

UNLISTED: Final = Rule(
    id="drafter.file-unlisted",
    title="The contract lists every file of the drafter's folder",
    severity=Severity.ERROR,
    dimension="files",
    why="Engines load every safetensors file of a folder without an index: a second one holding another lm_head has won (observed on "
    "SGLang 0.5.23). A config.py beside the weights runs with trust_remote_code.",
    remedy="Add the file to drafter.files with its digest, or remove it from the folder.",
)
MISSING: Final = Rule(
    id="drafter.file-missing",
    title="Every file that the contract lists is in the drafter's folder",
    severity=Severity.ERROR,
    dimension="files",
    why="What training left is not complete: an engine falls back to defaults for a missing config and to memory for missing weights.",
    remedy="Fetch the file, or remove it from drafter.files.",
)
GOLDEN_APART: Final = Rule(
    id="drafter.golden-apart",
    title="Golden rows do not lie among the weights",
    severity=Severity.WARNING,
    dimension="files",
    why="vLLM 0.32.0 and SGLang 0.5.23 load every safetensors file of a folder that has no index; vLLM then stops at a tensor "
    "that no module has "
    "(facts: an unknown weight raises ValueError), SGLang drops it silently.",
    remedy="Keep the rows one folder deeper, such as golden/golden.safetensors, and name that file in the contract.",
    depth=None,
)
CONFIG: Final = Rule(
    id="drafter.config-missing",
    title="The drafter has a config.json",
    severity=Severity.ERROR,
    dimension="keys",
    why="Every engine sizes its modules from it.",
    remedy="Put the trainer's config.json beside the weights.",
)
NOT_OBJECT: Final = Rule(
    id="drafter.config-not-object",
    title="The drafter's config.json is a JSON object",
    severity=Severity.ERROR,
    dimension="keys",
    why="A list, a string or null has no keys; engines stop or run with defaults.",
    remedy="Put the trainer's config.json beside the weights.",
)
"""Under this rule ``open_drafter`` refuses the file."""
RULES: Final = (UNLISTED, MISSING, GOLDEN_APART, CONFIG, NOT_OBJECT)


def check_files(ctx: CheckContext) -> Iterator[Check]:
    """Both directions, then config.json."""
    listed, there = ctx.contract.drafter.files, ctx.drafter.files
    unlisted = sorted(there - listed.keys() - ctx.accounted_for)
    for name in unlisted:
        yield UNLISTED.failed(f"{name} is in the drafter's folder, the contract does not list it", where=Where(file=name))
    if not unlisted:
        yield UNLISTED.passed(f"all {len(there)} files of {ctx.drafter.folder} are accounted for")
    golden = ctx.contract.golden
    if golden is not None:
        yield _golden(ctx, golden.file)
    for name in listed:
        if name in there:
            yield MISSING.passed(f"{name} is there")
        elif ctx.drafter.complete:
            yield MISSING.failed(f"the contract lists {name}, it is not in {ctx.drafter.folder}", where=ctx.place("drafter", "files", name))
        else:
            yield MISSING.undecided(f"{name} was not found, but not every file could be read", where=ctx.place("drafter", "files", name))
    if ctx.drafter.config is not None:
        yield CONFIG.passed("config.json was read")
    elif "config.json" in there:
        yield CONFIG.undecided("config.json could not be read", where=Where(file="config.json"))
    else:
        yield CONFIG.failed("there is no config.json", where=Where(file="config.json"))


def _golden(ctx: CheckContext, file: str) -> Check:
    among = "/" not in file and ctx.contract.drafter.path == "." and file.endswith(".safetensors")
    if not among:
        return GOLDEN_APART.passed(f"the golden rows {file} are apart from the weights")
    return GOLDEN_APART.failed(
        f"the golden rows {file} lie beside the weights, where engines look for weights", actual=file, where=ctx.place("golden", "file")
    )
