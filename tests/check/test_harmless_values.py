"""Values that are written differently and mean the same, for the config's rules and for every engine; and near ones that do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory import MLA, Pair, pair, tiny

from contract.findings import Check, Status
from eagle3_contract.check.run import check_spec
from eagle3_contract.model.wiring import Attention, Rope

SGLANG, VLLM = "sglang==0.5.23", "vllm[v1]==0.32.0"
ENGINES = [SGLANG, VLLM]
Made = Callable[[], Pair]


def checks(made: Pair, folder: Path, rule: str, *engines: str, about: str = "") -> list[Check]:
    report = check_spec(made.write(folder / "drafter"), engines=list(engines))
    return [c for c in report.checks if c.rule == rule and about in c.message]


def drafter(engine: str = SGLANG) -> Pair:
    return pair() if engine == SGLANG else pair(layout="flat", ids=(2, 4, 5))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("scale", "status"), [(None, Status.PASSED), (12**-0.5, Status.PASSED), (0.2886751345948129, Status.PASSED), (0.25, Status.FAILED)]
)
def test_the_natural_scale_may_be_written_out(tmp_path: Path, engine: str, scale: float | None, status: Status) -> None:
    made = drafter(engine)
    made.contract["wiring"]["attention_scale"] = scale
    (check,) = checks(made, tmp_path, "reading.numerics", engine, about="attention.scale")
    assert check.status is status


@pytest.mark.parametrize(("scale", "status"), [(0.25, Status.FAILED), (12**-0.5, Status.PASSED)])
def test_the_natural_scale_of_a_latent_head_is_that_of_both_parts(tmp_path: Path, scale: float, status: Status) -> None:
    rope = Rope(theta=10000.0, table_length=256, rotary_dim=4, interleaved=True)
    made = pair(tiny(attention=Attention.MLA, mla=MLA, head_dim=12, kv_heads=4, rope=rope), dialect="layers", ids=(2, 4, 5))
    made.config |= {"model_type": "deepseek_v3", "attention_bias": False}
    made.contract["wiring"]["attention_scale"] = scale
    (check,) = checks(made, tmp_path, "reading.numerics", SGLANG, about="attention.scale")
    assert check.status is status


@pytest.mark.parametrize(
    ("keys", "window", "status"),
    [
        ({"sliding_window": 128}, None, Status.PASSED),
        ({"sliding_window": 128, "use_sliding_window": True}, None, Status.PASSED),
        ({"sliding_window": 128, "model_type": "mistral"}, None, Status.PASSED),
        ({"sliding_window": 128, "model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 28}, None, Status.PASSED),
        ({"sliding_window": 128, "model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 0}, None, Status.FAILED),
        ({"sliding_window": 128, "model_type": "gpt_oss"}, None, Status.FAILED),
        ({"sliding_window": 128, "model_type": "nobody_has_this"}, None, Status.FAILED),
        ({"sliding_window": 128, "layer_types": ["sliding_attention"]}, None, Status.FAILED),
        ({"sliding_window": 128, "layer_types": ["full_attention"]}, None, Status.PASSED),
        ({"sliding_window": 128}, 64, Status.FAILED),
        ({}, 64, Status.FAILED),
        ({}, 255, Status.FAILED),
        ({}, 256, Status.PASSED),
        ({}, 512, Status.PASSED),
        ({"sliding_window": 512, "layer_types": ["sliding_attention"]}, None, Status.PASSED),
        ({"sliding_window": 512, "layer_types": ["sliding_attention"]}, 1024, Status.PASSED),
        ({"sliding_window": 128, "layer_types": ["sliding_attention"]}, 1024, Status.FAILED),
    ],
)
def test_a_window_counts_where_somebody_feels_it(tmp_path: Path, keys: dict[str, Any], window: int | None, status: Status) -> None:
    """The table of these drafters has 256 positions."""
    made = drafter()
    made.config |= keys
    made.contract["wiring"]["window"] = window
    (check,) = checks(made, tmp_path, "config.sliding-window")
    assert check.status is status, check.message


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unread_window_is_harmless_on_both_engines(tmp_path: Path, engine: str) -> None:
    made = drafter(engine)
    made.config["sliding_window"] = 128
    (check,) = checks(made, tmp_path, "config.sliding-window", engine)
    assert (check.status, check.evidence["outcome"]) == (Status.PASSED, "harmless")
    (read,) = checks(made, tmp_path / "again", "reading.window", engine)
    assert read.status is Status.PASSED
