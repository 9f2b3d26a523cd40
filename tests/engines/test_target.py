"""Loading a target, finding its stream, and its greedy continuation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from contract.errors import InputRejected, ToolError
from eagle3_contract.engines.rules import RULES
from eagle3_contract.engines.structure import find_stream, layer_count
from eagle3_contract.engines.target import Target, load_target
from tests.engines.conftest import FAMILIES, LAYERS, build

IDS = [5, 9, 2, 77, 31, 6, 90, 14]


@pytest.mark.parametrize("family", FAMILIES)
def test_boundaries_are_what_output_hidden_states_gives_except_the_last(family: str, targets: dict[str, Path]) -> None:
    target = load_target(targets[family], dtype="float32", device="cpu")
    found = target.forward(IDS)
    assert list(found.states) == [*range(LAYERS + 1), "final_norm"]
    with torch.no_grad():
        output = target.model(torch.tensor([IDS]), output_hidden_states=True)
    for n in range(LAYERS):
        assert torch.equal(found.states[n], output.hidden_states[n][0]), n
    # transformers gives the normed state under the number N; a hook sees the stream.
    assert not torch.equal(found.states[LAYERS], output.hidden_states[LAYERS][0])
    assert torch.equal(found.states["final_norm"], output.hidden_states[LAYERS][0])
    assert torch.equal(target.stream.final_norm(found.states[LAYERS]), found.states["final_norm"])
    assert torch.equal(found.greedy, output.logits[0].argmax(-1))
    assert found.position_ids.tolist() == list(range(len(IDS)))
    assert target.model_type == family


def test_the_embedding_scale_is_part_of_boundary_zero(targets: dict[str, Path]) -> None:
    target = load_target(targets["gemma2"], device="cpu")
    with torch.no_grad():
        plain = target.stream.embedding.get_parameter("weight")[torch.tensor(IDS)]
    torch.testing.assert_close(target.forward(IDS).states[0], plain * 32**0.5)


def test_only_what_is_wanted_is_kept(targets: dict[str, Path]) -> None:
    target = load_target(targets["llama"], device="cpu")
    assert list(target.forward(IDS, {3, "final_norm"}).states) == [3, "final_norm"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_dtype_is_the_one_asked_for(dtype: str, targets: dict[str, Path]) -> None:
    target = load_target(targets["llama"], dtype=dtype, device="cpu")
    assert target.dtype == dtype
    assert all(x.dtype is getattr(torch, dtype) for x in target.forward(IDS).states.values())


def test_the_same_states_twice_are_bit_equal_in_bfloat16(targets: dict[str, Path]) -> None:
    runs = [load_target(targets["qwen3"], dtype="bfloat16", device="cpu").forward(IDS).states for _ in range(2)]
    assert all(torch.equal(runs[0][s], runs[1][s]) for s in runs[0])


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt_neox"])
def test_the_continuation_is_greedy_whatever_the_generation_config_says(family: str, targets: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / family
    shutil.copytree(targets[family], folder)
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 5.0, "repetition_penalty": 3.0}))
    target = load_target(folder, dtype="float32", device="cpu")
    made = target.continuation(IDS, 12)
    text = list(IDS)
    for _ in range(12):
        text.append(int(target.forward(text, set()).greedy[-1]))
    assert made == text[len(IDS) :]
    assert target.continuation(IDS, 0) == []
    assert target.continuation(IDS, 12, stop=[made[3]]) == made[: made.index(made[3]) + 1]


@pytest.mark.parametrize("ids", [[], [97], [-1], [[1, 2]], torch.tensor([1.0])])
def test_what_is_no_prompt_is_refused(ids: Any, targets: dict[str, Path]) -> None:
    target = load_target(targets["llama"], device="cpu")
    with pytest.raises(InputRejected) as caught:
        target.forward(ids)
    assert caught.value.rule == "engine.prompt"


def error_of(folder: Path, **more: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        load_target(folder, **({"device": "cpu"} | more))
    assert caught.value.rule in RULES
    return caught.value


def test_a_missing_weight_is_an_error_and_not_a_random_one(targets: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(targets["llama"], tmp_path / "t")
    weights = load_file(tmp_path / "t" / "model.safetensors")
    del weights["model.layers.2.mlp.down_proj.weight"]
    save_file(weights, tmp_path / "t" / "model.safetensors", {"format": "pt"})
    assert "model.layers.2.mlp.down_proj.weight" in error_of(tmp_path / "t").message


def test_what_does_not_load_is_a_tool_error(targets: dict[str, Path], tmp_path: Path) -> None:
    assert error_of(tmp_path).rule == "engine.target-load"
    shutil.copytree(targets["llama"], tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    assert error_of(tmp_path / "pickled").rule == "engine.target-load"
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text(
        json.dumps({"model_type": "nobody-knows", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}})
    )
    (tmp_path / "foreign" / "evil.py").write_text("raise SystemExit('ran')")
    assert error_of(tmp_path / "foreign").rule == "engine.target-load"
    assert error_of(targets["llama"], dtype="int8").rule == "engine.target-load"
    assert error_of(targets["llama"], device="nowhere").rule == "engine.device"


class Plain(nn.Module):
    """A model with the given children, for the search by structure."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)

    def get_input_embeddings(self) -> nn.Module:
        return nn.Embedding(3, 2)


def blocks(n: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(2, 2) for _ in range(n))


def test_the_stream_is_found_below_a_vision_tower_and_experts() -> None:
    text = Plain(layers=nn.ModuleList(Plain(experts=blocks(4)) for _ in range(4)), norm=nn.LayerNorm(2), ffn_norm_extra=nn.LayerNorm(2))
    found = find_stream(Plain(vision_tower=Plain(layers=blocks(4), norm=nn.LayerNorm(2)), language_model=text), 4)
    assert found.path == "language_model.layers"
    assert found.final_norm is text.norm


@pytest.mark.parametrize(
    "model",
    [
        Plain(layers=blocks(3), norm=nn.LayerNorm(2)),
        Plain(layers=blocks(4), others=blocks(4), norm=nn.LayerNorm(2)),
        Plain(norm=nn.LayerNorm(2), layers=blocks(4)),
        Plain(layers=blocks(4), a_norm=nn.LayerNorm(2), b_norm=nn.LayerNorm(2)),
        nn.Sequential(),
    ],
)
def test_a_structure_that_cannot_be_told_is_refused(model: nn.Module) -> None:
    with pytest.raises(ToolError) as caught:
        find_stream(model, 4)
    assert caught.value.rule == "engine.target-structure"


def test_a_model_without_an_embedding_is_refused() -> None:
    model = nn.Module()
    model.layers, model.norm = blocks(4), nn.LayerNorm(2)
    with pytest.raises(ToolError, match="embedding"):
        find_stream(model, 4)


def test_a_config_without_layers_is_refused() -> None:
    with pytest.raises(ToolError):
        layer_count(object())


def test_layers_of_a_multimodal_config_are_the_text_models(targets: dict[str, Path]) -> None:
    assert layer_count(build("llama").config) == LAYERS


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_hooks_are_removed_even_after_a_crash() -> None:
    model = build("llama")
    target = Target(model)
    before = hooks_of(model)
    target.forward(IDS)
    assert hooks_of(model) == before
    model.model.layers[2].mlp.forward = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        target.forward(IDS)
    assert hooks_of(model) == before
