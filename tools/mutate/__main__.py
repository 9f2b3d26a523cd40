"""Change one field of the embedded pair's contract, or one byte of its files, at a time: which changes does no check notice?

Every field of the contract is changed once and ``check`` (with the target, at ``digests``) is run; where it says what it said before,
``verify`` over the samples and golden rows is run too. In every file of the drafter (weights, config, samples, golden rows) a few bytes are
flipped. The target's files are left out: no contract pins them but for the tokenizer and the fingerprint. Unnoticed changes are listed in
docs/mutation.md with the reason that ``tools/mutate/reasons.py`` gives; one without a reason makes the exit code 1.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from contract.reporting import Report
from contract.requests import VerifyRequest
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_spec
from tools.mutate.fields import mutants
from tools.mutate.reasons import reason_for_bytes, reason_for_field

DATA: Final = Path(__file__).resolve().parents[2] / "eagle3_contract" / "demo" / "data"
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "mutation.md"
FLIPS: Final = 12
"""Bytes flipped in each file."""


def said(report: Report) -> set[tuple[str, str, str]]:
    """What a report says: rules, statuses, places. Passed checks do not count."""
    return {(c.rule, c.status.value, c.message) for c in report.checks if c.status.value in ("failed", "unknown")}


def checked(spec: Path, target: Path) -> Report:
    """``contract check --integrity digests --target``."""
    return check_spec(spec, target=target, integrity=Integrity.DIGESTS)


def verified(spec: Path, target: Path) -> Report:
    """``contract verify --target``: golden rows and the samples that the contract lists."""
    from eagle3_contract.verify.run import verify

    return verify(VerifyRequest(spec=str(spec), target=str(target), integrity="digests"))


def unnoticed_fields(folder: Path, target: Path, *, deep: bool = True) -> Iterator[tuple[str, Any, Any]]:
    """(path, before, after) of every change to the contract that neither ``check`` nor, if ``deep``, ``verify`` notices."""
    spec = folder / "contract.yaml"
    text = spec.read_text(encoding="utf-8")
    contract: Mapping[str, Any] = yaml.safe_load(text)
    static = said(checked(spec, target))
    full = said(verified(spec, target)) if deep else set()
    try:
        for path, before, after, tree in mutants(contract):
            spec.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), encoding="utf-8")
            if said(checked(spec, target)) - static or (deep and said(verified(spec, target)) - full):
                continue
            yield ".".join(path), before, after
    finally:
        spec.write_text(text, encoding="utf-8")


def unnoticed_bytes(folder: Path, target: Path) -> Iterator[tuple[str, int]]:
    """(file, offset) of every flipped byte that ``verify`` does not notice, the contract's own bytes left out."""
    spec = folder / "contract.yaml"
    clean, rng = said(verified(spec, target)), random.Random(0)
    files = [f for f in sorted(folder.rglob("*")) if f.is_file() and f != spec]
    for file in files:
        data = bytearray(file.read_bytes())
        for at in sorted(rng.sample(range(len(data)), min(FLIPS, len(data)))):
            data[at] ^= 0x55
            file.write_bytes(data)
            if not said(verified(spec, target)) - clean:
                yield file.relative_to(folder.parent).as_posix(), at
            data[at] ^= 0x55
            file.write_bytes(data)


def page(fields: Sequence[tuple[str, Any, Any]], flips: Sequence[tuple[str, int]]) -> str:
    """docs/mutation.md."""
    lines = ["# Changes that no check notices", "", *(__doc__ or "").splitlines()[2:], "", "## Fields of the contract", ""]
    lines += ["| field | from | to | why |", "|---|---|---|---|"]
    lines += [f"| `{p}` | `{b!r:.60}` | `{a!r:.60}` | {reason_for_field(p) or '**no reason known**'} |" for p, b, a in fields]
    lines += ["", "## Bytes of the files", "", "| file | offset | why |", "|---|---|---|"]
    lines += [f"| {file} | {at} | {reason_for_bytes(file) or '**no reason known**'} |" for file, at in flips]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    """Write docs/mutation.md; 1 if an unnoticed change has no reason."""
    with tempfile.TemporaryDirectory() as place:
        folder, target = Path(place) / "drafter-a", Path(place) / "target"
        shutil.copytree(DATA / "drafter-a", folder)
        shutil.copytree(DATA / "target", target)
        fields = list(unnoticed_fields(folder, target, deep="--static" not in argv))
        flips = [] if "--static" in argv else list(unnoticed_bytes(folder, target))
    text = page(fields, flips)
    if "--print" in argv:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    unexplained = [p for p, _, _ in fields if reason_for_field(p) is None] + [f"{f}@{at}" for f, at in flips if reason_for_bytes(f) is None]
    for what in unexplained:
        print(f"unnoticed and unexplained: {what}", file=sys.stderr)
    return int(bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
