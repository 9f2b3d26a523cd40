"""`verify` where the engine computes in 16 bits: a clean pair is kept, another recipe is found, and states are judged by their dtype."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from contract.findings import ExitCode, Status
from contract.requests import CaptureRequest, VerifyRequest
from eagle3_contract.commands.capture import capture
from eagle3_contract.verify.run import verify
from verify.scenario import Scenario, build, write_target

DEMO = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("pair")
    return build(folder / "drafter", write_target(folder / "target"))


def captured(pair: Scenario, dtype: str, out: Path, **more: str) -> Path:
    asked = CaptureRequest(
        spec=str(pair.spec),
        engine="transformers",
        target=str(pair.target_dir),
        out=str(out),
        samples=str(pair.samples),
        dtype=dtype,
        **more,
    )
    capture(asked)
    return out


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_clean_pair(dtype: str, tmp_path: Path) -> None:
    """The demo pair, for random targets amplify rounding as no trained one does. Its samples are bfloat16."""
    spec, target = str(DEMO / "drafter-a" / "contract.yaml"), str(DEMO / "target")
    out, samples = str(tmp_path / "bundle"), str(DEMO / "drafter-a" / "samples")
    capture(CaptureRequest(spec=spec, engine="transformers", target=target, out=out, samples=samples, dtype=dtype, device="cpu"))
    report = verify(VerifyRequest(spec=spec, target=target, capture=out, device="cpu"))
    failed = [(c.rule, c.message) for c in report.checks if c.status is Status.FAILED or (c.status is Status.UNKNOWN and c.required)]
    assert report.exit_code is ExitCode.KEPT, failed
    slots = [c for c in report.checks if c.rule == "states.slot" and c.status is Status.PASSED]
    assert len(slots) == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_another_recipe(pair: Scenario, dtype: str, tmp_path: Path) -> None:
    """An engine that finds no layer ids feeds its default, in whatever dtype."""
    report = pair.verify(captured(pair, dtype, tmp_path / "bundle", imitate="vllm[v1]==0.32.0"), samples=pair.samples, device="cpu")
    assert report.exit_code is ExitCode.VIOLATED
    assert {"states.recipe", "states.slot"} <= {c.rule for c in report.checks if c.status is Status.FAILED}


def test_there_is_no_gpu_to_verify_on(pair: Scenario) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    report = pair.verify(samples=pair.samples, device=f"cuda:{count}")
    assert report.exit_code is ExitCode.UNUSABLE
    (said,) = [c for c in report.checks if c.rule == "drafter.device"]
    assert said.message == f"there is no device cuda:{count}: torch sees {count} CUDA devices"
    assert said.fix == "Choose cpu, or install a build of torch that fits this machine's driver."
