"""A capture that contradicts itself is found even where its slots are right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from contract.findings import ExitCode
from verify.scenario import LAYERS, Scenario, dump, failed, spoil

Tensors = dict[str, Tensor]


def every_boundary_is_the_last(_: str, tensors: Tensors) -> Tensors:
    return tensors | {f"boundary.{n}": tensors[f"boundary.{LAYERS}"].clone() for n in range(1, LAYERS)}


def two_are_one(_: str, tensors: Tensors) -> Tensors:
    return tensors | {"boundary.6": tensors["boundary.7"].clone()}


def positions(change: Callable[[Tensor], Tensor]) -> Callable[[str, Tensors], Tensors]:
    return lambda _, tensors: tensors | {"position_ids": change(tensors["position_ids"])}


@pytest.mark.parametrize("change", [every_boundary_is_the_last, two_are_one])
def test_equal_boundaries(change: Callable[[str, Tensors], Tensors], clean: Scenario, right: Path, tmp_path: Path) -> None:
    report = clean.verify(spoil(right, tmp_path / "aliased", change))
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    found = [c for c in report.checks if c.rule == "capture.aliased"]
    assert len(found) == 3
    assert all("boundary 7" in c.message for c in found), [c.message for c in found]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (lambda x: x.flip(0), 1),
        (torch.zeros_like, 1),
        (lambda x: torch.where(torch.arange(len(x)) < 6, x, x + 1), 6),
        (lambda x: torch.where(torch.arange(len(x)) == 9, 4, x), 9),
        (lambda x: x - 1, 0),
    ],
)
def test_positions_out_of_order(change: Callable[[Tensor], Tensor], row: int, clean: Scenario, right: Path, tmp_path: Path) -> None:
    report = clean.verify(spoil(right, tmp_path / "moved", positions(change)))
    assert failed(report) == {"capture.positions"}, dump(report)
    assert {c.where.row for c in report.checks if c.rule == "capture.positions" and c.where is not None} == {row}


@pytest.mark.parametrize("change", [lambda x: x + 1, lambda x: torch.cat([x[:8], x[: len(x) - 8]])])
def test_offset_and_packed_documents_are_right(change: Callable[[Tensor], Tensor], clean: Scenario, right: Path, tmp_path: Path) -> None:
    """Rotations see differences only; in a packed row each document begins at 0."""
    report = clean.verify(spoil(right, tmp_path / "moved", positions(change)))
    assert report.exit_code is ExitCode.KEPT, dump(report)


def test_manifest_that_names_another_recipe(clean: Scenario, right: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(right, bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["recipe_fed"] = [3, 5, 8]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    report = clean.verify(bundle)
    assert report.exit_code is ExitCode.VIOLATED, dump(report)
    (found,) = [c for c in report.checks if c.rule == "capture.recipe-fed"]
    assert (found.expected, found.actual) == ([3, 5, 8], [0, 3, 5])
