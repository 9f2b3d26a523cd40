"""What the live cases of both engines share: cases, `contract` as a command, what is due, and the figures that documentation quotes."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DATA = ROOT / "eagle3_contract" / "demo" / "data"
TARGET = DATA / "target"
NEW_TOKENS, SECONDS = 40, 1800
TENSORS = ("fc_out", "state_out", "final_normed", "logits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run.

    Attributes:
        name: what it is about.
        drafter: folder of the demo.
        options: of `contract verify`, besides the usual ones.
        exit_code: that is due.
        dimension: of one failed check at least; None where nothing may fail.
        how: ``verify``, ``gate`` (a start that the gate judges), or a way of recording a server that the engine's own module knows.
        exported: serve it as `contract export` writes it for the engine, not as it stands in the demo.
    """

    name: str
    drafter: str = "drafter-a"
    options: Sequence[str] = ()
    exit_code: int = 0
    dimension: str | None = None
    how: str = "verify"
    exported: bool = False


class Outcome(NamedTuple):
    """What differs from what is due (None: nothing), and figures worth a line."""

    fault: str | None
    figures: str = ""


def contract(env: Mapping[str, str], *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON report of a command, run in the checkout."""
    command = [sys.executable, "-m", "contract", *words, "--format", "json"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    try:
        report: dict[str, Any] = json.loads(ran.stdout)
    except json.JSONDecodeError:
        report = {"checks": [], "stderr": ran.stderr[-2000:]}
    return ran.returncode, report


def outcome(case: Case, code: int, report: Mapping[str, Any]) -> Outcome:
    """Whether a verification came out as is due."""
    failed = [c for c in report["checks"] if c["status"] == "failed"]
    dimensions = {c["dimension"] for c in failed}
    if code == case.exit_code and (case.dimension in dimensions or (case.dimension is None and not failed)):
        return Outcome(None, figures(report))
    open_ = sorted(c["rule"] for c in report["checks"] if c["status"] == "unknown")
    said = sorted((c["dimension"], c["rule"]) for c in failed)
    return Outcome(f"exit code {code}, failed {said}, open {open_} {report.get('stderr', '')[-300:]}", figures(report))


def figures(report: Mapping[str, Any]) -> str:
    """Rounds, accepted drafts, the worst relative error of a row of each tensor of the drafter, and how many rows a finding is about."""
    measured = report.get("measurements", {}).get("engine_drafter", {})
    worst = [f"{name} {measured['tensors'][name]['worst']:.1e}" for name in TENSORS if name in measured.get("tensors", {})]
    found = [
        f"{c['rule']} in {c['evidence']['rows']} rows"
        for c in report["checks"]
        if c["status"] == "failed" and c["dimension"] == "engine" and "rows" in (c["evidence"] or {})
    ]
    said = [f"{measured['rounds']} rounds, {measured['accepted']} accepted; worst row: {', '.join(worst)}"] if worst else []
    return "; ".join([*said, *found])


def main(engine: str, about: str | None, cases: Sequence[Case], run: Callable[[Case, Path, Path], Outcome]) -> int:
    """Run the cases, each in a folder of its own, and say which differ."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=[c.name for c in cases])
    given = parser.parse_args()
    differ = 0
    for case in cases:
        if given.only and case.name not in given.only:
            continue
        with tempfile.TemporaryDirectory(prefix=f"live-{engine}-") as folder:
            found = run(case, given.python, Path(folder))
        differ += found.fault is not None
        print("; ".join(filter(None, (f"{case.name}: {found.fault or 'as due'}", found.figures))), flush=True)
    return 1 if differ else 0
