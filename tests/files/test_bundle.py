"""Capture bundles: written whole or not at all, read strictly."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.errors import InputRejected, InternalError, LimitExceeded
from contract.files.bundle import Bundle, open_bundle
from contract.files.bundle_manifest import EngineInfo, ForwardInfo, ImitatedEngine, ModelInfo
from contract.files.bundle_rules import RULES
from contract.files.bundle_tensors import entries
from contract.files.bundle_writer import BundleWriter
from contract.files.torch_tensors import load_tensor
from contract.limits import DEFAULT_LIMITS

FORWARD = ForwardInfo(phase="prefill", round=0, step=0, rows=3)
ENGINE = EngineInfo(
    name="transformers",
    version="5.0",
    runner=None,
    mode="eager",
    flags={"attn": "eager"},
    device="cpu",
    dtype="float32",
    tp=1,
    pp=1,
    layer_ids=None,
)
TARGET = ModelInfo(id="a/b", model_type="llama", files={"config.json": "sha256:" + "0" * 64})
LAYERS = 4


def tensors(rows: int = 5, seed: int = 0) -> dict[str, torch.Tensor]:
    make = torch.Generator().manual_seed(seed)
    found = {"input_ids": torch.arange(rows), "position_ids": torch.arange(rows)}
    found |= {f"slot.{i}": torch.randn(rows, 8, generator=make).bfloat16() for i in range(3)}
    found |= {f"boundary.{i}": torch.randn(rows, 8, generator=make).bfloat16() for i in range(LAYERS + 1)}
    return found | {"final_norm": torch.randn(rows, 8, generator=make).bfloat16(), "greedy": torch.arange(rows)}


def writer(out: Path, **more: Any) -> BundleWriter:
    settings: dict[str, Any] = {
        "kind": "some-kind",
        "engine": ENGINE,
        "target": TARGET,
        "recipe_fed": [0, 2, "final_norm"],
        "layers": LAYERS,
    }
    return BundleWriter(out, **(settings | more))


def write(out: Path, *requests: dict[str, torch.Tensor]) -> Path:
    with writer(out) as bundle:
        for i, request in enumerate(requests or (tensors(), tensors(3, seed=1))):
            bundle.add(f"r{i}", entries(request), sample=f"s{i}")
    return out


def rule_of(act: Callable[[], object]) -> str:
    with pytest.raises(InputRejected) as caught:
        act()
    assert caught.value.fix
    return caught.value.rule


def test_what_is_written_is_read(tmp_path: Path) -> None:
    drafter = ModelInfo(id=None, model_type=None, files={})
    imitates = ImitatedEngine(name="sglang", version="0.5.23", runner=None)
    with writer(tmp_path / "b", drafter=drafter, imitates=imitates) as bundle:
        bundle.add("r0", entries(tensors()), sample="s0")
        bundle.add("r1", entries(tensors(3, seed=1) | {"forward.0.logits": torch.ones(2, 7)}), forwards=[FORWARD])
    found = open_bundle(tmp_path / "b")
    assert found.manifest.recipe_fed == [0, 2, "final_norm"]
    assert (found.manifest.engine, found.manifest.imitates, found.manifest.drafter) == (ENGINE, imitates, drafter)
    assert [(r.id, r.tokens, r.sample) for r in found.requests] == [("r0", 5, "s0"), ("r1", 3, None)]
    for name, tensor in tensors().items():
        assert torch.equal(load_tensor(found.request("r0").tensors[name]), tensor)
    assert torch.equal(load_tensor(found.request("r1").tensors["forward.0.logits"]), torch.ones(2, 7))
    with pytest.raises(KeyError):
        found.request("r2")


def test_the_files_are_plain_safetensors_and_json(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    write(tmp_path / "b")
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    name = manifest["requests"][0]["file"]
    assert torch.equal(load_file(tmp_path / "b" / name)["slot.1"], tensors()["slot.1"])
    assert manifest["files"][name] == "sha256:" + hashlib.sha256((tmp_path / "b" / name).read_bytes()).hexdigest()
    assert set(os.listdir(tmp_path)) == {"b"}


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    def crash() -> None:
        with writer(tmp_path / "b") as bundle:
            bundle.add("r0", entries(tensors()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    assert list(tmp_path.iterdir()) == []


def test_a_capture_without_requests_is_no_bundle(tmp_path: Path) -> None:
    def empty() -> None:
        with writer(tmp_path / "b"):
            pass

    assert rule_of(empty) == "bundle.incomplete"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(tmp_path: Path) -> None:
    write(tmp_path / "b")
    assert rule_of(lambda: write(tmp_path / "b")) == "bundle.exists"
    (tmp_path / "file").write_text("x")
    assert rule_of(lambda: write(tmp_path / "file")) == "bundle.exists"
    (tmp_path / "empty").mkdir()
    assert open_bundle(write(tmp_path / "empty")).requests


def test_a_place_that_cannot_be_written_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert rule_of(lambda: write(tmp_path / "file" / "b")) == "files.write-failed"


@pytest.mark.parametrize("name", ["é" * 127, "\U0001f9ed" * 60, "a b;'$(x)", ".hidden", "-o"])
def test_any_name_that_a_file_system_takes_will_do(tmp_path: Path, name: str) -> None:
    assert open_bundle(write(tmp_path / name)).path.name == name
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["input_ids", "position_ids", "slot.0", "slot.2"])
def test_a_request_without_a_required_tensor_is_not_written(tmp_path: Path, name: str) -> None:
    request = tensors()
    del request[name]
    assert rule_of(lambda: write(tmp_path / "b", request)) in ("bundle.tensors", "bundle.request")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("slot.3", torch.ones(5, 8)),
        ("slot.01", torch.ones(5, 8)),
        ("boundary.5", torch.ones(5, 8)),
        ("boundary.1", torch.ones(4, 8)),
        ("boundary.1", torch.ones(5, 9)),
        ("boundary.1", torch.ones(5, 8, dtype=torch.int64)),
        ("final_norm", torch.ones(5)),
        ("greedy", torch.ones(5)),
        ("position_ids", torch.arange(5).int()),
        ("attention", torch.ones(5, 8)),
        ("forward.x.logits", torch.ones(5, 8)),
    ],
)
def test_a_tensor_that_does_not_belong_is_refused(tmp_path: Path, name: str, tensor: torch.Tensor) -> None:
    assert rule_of(lambda: write(tmp_path / "b", tensors() | {name: tensor})) == "bundle.tensors"


def test_ids_are_unique_and_printable(tmp_path: Path) -> None:
    def twice() -> None:
        with writer(tmp_path / "b") as bundle:
            bundle.add("r", entries(tensors()))
            bundle.add("r", entries(tensors()))

    assert rule_of(twice) == "bundle.request"
    for odd in ("", "a\nb", "x" * 300):
        with pytest.raises(InputRejected), writer(tmp_path / "c") as bundle:
            bundle.add(odd, entries(tensors()))


def test_limits_hold_on_both_sides(tmp_path: Path) -> None:
    small = DEFAULT_LIMITS.lowered(capture_bytes=1000)
    with pytest.raises(LimitExceeded), writer(tmp_path / "b", limits=small) as bundle:
        bundle.add("r", entries(tensors()))
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "b")
    with pytest.raises(LimitExceeded):
        open_bundle(tmp_path / "b", limits=small)
    with pytest.raises(LimitExceeded):
        open_bundle(tmp_path / "b", limits=DEFAULT_LIMITS.lowered(samples=1))


def test_wrong_calls_are_internal_errors(tmp_path: Path) -> None:
    bundle = writer(tmp_path / "b")
    with pytest.raises(InternalError):
        bundle.add("r", entries(tensors()))
    with pytest.raises(InternalError), bundle:
        bundle.add("r", entries(tensors()) | {"slot.0": ("BF16", (5, 8), b"short")})
    with pytest.raises(InternalError):
        entries({"x": torch.ones(1, dtype=torch.complex128)})


def edit(out: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A bundle with a changed manifest."""
    path = write(out) / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    return out


