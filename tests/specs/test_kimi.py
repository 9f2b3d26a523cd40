"""The seed's drafter at its real size: kept by its contract, and each of ten single faults found by headers and map alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contract.findings import ExitCode, Status
from eagle3_contract.check.run import check_spec

from .kimi import CONFIG, DRAFT, LEADING_ZEROS, Headers, headers, offsets, write


@dataclass
class Drafter:
    tensors: Headers = field(default_factory=headers)
    d2t: np.ndarray[Any, Any] = field(default_factory=offsets)
    config: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(CONFIG))


def set_config(key: str, value: Any) -> Callable[[Drafter], None]:
    return lambda d: d.config.update({key: value})


def set_ids(ids: list[int]) -> Callable[[Drafter], None]:
    return lambda d: d.config["eagle_config"].update(eagle_aux_hidden_state_layer_ids=ids)


def set_tensor(name: str, dtype: str, shape: list[int]) -> Callable[[Drafter], None]:
    return lambda d: d.tensors.update({name: (dtype, shape)})


def direct_map(d: Drafter) -> None:
    d.d2t = d.d2t + np.arange(DRAFT)


def duplicate(d: Drafter) -> None:
    d.d2t = d.d2t.copy()
    d.d2t[5] = -1


FAULTS: dict[str, tuple[Callable[[Drafter], Any], str]] = {
    "the engine's ids instead of training's": (set_ids([3, 31, 59]), "recipe.config-ids"),
    "aux states off": (lambda d: d.config["eagle_config"].update(use_aux_hidden_state=False), "recipe.use-aux-hidden-state"),
    "a direct map": (direct_map, "vocab.map-kind"),
    "a target id twice": (duplicate, "vocab.map-values"),
    "fc for four states": (set_tensor("fc.weight", "BF16", [7168, 4 * 7168]), "wiring.fc-width"),
    "no hidden norm": (lambda d: d.tensors.pop("midlayer.hidden_norm.weight"), "wiring.norms"),
    "a full head": (set_tensor("lm_head.weight", "BF16", [163840, 7168]), "wiring.embedding-and-head"),
    "float32 head": (set_tensor("lm_head.weight", "F32", [32000, 7168]), "tensors.dtype"),
    "head_dim by division": (lambda d: d.config.pop("head_dim"), "config.head-dim"),
    "another theta": (set_config("rope_theta", 10000.0), "config.rope-theta"),
    "norm_before_residual": (set_config("norm_before_residual", True), "config.norm-before-residual"),
    "an unknown tensor": (set_tensor("midlayer.self_attn.q_norm.weight", "BF16", [128]), "tensors.unexpected"),
}


def test_clean_drafter_is_kept(tmp_path: Path) -> None:
    clean = Drafter()
    assert not clean.d2t[:LEADING_ZEROS].any()
    assert (clean.d2t + np.arange(DRAFT))[1000] != 1000
    report = check_spec(write(tmp_path, clean.tensors, clean.d2t, clean.config))
    wrong = [f"{c.rule}: {c.message}" for c in report.checks if c.status is Status.FAILED or (c.status is Status.UNKNOWN and c.required)]
    assert report.exit_code is ExitCode.KEPT, wrong
    assumed = [c for c in report.checks if c.rule == "contract.assumed-statements"]
    assert any("boundary 3" in c.message for c in assumed)


@pytest.mark.parametrize("name", FAULTS)
def test_single_fault_is_found(name: str, tmp_path: Path) -> None:
    change, rule = FAULTS[name]
    broken = Drafter()
    change(broken)
    report = check_spec(write(tmp_path, broken.tensors, broken.d2t, broken.config))
    assert report.exit_code is ExitCode.VIOLATED
    assert rule in {c.rule for c in report.checks if c.status is Status.FAILED}
