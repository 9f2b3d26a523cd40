"""Bundles that real engines wrote: what they do right is kept, and what they do wrong by themselves is found and located."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from contract.findings import ExitCode, Status
from verify.engine_drafter.conftest import Judged, judge

DATA = Path(__file__).parent / "data"


def recorded(name: str, tmp_path: Path) -> Judged:
    with tarfile.open(DATA / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return judge(tmp_path / name)


def test_sglang_in_chains_is_kept(tmp_path: Path) -> None:
    """A prompt alone, and the same one behind a prefix of the radix cache, whose rows are those of the first."""
    judged = recorded("sglang", tmp_path)
    assert judged.exit_code is ExitCode.KEPT, judged.text
    assert judged.measurement["tensors"]["state_out"]["worst"] < 1e-6
    assert judged.measurement["rows"]["rejected draft behind the accepted"] > 0


def test_vllm_feeds_the_end_of_the_prompt_at_the_end_of_a_chunk(tmp_path: Path) -> None:
    """vLLM 0.32.0: the last row of every chunk but the last is fed the prompt's last token, and stays in the drafter's cache. The request
    that ran in one chunk is right, and everything else of the other one, too."""
    judged = recorded("vllm", tmp_path)
    check = judged.one("engine.input-ids")
    first = check.evidence["first"]
    assert (first["request"], first["run"], first["phase"], first["token"]) == ("prompt-00@chunked", "chunked", "prefill", 7)
    assert check.evidence["rows"] == 1
    assert "the last one of the whole prompt" in check.message
    assert check.fix is not None
    assert "llm_base_proposer.py" in check.fix
    assert judged.measurement["rows"]["draft after a chunk of the prompt"] == 2
    assert {c.status for c in judged.checks if c.rule != "engine.input-ids"} == {Status.PASSED}


def test_sglang_reads_other_branches_rows_in_trees(tmp_path: Path) -> None:
    """SGLang 0.5.23: a branch that goes on in another place of its step attends to the rows of that place, not to its own ancestors'."""
    judged = recorded("sglang-tree", tmp_path)
    check = judged.one("engine.draft-kv")
    first = check.evidence["first"]
    assert (first["phase"], first["step"], check.dimension) == ("draft", 2, "engine")
    assert "the draft rows in its own place of the earlier steps, and not its ancestors" in check.message
    assert check.evidence["explanation"]["worst"] < 1e-6
    assert check.evidence["rivals"] == []
    assert check.fix is not None
    assert "spec_utils.py" in check.fix


@pytest.mark.parametrize("name", ["vllm", "sglang", "sglang-tree"])
def test_every_row_is_accounted_for(tmp_path: Path, name: str) -> None:
    judged = recorded(name, tmp_path)
    check = next(c for c in judged.checks if c.rule == "engine.rows-accounted")
    assert check.status is Status.PASSED
    assert check.actual == sum(judged.measurement["rows"].values())
