"""``contract demo``: the embedded pair verified, then the incident replayed on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from contract import __version__
from contract.answers import Answer
from contract.findings import ExitCode, Json, Where
from contract.report import render
from contract.reporting import Report, report_as_json
from contract.requests import CaptureRequest, DemoRequest, VerifyRequest
from eagle3_contract.commands.capture import capture
from eagle3_contract.verify.run import verify

DEFAULT_ENGINE: Final = "sglang==0.5.23"
"""Finds no layer ids in drafter B's config.json and takes its default boundaries, as the incident's engine did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act of the demo: what is shown, which drafter, who feeds it, and how it must end."""

    title: str
    drafter: str
    imitate: str | None
    ends: ExitCode


ACTS: Final = (
    Act(
        title="Drafter A, trained on boundaries [2, 6, 9], served by an engine that feeds it just these",
        drafter="drafter-a",
        imitate=None,
        ends=ExitCode.KEPT,
    ),
    Act(
        title="Drafter B, trained on [0, 2, 6] (the embedding and two layers), served by an engine that feeds it just these",
        drafter="drafter-b",
        imitate=None,
        ends=ExitCode.KEPT,
    ),
    Act(
        title=f"The incident: drafter B again, under {DEFAULT_ENGINE}, which finds no layer ids in config.json and takes its default",
        drafter="drafter-b",
        imitate=DEFAULT_ENGINE,
        ends=ExitCode.VIOLATED,
    ),
)


def demo(request: DemoRequest) -> Answer:
    """Run all acts; exit 0 when each ends as it should.

    Raises:
        UserError: the folder to keep the files in is not empty, or the target cannot be run.
    """
    with _stage(request.keep) as folder:
        played = [(act, *_play(act, folder, number)) for number, act in enumerate(ACTS, start=1)]
    right = all(report.exit_code is act.ends for act, _, report in played)
    parts = [part for number, (act, commands, report) in enumerate(played, start=1) for part in _told(number, act, commands, report)]
    verdict = "All three came out as they should." if right else "An act did not end as it should: this is a bug; please report it."
    kept = [f"The files are in {request.keep}."] if request.keep is not None else ["`contract demo --keep DIR` leaves the files behind."]
    data = {
        "as_expected": right,
        "acts": [
            {
                "title": act.title,
                "commands": commands,
                "expected_exit_code": int(act.ends),
                "report": report_as_json(report, tool_version=__version__),
            }
            for act, commands, report in played
        ],
    }
    return Answer(text="\n".join([*parts, verdict, *kept]), data=data, exit_code=ExitCode.KEPT if right else ExitCode.VIOLATED)


@contextmanager
def _stage(keep: str | None) -> Iterator[Path]:
    """A folder with a copy of the embedded data; the user's own, or one that is removed."""
    with as_file(files("eagle3_contract.demo").joinpath("data")) as data:
        if keep is not None:
            shutil.copytree(data, keep)
            yield Path(keep)
            return
        with tempfile.TemporaryDirectory(prefix="contract-demo-") as folder:
            shutil.copytree(data, folder, dirs_exist_ok=True)
            yield Path(folder)


def _play(act: Act, folder: Path, number: int) -> tuple[list[str], Report]:
    """Capture and verify, as the two commands that a user would type."""
    spec, target, bundle = f"{act.drafter}/contract.yaml", "target", f"capture-{number}"
    imitate = f" --imitate {act.imitate}" if act.imitate is not None else ""
    commands = [
        f"contract capture {spec} --engine transformers{imitate} --target {target} --samples {act.drafter}/samples -o {bundle}",
        f"contract verify {spec} --capture {bundle} --target {target}",
    ]
    capture(
        CaptureRequest(
            spec=str(folder / spec),
            engine="transformers",
            target=str(folder / target),
            out=str(folder / bundle),
            samples=str(folder / act.drafter / "samples"),
            imitate=act.imitate,
            device="cpu",
        )
    )
    request = VerifyRequest(spec=str(folder / spec), capture=str(folder / bundle), target=str(folder / target), device="cpu")
    return commands, _relative(verify(request), folder)


def _relative(report: Report, folder: Path) -> Report:
    """The same report with the stage's folder left out of it: what a user sees who stands in it."""
    prefix = f"{folder}/"

    def short(value: Json) -> Json:
        if isinstance(value, str):
            return value.replace(prefix, "")
        if isinstance(value, Mapping):
            return {short(k): short(v) for k, v in value.items()}
        return [short(v) for v in value] if isinstance(value, list | tuple) else value

    def place(where: Where | None) -> Where | None:
        return None if where is None else Where(**short(where.as_dict()))

    checks = [
        replace(c, message=short(c.message), where=place(c.where), actual=short(c.actual), expected=short(c.expected), fix=short(c.fix))
        for c in report.checks
    ]
    return replace(report, checks=checks, subject=short(report.subject), provenance=short(report.provenance))


def _told(number: int, act: Act, commands: list[str], report: Report) -> list[str]:
    rule = "=" * 100
    ends = f"exit {int(report.exit_code)}" + ("" if report.exit_code is act.ends else f", but it should be {int(act.ends)}")
    return [rule, f"{number}. {act.title}", *(f"$ {c}" for c in commands), "", render(report, "text").rstrip(), "", f"({ends})", ""]
