"""A contract that ``init`` wrote is kept by the files it was written from, and by no others: each single edit of it is caught.

Edits that no file can contradict are listed with the reason; everything else is edited in every field, automatically.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from factory import tiny

from contract.findings import ExitCode, Status
from contract.requests import VerifyRequest
from eagle3_contract.check.context import Integrity
from eagle3_contract.check.run import check_spec
from eagle3_contract.engines.target import Target
from eagle3_contract.model.fields import field_types
from eagle3_contract.verify.run import verify
from tests.init.scene import drafter, neutral, run

LAYER_IDS = (1, 3, 4)
NOTHING_TELLS = {
    "drafter.path": "where the drafter lies is changed by moving it",
    "target.id": "a name", "target.revision": "a name", "target.dtype": "a cast target has the same files",
    "target.quantization": "how the target ran when the states were recorded", "hidden_states.point": "the same stream on a text target",
    "alignment.positions_start": "rotary embeddings see differences of positions alone",
    "wiring.later_layer_norm": "there is one layer", "wiring.window_follows_steps": "there is no window",
    "training.trainer": "a name", "training.version": "a name", "training.commit": "a name", "training.max_length": "a length of the data",
    "training.target_state.boundary": "the samples do not say which state their last one is to a reader without the target's forward",
    "training.target_state.normed": "as above", "training.target_state.norm_applied_by_trainer": "what a program did",
    "training.data.chat_template_sha256": "of the data", "training.data.thinking": "of the data", "training.data.modality": "of the data",
    "training.data.packed": "of the data", "training.data.loss_mask_rule": "of the metric", "training.metrics.definition": "of the metric",
    "training.metrics.accuracy": "not claimed",
    "serving.steps": "a wish", "serving.topk": "a wish", "serving.draft_tokens": "a wish",
    "acceptance.aggregation": "a wish", "acceptance.counts_bonus": "a wish", "acceptance.counts_prefill": "a wish",
    "acceptance.k": "a wish",
    "acceptance.temperature": "a wish", "acceptance.floor": "a wish", "acceptance.baselines": "others' figures",
    "tolerances.states": "only tightens", "tolerances.logits": "only tightens",
    "wiring.logit_scale": "a scale keeps every order of tokens, and no engine has one",
}  # fmt: skip
OTHER: dict[str, Any] = {
    "wiring.rope.type": "linear", "wiring.attention": "mla", "wiring.hidden_act": "gelu", "wiring.embedding": "own",
    "wiring.lm_head": "target",
    "wiring.norms_before_fc": ["input_norm"], "wiring.feedback": "post_norm", "wiring.concat_order": "hidden_first", "wiring.window": 3,
    "wiring.rope.scaling": {"factor": 2.0}, "wiring.attention_scale": 0.5, "wiring.mla": None, "vocab.map": "absolute",
    "alignment.step_positions": "constant", "training.rollout": "own_argmax", "target.model_type": "qwen3",
    "wiring.architecture": "Eagle3DeepseekV2ForCausalLM", "training.samples.path": "elsewhere", "hidden_states.boundaries": [2, 4, 6],
    "training.samples.states": [2, 4, 6],
}  # fmt: skip
"""What a field is changed to where flipping, adding one or another digit makes no other value of its type."""


@dataclass(frozen=True)
class Scene:
    folder: Path
    target: Path
    tree: dict[str, Any]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, target: Target, target_dir: Path) -> Scene:
    folder = tmp_path_factory.mktemp("edits") / "drafter"
    drafter(folder, ids=LAYER_IDS, boundaries=(2, 4, 5), wiring=tiny(window=None))
    neutral(folder / "samples", target, (2, 4, 5))
    ran = run(folder, folder / "contract.yaml", samples=str(folder / "samples"), target=str(target_dir))
    assert ran.report.exit_code is ExitCode.KEPT, ran.messages()
    return Scene(folder, target_dir, yaml.safe_load(ran.path.read_text()))


def at(tree: dict[str, Any], path: tuple[str, ...]) -> Any:
    for part in path:
        tree = tree[part]
    return tree


def edited(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy in which one field has another value."""
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(tree))
    place = at(copy, path[:-1])
    old = place[path[-1]]
    place[path[-1]] = old | {"value": value} if isinstance(old, dict) and "value" in old else value
    return copy


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2
    if isinstance(value, str) and value.startswith("sha256:"):
        return "sha256:" + ("0" if value[7] != "0" else "1") + value[8:]
    if isinstance(value, list):
        return [value[0] + 1, *value[1:]]
    raise AssertionError(f"no other value of {value!r}")


