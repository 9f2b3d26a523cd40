"""Capture by hooks: right, wrong on purpose, and from targets that make it hard."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contract.errors import InputRejected, ToolError
from contract.files.bundle import BundleRequest, open_bundle
from contract.files.bundle_manifest import ImitatedEngine, ModelInfo
from contract.files.torch_tensors import load_tensor
from contract.numerics.matching import Candidate, attribute_all
from contract.numerics.tolerance import Tolerance
from eagle3_contract.engines.recorder import StreamRecorder, repeated_states
from eagle3_contract.engines.target import Target, load_target
from eagle3_contract.engines.transformers import Prompt, Provenance, capture, capture_from, greedy_continuation
from tests.engines.conftest import LAYERS

IDS = [5, 9, 2, 77, 31, 6, 90, 14]
MODEL = ModelInfo(id="made-up", model_type=None, files={})


def read(request: BundleRequest, name: str) -> Tensor:
    return load_tensor(request.tensors[name])


def test_a_bundle_of_a_real_target(targets: dict[str, Path], tmp_path: Path) -> None:
    more = Provenance(target_id="some/target", imitates=ImitatedEngine(name="sglang", version="0.5.23", runner=None), flags={"why": "test"})
    prompts = [("first", IDS), Prompt("second", torch.tensor(IDS[:3]), "data_7")]
    out = capture(targets["llama"], prompts, (1, 2, "final_norm"), tmp_path / "b", dtype="bfloat16", device="cpu", provenance=more)
    found = open_bundle(out)
    manifest = found.manifest
    assert (manifest.kind, manifest.recipe_fed, manifest.layers) == ("eagle3", [1, 2, "final_norm"], LAYERS)
    assert (manifest.engine.name, manifest.engine.dtype, manifest.engine.device, manifest.engine.mode) == (
        "transformers",
        "bfloat16",
        "cpu",
        "eager",
    )
    assert manifest.engine.flags == {"attn_implementation": "eager", "why": "test"}
    assert manifest.imitates == more.imitates
    assert (manifest.target.id, manifest.target.model_type) == ("some/target", "llama")
    assert {"config.json", "model.safetensors"} <= manifest.target.files.keys()
    assert [(r.id, r.tokens, r.sample) for r in found.requests] == [("first", 8, None), ("second", 3, "data_7")]
    direct = load_target(targets["llama"], dtype="bfloat16", device="cpu").forward(IDS)
    first = found.request("first")
    for n in range(LAYERS + 1):
        assert torch.equal(read(first, f"boundary.{n}"), direct.states[n])
    for slot, state in enumerate((1, 2, "final_norm")):
        assert torch.equal(read(first, f"slot.{slot}"), direct.states[state])  # type: ignore[index]  # mypy widens the tuple to object
    assert read(first, "input_ids").tolist() == IDS
    assert read(first, "position_ids").tolist() == list(range(8))
    assert torch.equal(read(first, "greedy"), direct.greedy)
    # Nothing of this machine is in the manifest.
    assert str(tmp_path) not in (out / "manifest.json").read_text()
    assert str(targets["llama"]) not in (out / "manifest.json").read_text()


def test_without_a_sweep_only_the_slots_are_there(targets: dict[str, Path], tmp_path: Path) -> None:
    out = capture(targets["qwen2"], [("a", IDS)], (0, 2, 4), tmp_path / "b", device="cpu", sweep=False)
    assert set(open_bundle(out).requests[0].tensors) == {"input_ids", "position_ids", "greedy", "slot.0", "slot.1", "slot.2"}


def test_a_wrong_engine_is_told_from_the_right_one(targets: dict[str, Path], tmp_path: Path) -> None:
    """The incident in small: training fed [0, 1, 3], an engine that adds one to its ids feeds [1, 2, 4]."""
    ids = torch.randint(3, 97, (40,), generator=torch.Generator().manual_seed(0))
    wrong = open_bundle(capture(targets["llama"], [("a", ids)], (1, 2, 4), tmp_path / "w", dtype="bfloat16", device="cpu")).requests[0]
    right = open_bundle(capture(targets["llama"], [("a", ids)], (0, 1, 3), tmp_path / "r", dtype="bfloat16", device="cpu")).requests[0]
    names = [*(f"boundary.{n}" for n in range(LAYERS + 1)), "final_norm"]
    candidates = [Candidate(name, lambda name=name: read(right, name)) for name in names]  # type: ignore[misc]  # default of a lambda
    tolerance = Tolerance(0.02, 0.05, "given")
    for request, states in ((wrong, (1, 2, 4)), (right, (0, 1, 3))):
        found = attribute_all({f"slot.{i}": read(request, f"slot.{i}") for i in range(3)}, candidates, tolerance)
        assert [a.is_identity_of(f"boundary.{n}") for a, n in zip(found.values(), states, strict=True)] == [True] * 3


class InPlaceLayer(nn.Module):
    def __init__(self, width: int, *, keyword: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return hidden_states.add_(torch.tanh(self.linear(hidden_states)))


class MadeUp(nn.Module):
    """A target whose layers update the stream in place, and may be called by keyword, skipped or repeated."""

    def __init__(self, *, keyword: bool = False, order: tuple[int, ...] = (0, 1, 2), idle: int | None = None, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(num_hidden_layers=3, model_type="made-up")
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(InPlaceLayer(width, keyword=keyword) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50)
        self.keyword, self.order = keyword, order
        if idle is not None:
            nn.init.zeros_(self.layers[idle].linear.weight)
            nn.init.zeros_(self.layers[idle].linear.bias)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def forward(self, input_ids: Tensor) -> Any:
        h = self.embed(input_ids)
        for i in self.order:
            h = self.layers[i](hidden_states=h) if self.keyword else self.layers[i](h)
        return SimpleNamespace(logits=self.head(self.norm(h)))


@pytest.mark.parametrize("keyword", [False, True])
def test_layers_that_update_in_place_do_not_yield_equal_boundaries(keyword: bool, tmp_path: Path) -> None:
    target = Target(MadeUp(keyword=keyword))
    states = target.forward(IDS[:3]).states
    assert repeated_states(states) == []
    with torch.no_grad():
        h = target.model.embed(torch.tensor(IDS[:3]))
        for n in range(3):
            assert torch.equal(states[n], h)
            h = h + torch.tanh(target.model.layers[n].linear(h))
    out = capture_from(target, [("a", IDS[:3])], (0, 1, 3), tmp_path / "b", model=MODEL)
    assert open_bundle(out).manifest.layers == 3


def test_a_capture_that_stores_references_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault itself: the recorder without its copy, on layers that work in place."""

    def record_reference(self: StreamRecorder, state: Any, tensor: Tensor) -> None:
        self._seen.append(state)
        self._states[state] = tensor

    monkeypatch.setattr(StreamRecorder, "_record", record_reference)
    with pytest.raises(ToolError) as caught:
        capture_from(Target(MadeUp()), [("a", IDS[:3])], (0, 1, 3), tmp_path / "b", model=MODEL)
    assert caught.value.rule == "engine.boundaries-repeat"
    assert "boundary 0 = boundary 1" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_does_nothing_is_reported_unless_allowed(tmp_path: Path) -> None:
    target = Target(MadeUp(idle=1))
    with pytest.raises(ToolError, match="boundary 1 = boundary 2"):
        capture_from(target, [("a", IDS[:3])], (0, 1, 3), tmp_path / "b", model=MODEL)
    assert capture_from(target, [("a", IDS[:3])], (0, 1, 3), tmp_path / "b", model=MODEL, allow_repeats=True).is_dir()


