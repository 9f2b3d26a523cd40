"""A contract that states the digest of its golden rows notices one flipped bit; one that states none says nothing."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from contract import Status, check
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.check import golden_digest
from eagle3_contract.check.run import Integrity, check_spec

DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data" / "drafter-a"


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "drafter"))


def statuses(folder: Path) -> list[Status]:
    return [c.status for c in check(folder / "contract.yaml").checks if c.rule == "golden.digest"]


def test_the_rows_of_the_contract(drafter: Path) -> None:
    assert statuses(drafter) == [Status.PASSED]
    assert int(check(drafter / "contract.yaml").exit_code) == 0


def test_one_bit(drafter: Path) -> None:
    rows = drafter / "golden" / "golden.safetensors"
    data = bytearray(rows.read_bytes())
    data[-4] ^= 1
    rows.write_bytes(data)
    report = check(drafter / "contract.yaml")
    (failed,) = [c for c in report.checks if c.status is Status.FAILED]
    assert failed.rule == "golden.digest"
    assert failed.actual == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert failed.where is not None
    assert failed.where.line == 183
    assert int(report.exit_code) == 1


@pytest.mark.parametrize("how", ["missing", "link"])
def test_rows_that_are_not_there(drafter: Path, how: str) -> None:
    rows = drafter / "golden" / "golden.safetensors"
    data = rows.read_bytes()
    rows.unlink()
    if how == "link":
        (drafter.parent / "elsewhere").write_bytes(data)
        rows.symlink_to(drafter.parent / "elsewhere")
    assert statuses(drafter) == [Status.FAILED]


def test_a_contract_that_states_none(drafter: Path) -> None:
    spec = drafter / "contract.yaml"
    tree = yaml.safe_load(spec.read_text())
    del tree["golden"]["sha256"]
    spec.write_text(yaml.safe_dump(tree))
    assert statuses(drafter) == []
    assert int(check(spec).exit_code) == 0
    tree["golden"]["sha256"] = "sha256:123"
    spec.write_text(yaml.safe_dump(tree))
    assert int(check(spec).exit_code) == 2


def test_a_large_file_waits_for_digests(drafter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_digest, "AT_ONCE_BYTES", 100)
    assert statuses(drafter) == [Status.SKIPPED]
    report = check_spec(drafter / "contract.yaml", integrity=Integrity.DIGESTS, limits=DEFAULT_LIMITS)
    assert [c.status for c in report.checks if c.rule == "golden.digest"] == [Status.PASSED]
