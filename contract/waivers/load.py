"""Find, read and judge the waivers of a contract."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from contract.findings import Check, Rule, Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source import Document, parse_yaml
from contract.source.text import read_bytes
from contract.structs import SpecInvalid, load_typed
from contract.structs.problems import problem
from contract.waivers.model import Waiver, WaiverFile
from contract.waivers.patterns import WAIVER_PATTERNS, enforce_patterns
from contract.waivers.rules import NOT_MEASURED, NOT_WAIVABLE, OWN_AREAS, SILENT, UNKNOWN_RULE

SUFFIX: Final = ".waivers.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waivers:
    """The waivers of one contract, each with its place in the file."""

    file: str
    sha256: str
    waivers: Sequence[Waiver]
    places: Sequence[Where]


def waivers_path(spec: str | Path) -> Path:
    """``contract.yaml`` has its waivers in ``contract.waivers.yaml``, in the same folder."""
    path = Path(spec)
    return path.with_name(path.name.removesuffix(path.suffix) + SUFFIX)


def load_waivers(path: str | Path, *, rules: Mapping[str, Rule], limits: Limits = DEFAULT_LIMITS) -> Waivers:
    """Read one waivers file; ``rules`` are those that exist, by id.

    Raises:
        InputRejected: it cannot be read or is no strict YAML.
        LimitExceeded: also a pattern is longer than ``regex_length``.
        SpecInvalid: it does not say what a waivers file says; every problem is in ``problems``.
    """
    data = read_bytes(path, file=str(path), limits=limits)
    document = parse_yaml(data, file=str(path), limits=limits)
    enforce_patterns(document, WAIVER_PATTERNS, limits)
    waivers = load_typed(document, WaiverFile).waivers
    places = [document.where(("waivers", index, "rule")) for index in range(len(waivers))]
    problems = [p for waiver, index in zip(waivers, range(len(waivers)), strict=True) for p in _problems(waiver, index, document, rules)]
    if problems:
        raise SpecInvalid(problems)
    return Waivers(file=str(path), sha256=hashlib.sha256(data).hexdigest(), waivers=waivers, places=places)


def covers_rule(pattern: str, rule: str) -> bool:
    """Whether a waiver's ``rule`` names a rule id."""
    return rule.startswith(pattern[:-1]) if pattern.endswith(".*") else rule == pattern


def _problems(waiver: Waiver, index: int, document: Document, rules: Mapping[str, Rule]) -> Iterator[Check]:
    where = document.where(("waivers", index, "rule"))
    covered = [rule for id_, rule in rules.items() if covers_rule(waiver.rule, id_)]
    if waiver.rule.partition(".")[0] in OWN_AREAS:
        yield problem(NOT_WAIVABLE, f"{waiver.rule} cannot be waived", where=where, expected=None, actual=waiver.rule)
    elif not covered:
        near = get_close_matches(waiver.rule, rules, n=1)
        fix = f"Did you mean {near[0]}?" if near else None
        yield problem(UNKNOWN_RULE, f"there is no rule {waiver.rule}", where=where, expected=None, actual=waiver.rule, fix=fix)
    silent = sorted({rule.dimension for rule in covered} & SILENT)
    if silent and waiver.measured is None:
        said = f"{waiver.rule} covers failures that only cost acceptance ({', '.join(silent)}), and nothing says what was measured"
        yield problem(NOT_MEASURED, said, where=where, expected="the key measured", actual=None)
