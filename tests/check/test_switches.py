"""Every statement that decides the arithmetic, changed in the contract alone: the files or the engine's reading contradict it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factory import pair

from contract.findings import ExitCode
from eagle3_contract.check.run import check_spec

TARGET = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96,
    "max_position_embeddings": 256,
}  # fmt: skip
SWITCHES: dict[str, Any] = {
    "wiring.norms_before_fc": ["fc_norm"],
    "wiring.fc_applied": False,
    "wiring.fc_bias": True,
    "wiring.hidden_norm": False,
    "wiring.double_norm": True,
    "wiring.norm_before_residual": True,
    "wiring.final_norm": False,
    "wiring.feedback": "post_norm",
    "wiring.concat_order": "hidden_first",
    "wiring.window": 4,
    "wiring.qk_norm": True,
    "wiring.qkv_bias": True,
    "wiring.o_bias": True,
    "wiring.mlp_bias": True,
    "wiring.rms_norm_eps": 1e-6,
    "wiring.hidden_act": "gelu",
    "wiring.attention_scale": 0.3,
    "wiring.logit_scale": 0.5,
    "wiring.embedding": "own",
    "wiring.lm_head": "target",
    "wiring.hidden_size": 64,
    "wiring.heads": 2,
    "wiring.kv_heads": 1,
    "wiring.head_dim": 6,
    "wiring.layers": 2,
    "wiring.intermediate_size": 40,
    "wiring.rope.type": "linear",
    "wiring.rope.theta": 5.0,
    "wiring.rope.table_length": 999,
    "wiring.rope.rotary_dim": 6,
    "wiring.rope.interleaved": True,
    "alignment.token_shift": 0,
    "alignment.step_positions": "constant",
    "vocab.map": "absolute",
    "vocab.present": False,
    "vocab.draft_size": 23,
    "hidden_states.boundaries": [0, 3, 5],
    "target.hidden_size": 48,
}
WITHOUT_EFFECT = {"wiring.later_layer_norm": "hidden_norm", "wiring.window_follows_steps": False, "alignment.positions_start": 1}
"""One layer has no later one, no window moves, and rope is relative (logits differ by 2e-6)."""


@pytest.fixture(params=["sglang==0.5.23", "vllm[v1]==0.32.0"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def exit_code(folder: Path, engine: str, path: str | None = None, value: Any = None) -> ExitCode:
    made = pair(layout="flat", ids=None)
    if path is not None:
        *parents, last = path.split(".")
        at = made.contract
        for part in parents:
            at = at[part]
        assert at[last] != value
        at[last] = value
    (folder / "target.json").write_text(json.dumps(TARGET))
    return check_spec(made.write(folder / "drafter"), engines=(engine,), target=folder / "target.json").exit_code


def test_untouched_is_kept(engine: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, engine) is ExitCode.KEPT


@pytest.mark.parametrize("path", SWITCHES)
def test_switch_is_violated(path: str, engine: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, engine, path, SWITCHES[path]) is ExitCode.VIOLATED


@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_switch_that_cannot_act_is_kept(path: str, engine: str, tmp_path: Path) -> None:
    assert exit_code(tmp_path, engine, path, WITHOUT_EFFECT[path]) is ExitCode.KEPT


def test_no_statement_is_forgotten() -> None:
    made = pair(layout="flat", ids=None).contract
    names = {f"{section}.{key}" for section in ("wiring", "alignment", "vocab", "hidden_states") for key in made[section]}
    names |= {f"wiring.rope.{key}" for key in made["wiring"]["rope"]}
    apart = {
        "wiring.rope", "wiring.mla", "wiring.attention", "wiring.architecture",  # other shapes altogether, or no arithmetic
        "wiring.rope.scaling", "vocab.target_size", "vocab.target_padded_size", "hidden_states.point",  # other cases of their own
    }  # fmt: skip
    assert names - apart == (SWITCHES.keys() | WITHOUT_EFFECT.keys()) - {"target.hidden_size"}
