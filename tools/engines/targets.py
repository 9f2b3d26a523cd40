"""Tiny random targets, and what transformers computes for them: the states every capture is compared with.

Legend: T tokens, G target width.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

PROMPT = [5, 17, 99, 42, 7, 200, 13]
WEIGHT_SPREAD = 0.15
FINAL_NORM = "final_norm"


def make(folder: Path, config: Mapping[str, Any]) -> None:
    """Write a target of this config with random weights and, beside it, its states on ``PROMPT``; done once."""
    if _states_file(folder).is_file():
        return
    torch.manual_seed(0)
    built = AutoConfig.for_model(**config)
    model = AutoModelForCausalLM.from_config(built, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 1 and "norm" in name:
                value.normal_(1.0, WEIGHT_SPREAD)
            else:
                value.normal_(0.0, WEIGHT_SPREAD)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    # The engines read some keys that transformers rewrites (rope of DeepSeek's class): the config is the one given, word for word.
    (folder / "config.json").write_text(json.dumps(dict(config)))
    save_file(states(model), _states_file(folder))


def _states_file(folder: Path) -> Path:
    """Beside the folder: vLLM loads every safetensors file that is in it."""
    return folder.with_name(f"{folder.name}.states.safetensors")


def states(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """``boundary.0`` .. ``boundary.N`` and ``final_norm``, each [T, G]: the input of each layer, the output of the last, and its norm."""
    found: dict[str, torch.Tensor] = {}
    base = model.model
    hooks = [
        base.norm.register_forward_hook(lambda _, given, made: found.update({f"boundary.{len(base.layers)}": given[0], FINAL_NORM: made}))
    ]
    for n, layer in enumerate(base.layers):
        hooks.append(layer.register_forward_pre_hook(_keeper(found, n), with_kwargs=True))
    with torch.no_grad():
        model(input_ids=torch.tensor([PROMPT]))
    for hook in hooks:
        hook.remove()
    return {k: v[0].float().contiguous().clone() for k, v in found.items()}


def _keeper(found: dict[str, torch.Tensor], n: int) -> Any:
    def keep(_: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        found[f"boundary.{n}"] = given[0] if given else named["hidden_states"]

    return keep


def reference(folder: Path) -> dict[int | str, torch.Tensor]:
    """The states of a target by boundary number (or ``final_norm``)."""
    return {FINAL_NORM if k == FINAL_NORM else int(k.partition(".")[2]): v for k, v in load_file(_states_file(folder)).items()}