@pytest.mark.parametrize("order", [(0, 2), (0, 1), (0, 1, 1, 2), (1, 0, 2), (0, 1, 2, 2)])
def test_layers_that_are_skipped_repeated_or_swapped_are_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(ToolError) as caught:
        Target(MadeUp(order=order)).forward(IDS[:3])
    assert caught.value.rule == "engine.hooks-complete"


def test_repeats_are_told_by_bits_not_by_a_few_rows() -> None:
    x = torch.randn(9, 4)
    y = x.clone()
    y[5, 1] += 1
    nan = torch.full((9, 4), torch.nan)
    assert repeated_states({0: x, 1: y}) == []
    assert repeated_states({0: x, 1: y, 2: x.clone(), 3: nan, 4: nan.clone()}) == [(0, 2), (3, 4)]


@pytest.mark.parametrize("recipe", [(), (0, 5), (-1,), (0, "embedding")])
def test_a_recipe_of_states_that_do_not_exist_is_refused(recipe: Any, targets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputRejected) as caught:
        capture(targets["llama"], [("a", IDS)], recipe, tmp_path / "b", device="cpu")
    assert caught.value.rule == "engine.recipe"


def test_a_bad_prompt_leaves_no_bundle(targets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputRejected):
        capture(targets["llama"], [("a", IDS), ("b", [1000])], (0, 1), tmp_path / "b", device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_greedy_continuation_of_a_folder(targets: dict[str, Path]) -> None:
    made = greedy_continuation(targets["llama"], IDS, 5, dtype="float32", device="cpu")
    whole = load_target(targets["llama"], dtype="float32", device="cpu").forward(IDS + made)
    assert made == whole.greedy[len(IDS) - 1 : -1].tolist()