def caught(scene: Scene, tree: dict[str, Any]) -> bool:
    """Whether ``check`` at its deepest, or ``verify`` with samples and target, is anything but kept."""
    spec = scene.folder / "edited.yaml"
    spec.write_text(yaml.safe_dump(tree, sort_keys=False))
    kept = scene.folder / "contract.yaml"
    hidden = kept.rename(scene.folder.parent / "contract.yaml")
    try:
        report = check_spec(spec, target=scene.target, integrity=Integrity.DIGESTS)
        if report.exit_code is not ExitCode.KEPT:
            return True
        return verify(VerifyRequest(spec=str(spec), target=str(scene.target))).exit_code is not ExitCode.KEPT
    finally:
        hidden.rename(kept)
        spec.unlink()


def test_the_contract_is_kept_as_it_was_written(scene: Scene) -> None:
    assert not caught(scene, scene.tree)
    report = verify(VerifyRequest(spec=str(scene.folder / "contract.yaml"), target=str(scene.target)))
    assert report.exit_code is ExitCode.KEPT
    assert {"golden.logits", "samples.there"} <= {c.rule for c in report.checks if c.status is Status.PASSED}


def _paths() -> Iterator[str]:
    skipped = {"drafter.files", "training.samples.manifest", "wiring.mla", *NOTHING_TELLS}
    yield from (path for path in field_types() if path not in skipped)


@pytest.mark.parametrize("path", list(_paths()))
def test_each_single_edit_is_caught(scene: Scene, path: str) -> None:
    parts = tuple(path.split("."))
    old = at(scene.tree, parts)
    if isinstance(old, dict) and "unknown" in old:
        assert path == "target.tokenizer_sha256"  # the target has no tokenizer
        return
    value = old["value"] if isinstance(old, dict) and "value" in old else old
    other = OTHER[path] if path in OTHER else changed(value)
    assert other != value
    assert caught(scene, edited(scene.tree, parts, other)), f"{path}: {value} -> {other}"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_an_edited_digest_is_caught(scene: Scene, name: str) -> None:
    path = ("drafter", "files", name)
    assert caught(scene, edited(scene.tree, path, changed(at(scene.tree, path))))


def test_an_edited_manifest_is_caught(scene: Scene) -> None:
    path = ("training", "samples", "manifest", "s1.safetensors")
    assert caught(scene, edited(scene.tree, path, changed(at(scene.tree, path))))


def _tensor_edits() -> Iterator[tuple[str, str, Any]]:
    for name in ("fc.weight", "lm_head.weight", "layers.0.hidden_norm.weight", "layers.0.self_attn.k_proj.weight", "d2t", "t2d"):
        yield name, "shape", [1, 2]
        yield name, "dtype", "float64"
        yield name, "stored", False
    yield "embed_tokens.weight", "stored", True
    yield "embed_tokens.weight", "used", "own"
    yield "lm_head.weight", "used", "target"
    yield "lm_head.weight", "content", "target_rows"


@pytest.mark.parametrize(("name", "field", "value"), list(_tensor_edits()))
def test_each_edit_of_a_tensor_is_caught(scene: Scene, name: str, field: str, value: Any) -> None:
    assert caught(scene, edited(scene.tree, ("tensors", name, field), value))


@pytest.mark.parametrize("name", ["fc.weight", "norm.weight", "d2t"])
def test_a_tensor_that_is_not_listed_is_caught(scene: Scene, name: str) -> None:
    tree = yaml.safe_load(yaml.safe_dump(scene.tree))
    del tree["tensors"][name]
    assert caught(scene, tree)


def test_another_drafter_does_not_keep_it(scene: Scene, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(scene.folder, other)
    changed_weights = drafter(tmp_path / "changed", ids=LAYER_IDS, wiring=tiny(norm_before_residual=False, rms_norm_eps=1e-4))
    shutil.copy(changed_weights / "config.json", other / "config.json")
    assert check_spec(other / "contract.yaml").exit_code is ExitCode.VIOLATED
