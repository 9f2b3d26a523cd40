"""``check`` as a whole: exit codes, what is still said beside an unusable input, what it never imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from factory import MLA, Pair, pair, tiny, write_contract
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.findings import Check, ExitCode, Status, Verdict
from contract.reporting import Report
from contract.requests import CheckRequest
from eagle3_contract.check import run
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check, check_spec
from eagle3_contract.model.wiring import Attention, Feedback, LaterLayerNorm, NormBeforeFc, Owner, Rope, Wiring

IN_TEMPORARY_FOLDERS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

WIRINGS: dict[str, Wiring] = {
    "plain": tiny(),
    "full vocabulary": tiny(draft_vocab_size=96),
    "wider target": tiny(target_hidden_size=40),
    "input norm": tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,)),
    "fc norms": tiny(norms_before_fc=(NormBeforeFc.FC_NORM,), feedback=Feedback.POST_NORM),
    "both norms": tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM, NormBeforeFc.FC_NORM)),
    "biases": tiny(fc_bias=True, qkv_bias=True, o_bias=True, mlp_bias=True),
    "q and k norms": tiny(qk_norm=True),
    "three layers": tiny(layers=3, later_layer_norm=LaterLayerNorm.INPUT_LAYERNORM),
    "two layers, hidden norm": tiny(layers=2, later_layer_norm=LaterLayerNorm.HIDDEN_NORM),
    "own embedding": tiny(embedding=Owner.OWN),
    "tied": tiny(embedding=Owner.OWN, lm_head=Owner.TIED_TO_OWN, draft_vocab_size=96),
    "target's head": tiny(lm_head=Owner.TARGET, draft_vocab_size=96),
    "window": tiny(window=8),
    "normed residual": tiny(norm_before_residual=True),
    "double norm": tiny(double_norm=True),
    "llama3 rope": tiny(
        rope=Rope(type="llama3", theta=5e5, scaling={"factor": 8.0, "low_freq_factor": 1.0}, table_length=64, rotary_dim=12)
    ),
    "mrope": tiny(rope=Rope(type="mrope", theta=1e6, scaling={"mrope_section": (2, 2, 2)}, table_length=64, rotary_dim=12)),
    "latent": tiny(attention=Attention.MLA, mla=MLA, rope=Rope(theta=5e4, table_length=64, rotary_dim=4)),
}


def failures(report: Report) -> list[str]:
    return [f"{c.rule}: {c.message}" for c in report.checks if c.status is Status.FAILED or (c.status is Status.UNKNOWN and c.required)]


@pytest.mark.parametrize("name", WIRINGS)
@pytest.mark.parametrize("dialect", ["midlayer", "layers"])
def test_every_wiring_is_kept(name: str, dialect: str, tmp_path: Path) -> None:
    report = check_spec(pair(WIRINGS[name], dialect=dialect).write(tmp_path), integrity=Integrity.DIGESTS)
    assert report.exit_code is ExitCode.KEPT, failures(report)


@pytest.mark.parametrize(("layout", "ids"), [("flat", (2, 4, 5)), ("flat", None), ("nested", (1, 3, 4)), ("speculators", (2, 4, 5))])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_layout_and_dtype_is_kept(layout: str, ids: tuple[int, ...] | None, dtype: str, tmp_path: Path) -> None:
    report = check_spec(pair(layout=layout, ids=ids, dtype=dtype).write(tmp_path), integrity=Integrity.VALUES)
    assert report.exit_code is ExitCode.KEPT, failures(report)


def test_request(tmp_path: Path) -> None:
    report = check(CheckRequest(spec=str(pair().write(tmp_path)), integrity="digests"))
    assert report.exit_code is ExitCode.KEPT
    assert report.command == "check"
    assert report.subject["integrity"] == "digests"
    assert sum(c.rule == "drafter.digest" and c.status is Status.PASSED for c in report.checks) == 2


def test_digests_are_not_read_at_headers(tmp_path: Path) -> None:
    made = pair()
    made.record_digests = False
    spec = made.write(tmp_path)
    assert check_spec(spec).exit_code is ExitCode.KEPT
    report = check_spec(spec, integrity=Integrity.DIGESTS)
    assert {c.rule for c in report.checks if c.status is Status.FAILED} == {"drafter.digest"}


def test_failed_check_and_unreadable_file_exit_2_with_both(tmp_path: Path) -> None:
    made = pair()
    made.config["rope_theta"] = 5e5
    spec = made.write(tmp_path)
    (tmp_path / "extra.safetensors").write_bytes(b"no safetensors")
    report = check_spec(spec)
    assert report.exit_code is ExitCode.UNUSABLE
    assert report.verdict is Verdict.VIOLATED
    assert "config.rope-theta" in {c.rule for c in report.checks if c.status is Status.FAILED}


def test_unusable_config_leaves_the_tensors_checked(tmp_path: Path) -> None:
    made = pair()
    made.raw_config = b"{"
    made.tensors.pop("fc.weight")
    report = check_spec(made.write(tmp_path))
    assert report.exit_code is ExitCode.UNUSABLE
    assert {"tensors.missing", "wiring.fc-width"} <= {c.rule for c in report.checks if c.status is Status.FAILED}


def test_unreadable_weights_prove_nothing_missing(tmp_path: Path) -> None:
    spec = pair().write(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    report = check_spec(spec)
    assert report.exit_code is ExitCode.UNUSABLE
    assert not [c for c in report.checks if c.status is Status.FAILED]


def test_missing_folder(tmp_path: Path) -> None:
    made = pair()
    made.contract["drafter"]["path"] = "nowhere"
    report = check_spec(write_contract(tmp_path / "contract.yaml", made.contract))
    assert report.exit_code is ExitCode.UNUSABLE
    assert any(c.rule == "files.not-found" for c in report.checks)
    assert any(c.rule == "recipe.known" and c.status is Status.PASSED for c in report.checks)


def test_every_problem_of_a_malformed_contract_is_reported(tmp_path: Path) -> None:
    made = pair()
    made.contract["wiring"]["head_dims"] = made.contract["wiring"].pop("head_dim")
    made.contract["target"]["layers"] = "eight"
    report = check_spec(made.write(tmp_path))
    assert report.exit_code is ExitCode.UNUSABLE
    assert {c.rule for c in report.checks} >= {"contract.unknown-key", "contract.missing-key", "contract.wrong-type"}
    assert all(c.where is not None and c.where.line for c in report.checks)


def test_missing_contract(tmp_path: Path) -> None:
    assert check_spec(tmp_path / "contract.yaml").exit_code is ExitCode.UNUSABLE


def test_findings_point_at_the_line(tmp_path: Path) -> None:
    made = pair()
    made.contract["wiring"]["norm_before_residual"] = True
    spec = made.write(tmp_path)
    found = next(c for c in check_spec(spec).checks if c.rule == "config.norm-before-residual")
    line = found.evidence["contract"]["line"]
    assert "norm_before_residual: true" in spec.read_text().splitlines()[line - 1]


def test_files_that_the_contract_names_elsewhere_are_accounted_for(tmp_path: Path) -> None:
    made = pair()
    made.contract["golden"] = {"file": "golden.safetensors", "produced_by": "tool"}
    made.contract["training"]["samples"] |= {"path": "samples", "count": 1, "manifest": {"hs_0.safetensors": "sha256:" + "3" * 64}}
    made.files["golden.safetensors"] = b"rows"
    spec = made.write(tmp_path)
    (tmp_path / "samples").mkdir()
    assert check_spec(spec).exit_code is ExitCode.KEPT


@pytest.mark.parametrize("path", ["samples", ".", None])
def test_the_folder_of_samples_that_are_too_many_to_be_listed_is_accounted_for(path: str | None, tmp_path: Path) -> None:
    """As `contract init` writes it from 1,501 samples on; without the folder's name in the contract, it is a stranger."""
    made = pair()
    made.contract["training"]["samples"] |= {"path": path, "count": 0, "manifest": {}}
    spec = made.write(tmp_path)
    assert check_spec(spec).exit_code is ExitCode.KEPT
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "hs_0.safetensors").write_bytes(b"")
    assert check_spec(spec).exit_code is (ExitCode.KEPT if path == "samples" else ExitCode.VIOLATED)


