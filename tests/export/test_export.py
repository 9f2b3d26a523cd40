"""One folder for several engines: found, written, proved by reading it back; or why there is none."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factory import MLA, Pair, pair, tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from incidents.cases_recipe import target

from contract.files.checkpoint import Checkpoint
from contract.findings import Check, ExitCode, Status
from contract.reporting import Report
from contract.requests import ExportRequest
from eagle3_contract.check.run import check_spec
from eagle3_contract.commands.export import export
from eagle3_contract.export.permute import ascending
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.wiring import Attention, Feedback, NormBeforeFc, Rope
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.load import load_drafter, load_target

SGLANG, VLLM = "sglang==0.5.23", "vllm==0.32.0"
LLAMA: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 256, "torch_dtype": "bfloat16"}
DEEPSEEK: dict[str, Any] = LLAMA | {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}


def exported(folder: Path, made: Pair, *engines: str, config: dict[str, Any] = LLAMA, permute: bool = False) -> Report:
    made.write(folder / "drafter")
    target(**config)(folder / "target") if not (folder / "target").exists() else None
    return export(
        ExportRequest(
            spec=str(folder / "drafter" / "contract.yaml"),
            engines=engines,
            out=str(folder / "out"),
            target=str(folder / "target" / "config.json"),
            permute_fc=permute,
        )
    )


def failed(report: Report) -> list[Check]:
    return [c for c in report.checks if c.status is Status.FAILED]


def boundaries(folder: Path, engine: str) -> list[Any]:
    view, served = load_drafter(folder / "out"), load_target(folder / "target" / "config.json")
    return [r.value("hidden_states.boundaries") for r in read(view, engine, served)]


def on_deepseek(made: Pair) -> Pair:
    made.contract["target"]["model_type"] = "deepseek_v3"
    return made


def latent() -> Pair:
    rope = Rope(theta=10000.0, table_length=256, rotary_dim=4, interleaved=True)
    made = pair(
        tiny(attention=Attention.MLA, mla=MLA, head_dim=12, kv_heads=4, rope=rope), boundaries=(3, 4, 6), ids=None, dialect="layers"
    )
    return on_deepseek(made)


def modern() -> Pair:
    wiring = tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,), feedback=Feedback.POST_NORM, fc_bias=False)
    return pair(wiring, layout="speculators", ids=(0, 3, 6), boundaries=(0, 3, 6), dialect="layers")


CASES: dict[str, tuple[Callable[[], Pair], tuple[str, ...], dict[str, Any]]] = {
    "embedding and two layers, both engines": (lambda: pair(boundaries=(0, 3, 5), ids=None), (SGLANG, VLLM), LLAMA),
    "default states, stated": (lambda: pair(ids=None, layout="flat"), (SGLANG, VLLM), LLAMA),
    "four states": (lambda: pair(boundaries=(1, 3, 5, 7), ids=None), (SGLANG, VLLM), LLAMA),
    "normed last state alone": (lambda: pair(tiny(fc_applied=False), boundaries=("final_norm",), ids=None), (SGLANG,), LLAMA),
    "a deepseek target on two releases": (lambda: on_deepseek(pair(boundaries=(3, 4, 6), ids=None)), ("sglang==0.5.13", SGLANG), DEEPSEEK),
    "latent attention": (latent, (SGLANG,), DEEPSEEK),
    "speculators layout for sglang": (modern, (SGLANG, VLLM), LLAMA),
    "an engine that reads the top level as boundaries": (lambda: pair(boundaries=(1, 3, 5), ids=None), ("vllm[v2]==0.32.0",), LLAMA),
    "an old release that knows midlayer only": (lambda: pair(dialect="layers", ids=None), ("sglang==0.4.9",), LLAMA),
}


@pytest.mark.parametrize("name", CASES)
def test_the_folder_is_read_rightly_by_every_engine(tmp_path: Path, name: str) -> None:
    make, engines, config = CASES[name]
    made = make()
    report = exported(tmp_path, made, *engines, config=config)
    assert report.exit_code is ExitCode.KEPT, [c.message for c in report.checks if c.status is not Status.PASSED]
    recipe = made.contract["hidden_states"]["boundaries"]
    assert all(b == recipe for e in engines for b in boundaries(tmp_path, e))
    again = check_spec(tmp_path / "out" / "contract.yaml", target=tmp_path / "target" / "config.json", engines=engines)
    assert again.exit_code is ExitCode.KEPT, [c.message for c in again.checks if c.status is Status.FAILED]


def test_weights_are_linked_where_no_byte_changes(tmp_path: Path) -> None:
    exported(tmp_path, pair(ids=None), SGLANG, VLLM)
    assert (tmp_path / "out" / "model.safetensors").samefile(tmp_path / "drafter" / "model.safetensors")


def test_renamed_tensors_keep_their_bytes(tmp_path: Path) -> None:
    exported(tmp_path, pair(dialect="layers", ids=None), "sglang==0.4.9")
    before, after = (Checkpoint.open(tmp_path / d).tensors for d in ("drafter", "out"))
    assert {n.replace("layers.0.", "midlayer.") for n in before} == set(after)
    for name in before:
        assert before[name].read_bytes() == after[name.replace("layers.0.", "midlayer.")].read_bytes()
    assert not (tmp_path / "out" / "model.safetensors").samefile(tmp_path / "drafter" / "model.safetensors")


def test_other_files_of_the_folder_come_along(tmp_path: Path) -> None:
    made = pair(ids=None)
    made.files["README.md"] = b"# a drafter\n"
    made.contract["drafter"]["files"]["README.md"] = "sha256:" + "0" * 64
    exported(tmp_path, made, SGLANG)
    assert (tmp_path / "out" / "README.md").read_bytes() == b"# a drafter\n"
    assert set(load_contract(tmp_path / "out" / "contract.yaml").contract.drafter.files) == {
        "README.md",
        "config.json",
        "model.safetensors",
    }


IMPOSSIBLE: dict[str, tuple[Callable[[], Pair], str, dict[str, Any], tuple[str, ...]]] = {
    "normed last state among others": (lambda: pair(boundaries=(2, 4, "final_norm"), ids=None), VLLM, LLAMA, ("final_norm", "boundary N")),
    "normed residual": (
        lambda: pair(tiny(norm_before_residual=True), layout="speculators", ids=(2, 4, 5), dialect="layers"),
        SGLANG,
        LLAMA,
        ("norm_before_residual", "norm_before_residual false"),
    ),
    "descending order": (lambda: pair(boundaries=(5, 4, 2), ids=None), SGLANG, LLAMA, ("ascending", "--permute-fc")),
    "a first boundary of 1 on deepseek": (lambda: on_deepseek(pair(boundaries=(1, 4, 6), ids=None)), SGLANG, DEEPSEEK, ("[1, 4, 6]",)),
    "last boundary of a llama target": (lambda: pair(boundaries=(2, 4, 8), ids=None), SGLANG, LLAMA, ("[2, 4, 8]",)),
    "a window": (lambda: pair(tiny(window=16), ids=None), SGLANG, LLAMA, ("window", "full attention")),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_no_config_says_is_said(tmp_path: Path, name: str) -> None:
    make, engine, config, words = IMPOSSIBLE[name]
    report = exported(tmp_path, make(), engine, config=config)
    assert report.exit_code is ExitCode.VIOLATED
    found = failed(report)
    assert {c.rule for c in found} == {"export.expressible"}
    text = f"{found[0].message} {found[0].fix}"
    assert all(w in text for w in words), text
    assert "What would have to change" in str(found[0].fix)
    assert found[0].evidence["closest"]
    assert not (tmp_path / "out").exists()


PERMUTED = {
    "plain": lambda: pair(boundaries=(5, 2, 4), ids=None),
    "norm over the concatenation": lambda: pair(tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,)), boundaries=(5, 0, 4), ids=None),
    "norm per state": lambda: pair(tiny(norms_before_fc=(NormBeforeFc.FC_NORM,)), boundaries=(5, 2, 4), ids=None, dialect="layers"),
}


@pytest.mark.parametrize("name", PERMUTED)
def test_permuted_columns_give_the_same_logits(tmp_path: Path, name: str) -> None:
    report = exported(tmp_path, PERMUTED[name](), SGLANG, VLLM, permute=True)
    assert report.exit_code is ExitCode.KEPT, [c.message for c in report.checks if c.status is not Status.PASSED]
    proof = next(c for c in report.checks if c.rule == "export.permuted")
    assert 0 <= proof.actual <= 2e-5
    stated = load_contract(tmp_path / "out" / "contract.yaml").contract.hidden_states.boundaries
    assert isinstance(stated, list)
    assert stated == sorted(stated)
    assert all(b == stated for e in (SGLANG, VLLM) for b in boundaries(tmp_path, e))


def test_columns_move_with_their_state(tmp_path: Path) -> None:
    made = pair(boundaries=(5, 2, 4), ids=None, dtype="float32")
    exported(tmp_path, made, "eagle", permute=True, config=LLAMA | {"num_hidden_layers": 9})
    assert not (tmp_path / "out").exists()  # this engine feeds 2, N//2, N-3 whatever is written
    exported(tmp_path, made, VLLM, permute=True)
    fc = made.tensors["fc.weight"].values.reshape(32, 3, 32)
    stored = Checkpoint.open(tmp_path / "out").tensors["fc.weight"].read_bytes()
    order = ascending((5, 2, 4)).order
    assert order == (1, 2, 0)
    assert np.array_equal(np.frombuffer(stored, np.float32).reshape(32, 3, 32), fc[:, list(order)])


def test_a_wrong_permutation_would_be_noticed(tmp_path: Path) -> None:
    from dataclasses import replace

    from eagle3_contract.export.equal import TOLERANCE, logits_apart

    made = pair(boundaries=(5, 2, 4), ids=None)
    exported(tmp_path, made, SGLANG, permute=True)
    wiring = replace(tiny(), states=3)
    right, wrong = (logits_apart(tmp_path / "drafter", tmp_path / "out", wiring, order) for order in ((1, 2, 0), (0, 1, 2)))
    assert right <= TOLERANCE < wrong


def test_an_engine_that_reads_the_speculators_layout_alone_gets_it(tmp_path: Path) -> None:
    made = pair(boundaries=(1, 3, 5), ids=None, dialect="layers")
    report = exported(tmp_path, made, "mlx-vlm", "vllm[v1]==0.32.0")
    assert not failed(report), [c.message for c in failed(report)]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["speculators_model_type"] == "eagle3"
    assert boundaries(tmp_path, "vllm[v1]==0.32.0") == [[1, 3, 5]]


@pytest.mark.parametrize(
    ("engine", "words"),
    [("tensorrt-llm", "--eagle3_layers_to_capture"), ("lmdeploy", "[2, 4, 5], which this release feeds"), ("vllm==0.10.1", "reads ids")],
)
def test_states_that_no_key_names(tmp_path: Path, engine: str, words: str) -> None:
    report = exported(tmp_path, pair(boundaries=(0, 3, 5), ids=None), engine)
    assert words in str(failed(report)[0].fix)


def test_the_nearest_config_is_one_that_loads(tmp_path: Path) -> None:
    """ATOM has no reduced vocabulary; a config that it refuses would come no nearer."""
    found = failed(exported(tmp_path, pair(boundaries=(0, 3, 5), ids=None), "atom"))[0]
    assert found.evidence["closest"]["architectures"] == ["LlamaForCausalLMEagle3"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.integers(0, 7), min_size=2, max_size=5), st.sampled_from([(SGLANG,), (VLLM,), (SGLANG, VLLM), ("vllm[v2]==0.32.0", SGLANG)])
)
def test_every_ascending_recipe_of_inner_boundaries_can_be_told(tmp_path: Path, states: set[int], engines: tuple[str, ...]) -> None:
    recipe = sorted(states)
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        report = exported(Path(folder), pair(boundaries=recipe, ids=None), *engines)
        assert report.exit_code is ExitCode.KEPT, (recipe, [c.message for c in failed(report)])
        assert all(b == recipe for e in engines for b in boundaries(Path(folder), e))


def test_engines_that_disagree_are_told_so(tmp_path: Path) -> None:
    """SGLang 0.5.12 adds one to every id of a DeepSeek target, 0.5.13 does not: one list cannot say both."""
    report = exported(tmp_path, on_deepseek(pair(boundaries=(3, 4, 6), ids=None)), "sglang==0.5.12", "sglang==0.5.13", config=DEEPSEEK)
    found = failed(report)
    assert len(found) == 1
    assert "each engine can be told alone" in found[0].message
    assert "by itself" in str(found[0].fix)


def test_an_unknown_statement_cannot_be_written(tmp_path: Path) -> None:
    made = pair(ids=None)
    made.contract["wiring"]["feedback"] = {"unknown": "nobody wrote it down"}
    report = exported(tmp_path, made, SGLANG)
    assert [c.rule for c in failed(report)] == ["export.stated"]
    assert "wiring.feedback (nobody wrote it down)" in failed(report)[0].message


def test_a_folder_with_files_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.safetensors").write_bytes(b"other")
    report = exported(tmp_path, pair(ids=None), SGLANG)
    assert report.exit_code is ExitCode.UNUSABLE
    assert report.checks[0].rule == "export.out"
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == b"other"


def test_an_engine_that_nobody_knows_is_unusable(tmp_path: Path) -> None:
    report = exported(tmp_path, pair(ids=None), "sglang==9.9.9")
    assert report.exit_code is ExitCode.UNUSABLE
    assert report.checks[0].rule == "engines.unknown"


def test_what_public_sources_leave_open_is_written_and_not_proved(tmp_path: Path) -> None:
    report = exported(tmp_path, pair(ids=None), "llama.cpp")
    assert report.exit_code is ExitCode.UNKNOWN
    open_ = [c for c in report.checks if c.status is Status.UNKNOWN]
    assert all("not proved" in c.message for c in open_)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]


def test_a_sharded_drafter_keeps_its_index(tmp_path: Path) -> None:
    made = pair(dialect="layers", ids=None)
    half = sorted(made.tensors)[::2]
    first, second = ({n: t for n, t in made.tensors.items() if (n in half) is one} for one in (True, False))
    from contract.files.writing import write_safetensors

    folder = tmp_path / "drafter"
    folder.mkdir()
    files = {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second}
    for name, tensors in files.items():
        write_safetensors(folder / name, {n: t.encoded() for n, t in tensors.items()}, {"format": "pt"})
    size = sum(len(t.encoded()[2]) for t in made.tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": {n: f for f, tensors in files.items() for n in tensors}}
    made.files["model.safetensors.index.json"] = json.dumps(index).encode()
    made.contract["drafter"]["files"] = dict.fromkeys(["config.json", "model.safetensors.index.json", *files], "sha256:" + "0" * 64)
    made.tensors = {}
    report = exported(tmp_path, made, "sglang==0.4.9")
    assert report.exit_code is ExitCode.KEPT, [c.message for c in report.checks]
    written = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert any(n.startswith("midlayer.") for n in written["weight_map"])
    assert set(written["weight_map"]) == set(Checkpoint.open(tmp_path / "out").tensors)
