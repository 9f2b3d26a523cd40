"""Numbers that are none once they are computed with, and sizes that are only stated: what followed the numbered list."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from contract.cli.main import main
from contract.errors import InputRejected
from contract.findings import ExitCode
from contract.requests import VerifyRequest
from eagle3_contract.check.compare import same
from eagle3_contract.drafter.rope import RotaryEmbedding, latent_scale
from eagle3_contract.model.wiring import Rope
from eagle3_contract.verify.run import verify

DATA = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"
HUGE = 10**400


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    shutil.copytree(DATA / "drafter-a", tmp_path / "drafter-a")
    return tmp_path / "drafter-a"


Line = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Line:
    """A command line: its exit code and all that it said."""

    def line(*words: str) -> tuple[int, str]:
        code = main(words)
        said = capfd.readouterr()
        return code, said.out + said.err

    return line


def state(drafter: Path, *path: str, value: Any) -> str:
    spec = drafter / "contract.yaml"
    tree = yaml.safe_load(spec.read_text())
    at = tree
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    spec.write_text(yaml.safe_dump(tree, sort_keys=False))
    return str(spec)


def test_whole_numbers_beyond_every_float_are_compared() -> None:
    assert not same(HUGE, 1.0)
    assert not same(1.0, HUGE)
    assert not same(HUGE, HUGE + 1)
    assert same(HUGE, HUGE)


@pytest.mark.parametrize("key", ["head_dim", "hidden_size", "draft_vocab_size", "num_hidden_layers", "rms_norm_eps"])
def test_a_config_with_four_hundred_digits_is_violated(key: str, drafter: Path, run: Line) -> None:
    config = json.loads((drafter / "config.json").read_text())
    (drafter / "config.json").write_text(json.dumps(config | {key: HUGE}))
    code, said = run("check", str(drafter / "contract.yaml"), "--target", str(DATA / "target"), "--engine", "vllm", "--engine", "sglang")
    assert code == ExitCode.VIOLATED, said
    assert "internal error" not in said


def test_a_rope_of_four_hundred_digits_is_violated(drafter: Path, run: Line) -> None:
    config = json.loads((drafter / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": HUGE, "rope_theta": 10000.0}
    (drafter / "config.json").write_text(json.dumps(config))
    code, said = run("check", str(drafter / "contract.yaml"), "--engine", "vllm", "--engine", "sglang")
    assert code == ExitCode.VIOLATED, said
    assert "internal error" not in said


@pytest.mark.parametrize(
    ("kind", "scaling"),
    [
        ("yarn", {"factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 1e308}),
        ("yarn", {"factor": 4.0, "original_max_position_embeddings": 1e308, "beta_fast": 5e-324}),
        ("yarn", {"factor": 2.718281828459045, "original_max_position_embeddings": 512, "mscale": 1.0, "mscale_all_dim": -10.0}),
        ("dynamic", {"factor": 1e300, "original_max_position_embeddings": 1.0}),
        ("linear", {"factor": 5e-324}),
    ],
)
def test_rope_parameters_that_give_no_number(kind: str, scaling: dict[str, float]) -> None:
    def turned() -> None:
        RotaryEmbedding(Rope(type=kind, scaling=scaling), 8, torch.device("cpu")).at(torch.arange(10**6, 10**6 + 4))

    with pytest.raises(InputRejected) as refused:
        turned()
    assert refused.value.rule == "drafter.rope-parameters"


def test_rope_parameters_that_are_only_large() -> None:
    rope = Rope(type="yarn", scaling={"factor": 64.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0})
    cos_LF, _ = RotaryEmbedding(rope, 8, torch.device("cpu")).at(torch.arange(4))
    assert bool(cos_LF.isfinite().all())
    assert latent_scale(rope) > 1
    with pytest.raises(InputRejected):
        latent_scale(Rope(type="yarn", scaling={"factor": 64.0, "original_max_position_embeddings": 4096, "mscale_all_dim": 1e200}))


@pytest.mark.parametrize("layers", [257, 10**4, 2**40])
def test_more_layers_than_a_drafter_has_are_refused(layers: int, drafter: Path, run: Line) -> None:
    code, said = run("check", state(drafter, "wiring", "layers", value=layers))
    assert code == ExitCode.UNUSABLE, said
    assert "wiring.layers" in said


def test_a_vocabulary_that_is_only_stated_takes_no_memory(drafter: Path) -> None:
    spec = state(drafter, "vocab", "target_size", value=2**40)
    report = verify(VerifyRequest(spec=spec, target=str(DATA / "target")))
    assert report.exit_code is ExitCode.VIOLATED
    assert all(c.rule != "tool.internal-error" for c in report.checks)


def test_a_recipe_without_a_state_is_shown(drafter: Path, run: Line) -> None:
    code, said = run("show", state(drafter, "hidden_states", "boundaries", value=[]))
    assert code in (ExitCode.KEPT, ExitCode.UNUSABLE), said
    assert "internal error" not in said


def test_a_vocab_map_of_floats_is_violated(drafter: Path, run: Line) -> None:
    path = drafter / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    save_file(tensors | {"d2t": torch.full((1024,), float("nan"))}, path)
    code, said = run("check", str(drafter / "contract.yaml"), "--integrity", "values", "--target", str(DATA / "target"))
    assert code == ExitCode.VIOLATED, said
    assert "internal error" not in said


def test_a_head_without_rows_is_told_by_init(drafter: Path, tmp_path: Path, run: Line) -> None:
    path = drafter / "model.safetensors"
    tensors = load_file(path)
    path.unlink()
    save_file(tensors | {"lm_head.weight": torch.zeros(0, 128)}, path)
    _, said = run("init", str(drafter), "--target", str(DATA / "target"), "-o", str(tmp_path / "out.yaml"))
    assert "internal error" not in said