@given(data=st.data())
@IN_TEMPORARY_FOLDERS
def test_a_tensor_deleted_on_either_side_is_never_kept(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = pair(WIRINGS[data.draw(st.sampled_from(sorted(WIRINGS)))], dialect="layers")
    name = data.draw(st.sampled_from(sorted(made.tensors)))
    side = data.draw(st.sampled_from(["checkpoint", "contract", "both"]))
    if side != "contract":
        del made.tensors[name]
    if side != "checkpoint":
        del made.contract["tensors"][name]
    if (side, name) == ("both", "t2d"):
        return  # a map without a mask is complete
    assert check_spec(made.write(tmp_path_factory.mktemp("pair"))).exit_code is ExitCode.VIOLATED


@given(data=st.data())
@IN_TEMPORARY_FOLDERS
def test_an_unknown_that_decides_the_arithmetic_is_never_kept(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = pair(tiny())
    keys = [("wiring", k) for k, v in made.contract["wiring"].items() if not isinstance(v, dict) and k != "mla"]
    keys += [("alignment", k) for k in made.contract["alignment"]] + [
        ("hidden_states", "boundaries"),
        ("vocab", "map"),
        ("target", "hidden_size"),
    ]
    section, key = data.draw(st.sampled_from(keys))
    made.contract[section][key] = {"unknown": "lost"}
    report = check_spec(made.write(tmp_path_factory.mktemp("pair")))
    assert report.exit_code is ExitCode.UNKNOWN, failures(report)
    assert any("lost" in c.message for c in report.checks if c.required and c.status is Status.UNKNOWN)


@given(data=st.data())
@IN_TEMPORARY_FOLDERS
def test_a_shape_or_dtype_of_another_kind_is_never_kept(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made: Pair = pair(tiny())
    name = data.draw(st.sampled_from(sorted(n for n in made.tensors if n not in ("d2t", "t2d"))))
    tensor = made.tensors[name]
    if data.draw(st.booleans()):
        tensor.dtype = "float32"
    else:
        tensor.values = tensor.values[..., :-1]
    assert check_spec(made.write(tmp_path_factory.mktemp("pair"))).exit_code is ExitCode.VIOLATED


def test_check_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    spec = pair().write(tmp_path)
    script = (
        "import sys; from eagle3_contract.check.run import check_spec; from eagle3_contract.check import ALL_RULES\n"
        f"report = check_spec({str(spec)!r}, engines=('sglang==0.5.23', 'vllm==0.32.0'))\n"
        "assert report.checks and ALL_RULES\n"
        "print(sorted({'torch', 'transformers', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STEPS = (
    "python -m sglang.launch_server --model-path target --speculative-draft-model-path drafter --speculative-algorithm EAGLE3 "
    "--speculative-num-steps {} --speculative-eagle-topk 1 --speculative-num-draft-tokens {}"
)


@pytest.mark.parametrize("name", ["sglang", "sglang==0.5.23"])
def test_serving_flags_of_the_seed(name: str, tmp_path: Path) -> None:
    """One step at topk 1 limits sixteen draft tokens to two, with one warning line of the engine."""
    spec = str(pair().write(tmp_path))
    kept = check(CheckRequest(spec=spec, engines=("sglang==0.5.23",), serve_args={name: STEPS.format(3, 4)}))
    assert kept.exit_code is ExitCode.KEPT, failures(kept)
    report = check(CheckRequest(spec=spec, engines=("sglang==0.5.23",), serve_args={name: STEPS.format(1, 16)}))
    said = [c.message for c in report.checks if c.rule == "reading.serve" and c.status is Status.FAILED]
    assert report.exit_code is ExitCode.VIOLATED
    assert any("steps 1" in m for m in said)
    assert any("draft_tokens 2" in m for m in said)


def test_unreadable_serving_flags_are_rejected_and_the_rest_is_checked(tmp_path: Path) -> None:
    report = check(CheckRequest(spec=str(pair().write(tmp_path)), engines=("sglang==0.5.23",), serve_args={"sglang": "--x 'open"}))
    assert report.exit_code is ExitCode.UNUSABLE
    assert any(c.rule == "reading.boundaries" and c.status is Status.PASSED for c in report.checks)


def test_worst_runner_counts(tmp_path: Path) -> None:
    """Nested ids are right for neither runner of vLLM here; a top-level list is right for both."""
    engines = ("vllm==0.32.0",)
    good = pair(boundaries=(0, 3, 5), ids=(0, 3, 5), layout="flat").write(tmp_path / "good")
    assert check_spec(good, engines=engines).exit_code is ExitCode.KEPT
    nested = pair(boundaries=(0, 3, 5), ids=(0, 3, 5)).write(tmp_path / "nested")
    found = [c for c in check_spec(nested, engines=engines).checks if c.rule == "reading.boundaries"]
    assert {(c.evidence["engine"], c.status) for c in found} == {("vllm[v1]==0.32.0", Status.PASSED), ("vllm[v2]==0.32.0", Status.FAILED)}


def test_waivers_beside_the_contract_are_accounted_for(tmp_path: Path) -> None:
    spec = pair().write(tmp_path)
    (tmp_path / "contract.waivers.yaml").write_text("schema_version: 1\nwaivers: []\n")
    assert check_spec(spec).exit_code is ExitCode.KEPT


def test_files_in_a_listed_subfolder_are_a_closed_world_too(tmp_path: Path) -> None:
    made = pair()
    made.contract["drafter"]["files"]["extra/notes/a.txt"] = {"unknown": "made here"}
    spec = made.write(tmp_path)
    (tmp_path / "extra" / "notes").mkdir(parents=True)
    (tmp_path / "extra" / "notes" / "a.txt").write_text("a")
    assert check_spec(spec).exit_code is ExitCode.KEPT
    (tmp_path / "extra" / "b.txt").write_text("b")
    found = [c.message for c in check_spec(spec).checks if c.rule == "drafter.file-unlisted" and c.status is Status.FAILED]
    assert len(found) == 1
    assert "extra/b.txt" in found[0]


def test_folders_nested_without_end_are_a_limit_and_no_traceback(tmp_path: Path) -> None:
    made = pair()
    made.contract["drafter"]["files"]["extra/a.txt"] = {"unknown": "made here"}
    spec = made.write(tmp_path)
    deep = tmp_path / "extra"
    deep.mkdir()
    (deep / "a.txt").write_text("a")
    for _ in range(65):
        deep = deep / "d"
        deep.mkdir()
    report = check_spec(spec)
    assert report.exit_code is ExitCode.UNUSABLE
    assert any("folder_depth: 65 > 64" in c.message for c in report.checks)


def test_listed_file_of_a_missing_subfolder(tmp_path: Path) -> None:
    made = pair()
    made.contract["drafter"]["files"]["extra/a.txt"] = {"unknown": "made here"}
    report = check_spec(made.write(tmp_path))
    assert [c.rule for c in report.checks if c.status is Status.FAILED] == ["drafter.file-missing"]


def test_sampled_values_miss_what_a_whole_read_finds(tmp_path: Path) -> None:
    made = pair(tiny(draft_vocab_size=49152, target_vocab_size=50000), dtype="float32")
    made.tensors["lm_head.weight"].values[1, 5] = float("nan")
    spec = made.write(tmp_path)
    assert check_spec(spec, integrity=Integrity.VALUES).exit_code is ExitCode.KEPT
    assert check_spec(spec, integrity=Integrity.DIGESTS).exit_code is ExitCode.VIOLATED


def test_interrupted_check_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> list[Check]:
        raise KeyboardInterrupt

    made = pair()
    made.config["rope_theta"] = 5e5
    spec = made.write(tmp_path)
    monkeypatch.setattr(run, "ALL", (*run.ALL, interrupt))
    report = check_spec(spec)
    assert not report.complete
    assert report.exit_code is ExitCode.UNUSABLE
    assert "config.rope-theta" in {c.rule for c in report.checks if c.status is Status.FAILED}


@pytest.mark.parametrize("pinned", [True, False])
def test_a_second_name_of_a_file_is_said_where_its_digest_is_not_pinned(tmp_path: Path, pinned: bool) -> None:
    made = pair()
    spec = made.write(tmp_path / "d")
    if not pinned:
        made.contract["drafter"]["files"]["model.safetensors"] = {"unknown": "not hashed"}
        write_contract(spec, made.contract)
    (tmp_path / "elsewhere").hardlink_to(tmp_path / "d" / "model.safetensors")
    found = [c.rule for c in check_spec(spec).checks if c.status is not Status.PASSED]
    assert ("files.hard-link" in found) is not pinned
