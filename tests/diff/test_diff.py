"""What changed, where, and whether it breaks: every row of the table with a change that breaks and one that does not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import DIGEST, MLA, pair, tiny, write_contract
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.errors import UserError
from contract.findings import Check, ExitCode, Status
from contract.report.registry import FORMATS, render
from contract.reporting import Report
from contract.requests import DiffRequest
from eagle3_contract.diff.run import diff
from eagle3_contract.model.wiring import Attention

OTHER = "sha256:" + "1" * 64
Tree = dict[str, Any]


def tree() -> Tree:
    """A contract with something in every section."""
    contract = pair(tiny()).contract
    contract["golden"] = {"file": "golden.safetensors", "produced_by": "trainer"}
    contract["training"]["samples"] |= {"count": 2, "manifest": {"a.pt": DIGEST, "b.pt": DIGEST}}
    contract["training"]["metrics"]["accuracy"] = [0.7, 0.5]
    contract["acceptance"] |= {"floor": 2.1, "baselines": [{"engine": "sglang==0.5.23", "value": 2.4, "source": "a run"}]}
    contract["tolerances"] = {"states": 0.01, "logits": None}
    contract["drafter"]["files"]["README.md"] = DIGEST
    contract["target"]["fingerprint"] = DIGEST
    contract["training"]["data"]["chat_template_sha256"] = DIGEST
    return contract


def put(contract: Tree, path: str, value: Any) -> None:
    *parents, leaf = path.split("/")
    at: Any = contract
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if value is ...:
        del at[leaf]
    else:
        at[leaf] = value


def compare(folder: Path, *edits: tuple[str, Any], before: Callable[[Tree], None] = lambda _: None) -> Report:
    old = tree()
    before(old)
    new = copy.deepcopy(old)
    for path, value in edits:
        put(new, path, value)
    folder.mkdir(exist_ok=True)
    return diff(DiffRequest(old=str(write_contract(folder / "old.yaml", old)), new=str(write_contract(folder / "new.yaml", new))))


def listed(report: Report) -> list[Check]:
    return [c for c in report.checks if "change" in c.evidence]


BREAKING: dict[str, Any] = {
    "drafter/files/model.safetensors": OTHER,
    "drafter/files/other.safetensors": DIGEST,
    "drafter/files/config.json": ...,
    "target/revision": "other",
    "target/tokenizer_sha256": OTHER,
    "target/layers": 9,
    "hidden_states/boundaries": [0, 4, 5],
    "hidden_states/point": "branch_only",
    "vocab/map": "absolute",
    "vocab/present": False,
    "wiring/norm_before_residual": True,
    "wiring/feedback": "post_norm",
    "wiring/rope/theta": 5e5,
    "wiring/rope/scaling": {"factor": 2.0},
    "wiring/window": 16,
    "alignment/step_positions": "constant",
    "tensors/fc.weight": ...,
    "tensors/fc.weight/dtype": "float32",
    "training/rollout": "own_argmax",
    "training/max_length": 1024,
    "training/target_state/normed": False,
    "training/data/thinking": "on",
    "training/data/loss_mask_rule": "mask_of_token",
    "training/samples/manifest/b.pt": ...,
    "training/samples/count": 1,
    "training/metrics/definition": "eagle.acc",
    "training/metrics/accuracy": [0.7, 0.4],
    "golden": None,
    "golden/produced_by": "tool",
    "serving/topk": 4,
    "acceptance/k": 4,
    "acceptance/floor": 2.0,
    "acceptance/baselines": [],
    "acceptance/baselines/0/value": 2.3,
    "tolerances/states": 0.02,
}
ALSO_BREAKING = {
    "a shorter list of accuracies": ("training/metrics/accuracy", [0.8]),
    "another sample under an old name": ("training/samples/manifest/a.pt", OTHER),
    "the built-in tolerance instead of a tighter one": ("tolerances/states", None),
    "known becomes unknown": ("wiring/feedback", {"unknown": "forgotten"}),
    "a floor that is unknown now": ("acceptance/floor", {"unknown": "not measured"}),
}
HARMLESS: dict[str, tuple[str, Any]] = {
    "README": ("drafter/files/README.md", OTHER),
    "a licence is added": ("drafter/files/LICENSE", OTHER),
    "README is removed": ("drafter/files/README.md", ...),
    "evidence": ("wiring/feedback", {"value": "pre_norm", "evidence": "measured", "note": "asked"}),
    "another reason": ("training/commit", {"unknown": "nobody knows"}),
    "learned": ("training/commit", "abc"),
    "trainer's version": ("training/version", "0.3.0"),
    "trainer forgotten": ("training/trainer", {"unknown": "lost"}),
    "longer training": ("training/max_length", 4096),
    "more samples": ("training/samples/manifest/c.pt", DIGEST),
    "higher claim": ("training/metrics/accuracy", [0.7, 0.6, 0.1]),
    "higher floor": ("acceptance/floor", 2.2),
    "higher baseline": ("acceptance/baselines/0/value", 2.5),
    "tighter": ("tolerances/states", 0.001),
    "tighter than built in": ("tolerances/logits", 1e-6),
    "golden file renamed": ("golden/file", "rows.safetensors"),
}


@pytest.mark.parametrize(("path", "value"), [*BREAKING.items(), *ALSO_BREAKING.values()])
def test_breaking(tmp_path: Path, path: str, value: Any) -> None:
    report = compare(tmp_path, (path, value))
    (change,) = listed(report)
    assert change.status is Status.FAILED
    assert report.exit_code is ExitCode.VIOLATED
    assert change.evidence["breaking"] is True
    assert change.where is not None
    assert change.where.line is not None


@pytest.mark.parametrize(("path", "value"), HARMLESS.values(), ids=HARMLESS)
def test_not_breaking(tmp_path: Path, path: str, value: Any) -> None:
    report = compare(tmp_path, (path, value))
    (change,) = listed(report)
    assert (change.status, change.required) == (Status.UNKNOWN, False)
    assert report.exit_code is ExitCode.KEPT


def test_the_reverse_of_a_tightening_breaks(tmp_path: Path) -> None:
    for path, value in [HARMLESS[n] for n in ("longer training", "more samples", "higher floor", "tighter", "higher baseline")]:
        compare(tmp_path, (path, value))
        back = diff(DiffRequest(old=str(tmp_path / "new.yaml"), new=str(tmp_path / "old.yaml")))
        assert back.exit_code is ExitCode.VIOLATED, path


def test_learning_a_wiring_statement_breaks_nothing(tmp_path: Path) -> None:
    report = compare(tmp_path, ("wiring/feedback", "post_norm"), before=lambda c: put(c, "wiring/feedback", {"unknown": "not said"}))
    assert report.exit_code is ExitCode.KEPT
    assert listed(report)[0].evidence["change"] == "became known"


def test_equal_contracts_are_kept_whatever_they_look_like(tmp_path: Path) -> None:
    first = write_contract(tmp_path / "a.yaml", tree())
    second = tmp_path / "b.yaml"
    second.write_text("# a comment\n\n" + first.read_text().replace("feedback: pre_norm", "feedback: {value: pre_norm}"))
    report = diff(DiffRequest(old=str(first), new=str(second)))
    assert listed(report) == []
    assert report.exit_code is ExitCode.KEPT


def test_two_unknown_digests_never_compare_equal(tmp_path: Path) -> None:
    report = compare(tmp_path, before=lambda c: put(c, "drafter/files/model.safetensors", {"unknown": "not at hand"}))
    assert [c.rule for c in listed(report)] == ["diff.uncomparable"]
    assert listed(compare(tmp_path)) == [
        c for c in listed(compare(tmp_path)) if c.where is not None and c.where.key == "target.fingerprint"
    ]


def test_both_values_and_both_lines_are_said(tmp_path: Path) -> None:
    report = compare(tmp_path, ("wiring/feedback", "post_norm"), ("drafter/files/LICENSE", DIGEST))
    change = next(c for c in listed(report) if c.status is Status.FAILED)
    lines = [
        next(i for i, line in enumerate((tmp_path / name).read_text().splitlines(), 1) if "feedback:" in line)
        for name in ("old.yaml", "new.yaml")
    ]
    assert lines[1] == lines[0] + 1
    assert (change.expected, change.actual) == ("pre_norm", "post_norm")
    assert [change.evidence[side]["line"] for side in ("old", "new")] == lines
    assert all(f"(line {line})" in change.message for line in lines)
    assert change.where is not None
    assert (change.where.file, change.where.line) == (str(tmp_path / "new.yaml"), lines[1])


def test_what_is_removed_points_into_the_old_file(tmp_path: Path) -> None:
    (change,) = listed(compare(tmp_path, ("tensors/fc.weight", ...)))
    assert change.where is not None
    assert change.where.file == str(tmp_path / "old.yaml")
    assert "fc.weight removed" in change.message


def test_a_section_that_comes_is_one_change(tmp_path: Path) -> None:
    mla = {name: getattr(MLA, name) for name in MLA.__dataclass_fields__}
    report = compare(tmp_path, ("wiring/mla", mla))
    assert [c.where.key for c in listed(report) if c.where is not None] == ["wiring.mla"]
    gone = compare(tmp_path, ("wiring/mla", None), before=lambda c: put(c, "wiring/mla", mla))
    assert [c.where.key for c in listed(gone) if c.where is not None] == ["wiring.mla"]


def test_baselines_are_known_by_their_engine(tmp_path: Path) -> None:
    other = {"engine": "vllm==0.32.0", "value": 2.0, "source": "a run"}
    report = compare(tmp_path, ("acceptance/baselines", [other, tree()["acceptance"]["baselines"][0]]))
    (change,) = listed(report)
    assert change.evidence["change"] == "added"
    assert report.exit_code is ExitCode.KEPT


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_shows_a_breaking_change(tmp_path: Path, name: str) -> None:
    said = "diff.wiring" if name == "prometheus" else "post_norm"  # figures name the rule; words are for people
    assert said in render(compare(tmp_path, ("wiring/feedback", "post_norm")), name).replace("\\", "")


@pytest.mark.parametrize("name", ["text", "json", "jsonl", "html", "markdown"])
def test_formats_for_people_list_harmless_changes_too(tmp_path: Path, name: str) -> None:
    assert "0.3.0" in render(compare(tmp_path, ("training/version", "0.3.0")), name).replace("\\", "")


def test_a_contract_that_is_none_is_an_error(tmp_path: Path) -> None:
    good = write_contract(tmp_path / "a.yaml", tree())
    (tmp_path / "b.yaml").write_text("schema_version: 1\nkind: eagle3\n")
    with pytest.raises(UserError):
        diff(DiffRequest(old=str(good), new=str(tmp_path / "b.yaml")))


@settings(max_examples=25)
@given(first=st.floats(1, 9), second=st.floats(1, 9))
def test_floor_breaks_exactly_when_lowered(tmp_path_factory: pytest.TempPathFactory, first: float, second: float) -> None:
    report = compare(
        tmp_path_factory.getbasetemp() / "floor", ("acceptance/floor", second), before=lambda c: put(c, "acceptance/floor", first)
    )
    assert (report.exit_code is ExitCode.VIOLATED) == (second < first)


def test_mla_contracts_compare_too(tmp_path: Path) -> None:
    contract = pair(tiny(attention=Attention.MLA, mla=MLA)).contract
    old = write_contract(tmp_path / "a.yaml", contract)
    contract["wiring"]["mla"]["v_head_dim"] = 16
    report = diff(DiffRequest(old=str(old), new=str(write_contract(tmp_path / "b.yaml", contract))))
    assert [c.rule for c in report.checks if c.status is Status.FAILED] == ["diff.wiring"]