def test_the_clean_twin_of_every_edit_is_read(tmp_path: Path) -> None:
    assert isinstance(open_bundle(edit(tmp_path / "b", lambda m: None)), Bundle)


@pytest.mark.parametrize(
    ("change", "rule", "words"),
    [
        (lambda m: m.update(complete=False), "bundle.incomplete", "not complete"),
        (lambda m: m.update(schema_version=2), "bundle.version", "2"),
        (lambda m: m.update(schema_version=True), "bundle.version", "True"),
        (lambda m: m.pop("complete"), "bundle.manifest", "complete"),
        (lambda m: m.pop("imitates"), "bundle.manifest", "imitates"),
        (lambda m: m.update(recipe_fedd=[]), "bundle.manifest", "did you mean recipe_fed"),
        (lambda m: m["engine"].update(flag={}), "bundle.manifest", "did you mean flags"),
        (lambda m: m["engine"].update(flags={"n": 1}), "bundle.manifest", "flags"),
        (lambda m: m.update(recipe_fed=[0, 2, 5]), "bundle.manifest", "5"),
        (lambda m: m.update(recipe_fed=[0, 2, "embedding"]), "bundle.manifest", "embedding"),
        (lambda m: m.update(recipe_fed=[]), "bundle.manifest", "recipe_fed"),
        (lambda m: m.update(recipe_fed=[0, 1, 2, 3]), "bundle.tensors", "slot.3 is missing"),
        (lambda m: m.update(recipe_fed=[0, 1]), "bundle.tensors", "slot.2"),
        (lambda m: m.update(layers=3), "bundle.tensors", "boundary.4"),
        (lambda m: m.update(layers=0), "bundle.manifest", "layers"),
        (lambda m: m.update(requests=[]), "bundle.incomplete", "no request"),
        (lambda m: m["requests"].pop(), "bundle.closed-world", "request-0001"),
        (lambda m: m["files"].pop("request-0001.safetensors"), "bundle.closed-world", "request-0001"),
        (lambda m: (m["requests"].pop(), m["files"].pop("request-0001.safetensors")), "bundle.closed-world", "not in the manifest"),
        (lambda m: m["requests"][1].update(id="r0"), "bundle.request", "r0"),
        (lambda m: m["requests"][1].update(file="request-0000.safetensors"), "bundle.request", "two requests have the file"),
        (lambda m: m["requests"][0].update(tokens=4), "bundle.tensors", "[4]"),
        (lambda m: m["requests"][0].update(tokens=0), "bundle.request", "0 tokens"),
        (lambda m: m["requests"][0]["tensors"].pop("slot.1"), "bundle.tensors", "slot.1 is missing"),
        (lambda m: m["requests"][0]["tensors"].pop("boundary.1"), "bundle.tensors", "boundary.1"),
        (lambda m: m["requests"][0]["tensors"]["slot.1"].update(dtype="F16"), "bundle.tensors", "F16"),
        (lambda m: m["files"].update({"request-0000.safetensors": "sha256:" + "0" * 64}), "bundle.digest", "request-0000"),
        (lambda m: m["files"].update({"request-0000.safetensors": "md5:0"}), "bundle.manifest", "md5"),
        (lambda m: m["files"].update({"../x": "sha256:" + "0" * 64}), "bundle.manifest", "../x"),
    ],
)
def test_an_edited_manifest_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object], rule: str, words: str) -> None:
    edit(tmp_path / "b", change)
    with pytest.raises(InputRejected) as caught:
        open_bundle(tmp_path / "b")
    assert caught.value.rule == rule
    assert words in caught.value.message
    assert rule in RULES


