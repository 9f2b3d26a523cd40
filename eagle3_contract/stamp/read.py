"""A trainer's stamp as statements of a contract, with the evidence ``declared``. No torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from contract.errors import InputRejected, UserError
from contract.files.names import shown
from contract.files.paths import Folder, open_path
from contract.findings import Check, Where
from contract.jsonio import load_json_file
from contract.limits import DEFAULT_LIMITS, Limits
from contract.statement import Fact, fact
from eagle3_contract.model.fields import STATED_ONE_BY_ONE, nearest, type_of
from eagle3_contract.model.spec import Digest
from eagle3_contract.stamp import rules

STAMP: Final = "contract_stamp.json"
"""Name of the file, as contract_stamp.py writes it."""


class GoldenRows(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    file: str
    sha256: Digest
    tokens: int
    steps: int


class StampFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """contract_stamp.json, version 1."""

    format: Literal["eagle3-contract-stamp"]
    format_version: Literal[1]
    declared: dict[str, Any]
    golden: GoldenRows
    weights: dict[str, Digest]
    made_with: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a trainer declared.

    Attributes:
        path: the stamp.
        facts: contract field (dotted) to its fact; the evidence is ``declared``.
        golden: the golden rows, relative to the drafter's folder; ``produced_by`` is ``trainer``. None if they are not the stamp's.
        checks: what does not fit: rows or weights that are not those of the stamp.
    """

    path: Path
    facts: Mapping[str, Fact]
    golden: str | None
    checks: tuple[Check, ...]
    produced_by: Literal["trainer"] = "trainer"


def read_stamp(folder: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> Stamp | None:
    """The stamp in a drafter's folder, or None if there is none.

    Raises:
        InputRejected: ``stamp.malformed``, ``stamp.field`` (every field that is wrong is named), or a ``files.*`` rule.
    """
    path = Path(folder) / STAMP
    if not os.path.lexists(path):
        return None
    try:
        stamp = msgspec.convert(load_json_file(path, limits=limits), StampFile)
    except msgspec.ValidationError as error:
        raise _rejected(rules.MALFORMED.id, f"{path} is no stamp: {error}", path, rules.MALFORMED.remedy) from error
    facts = _facts(path, stamp.declared)
    golden, checks = _golden(Path(folder), stamp.golden)
    return Stamp(path=path, facts=facts, golden=golden, checks=(*checks, *_weights(Path(folder), stamp.weights)))


def _facts(path: Path, declared: Mapping[str, Any]) -> dict[str, Fact]:
    facts, wrong = {}, []
    for field, value in declared.items():
        type_ = None if field in STATED_ONE_BY_ONE else type_of(field)
        if type_ is None:
            near = nearest(field)
            wrong.append(f"{shown(field)} is no field that a trainer declares" + (f" (did you mean {near[0]}?)" if near else ""))
            continue
        holder: Any = msgspec.defstruct("Declared", [("value", type_)], forbid_unknown_fields=True)
        try:
            known = fact(msgspec.convert({"value": value}, holder).value)
        except msgspec.ValidationError as error:
            wrong.append(f"{field}: {error}")
            continue
        plain = msgspec.to_builtins(known.value) if known.known else None
        note = known.note or f"declared by the trainer in {STAMP}"
        facts[field] = Fact(known=known.known, value=plain, reason=known.reason, evidence="declared" if known.known else None, note=note)
    if wrong:
        raise _rejected(rules.FIELD.id, f"{path}: {'; '.join(wrong)}", path, rules.FIELD.remedy)
    return facts


def _golden(folder: Path, stated: GoldenRows) -> tuple[str | None, list[Check]]:
    where = Where(file=str(folder / STAMP))
    try:
        with Folder(folder) as opened, opened.open(stated.file) as rows:
            digest = f"sha256:{rows.sha256()}"
    except UserError as error:
        return None, [rules.GOLDEN.failed(f"the golden rows of the stamp cannot be read: {error.message}", where=where)]
    text = f"{stated.file}: {stated.tokens} tokens, {stated.steps} steps of the trainer's own forward"
    if digest == stated.sha256:
        return stated.file, [rules.GOLDEN.passed(text, where=where)]
    message = f"{stated.file} is not the file that the stamp was written with"
    return None, [rules.GOLDEN.failed(message, expected=stated.sha256, actual=digest, where=where)]


def _weights(folder: Path, stated: Mapping[str, str]) -> list[Check]:
    where = Where(file=str(folder / STAMP))
    other = [name for name, digest in stated.items() if _digest(folder, name) != digest]
    if other:
        return [rules.WEIGHTS.failed(f"{', '.join(map(shown, other))}: gone or changed since the drafter was stamped", where=where)]
    return [rules.WEIGHTS.passed(f"{len(stated)} weight files are those that were stamped", where=where)]


def _digest(folder: Path, name: str) -> str | None:
    if "/" in name or not (folder / name).is_file():
        return None
    with open_path(folder / name) as opened:
        return f"sha256:{opened.sha256()}"


def _rejected(rule: str, message: str, path: Path, fix: str) -> InputRejected:
    return InputRejected(message, rule=rule, fix=fix, where=Where(file=str(path)))