def test_a_manifest_that_is_no_object_is_refused(tmp_path: Path) -> None:
    (write(tmp_path / "b") / "manifest.json").write_text("[]")
    assert rule_of(lambda: open_bundle(tmp_path / "b")) == "bundle.manifest"


def test_a_duplicate_key_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b") / "manifest.json"
    path.write_text(path.read_text().replace('"kind"', '"kind": "other", "kind"', 1))
    assert rule_of(lambda: open_bundle(tmp_path / "b")) == "files.json-duplicate-key"


def test_a_torn_bundle_is_refused(tmp_path: Path) -> None:
    (write(tmp_path / "a") / "manifest.json").unlink()
    assert rule_of(lambda: open_bundle(tmp_path / "a")) == "bundle.incomplete"
    (write(tmp_path / "b") / "request-0001.safetensors").unlink()
    assert rule_of(lambda: open_bundle(tmp_path / "b")) == "bundle.closed-world"
    path = write(tmp_path / "c") / "request-0001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert rule_of(lambda: open_bundle(tmp_path / "c")) == "bundle.digest"
    (write(tmp_path / "d") / "notes.txt").write_text("x")
    assert rule_of(lambda: open_bundle(tmp_path / "d")) == "bundle.closed-world"
    assert rule_of(lambda: open_bundle(tmp_path / "none")) == "files.not-found"


def test_a_swapped_file_with_a_mended_digest_is_still_refused(tmp_path: Path) -> None:
    """The manifest's list of tensors must agree with the header of the file."""
    from safetensors.torch import save_file

    path = write(tmp_path / "b") / "request-0000.safetensors"
    fewer = tensors()
    del fewer["slot.1"]
    save_file(fewer, path)
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    manifest["files"][path.name] = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputRejected, match=r"slot\.1 is missing, the manifest says"):
        open_bundle(tmp_path / "b")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b") / "request-0000.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert rule_of(lambda: open_bundle(tmp_path / "b")) in ("files.symlink", "files.path-escape")


def test_a_file_that_changes_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    found = open_bundle(write(tmp_path / "b"))
    path = tmp_path / "b" / "request-0000.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert rule_of(lambda: load_tensor(found.requests[0].tensors["slot.0"])) == "files.changed-while-reading"
