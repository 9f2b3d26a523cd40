"""What the weights and the maps say: whose embedding and head they are, rows picked by offset, and maps that disagree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from factory import Tensor, tiny
from numpy.typing import NDArray

from eagle3_contract.engines.target import Target
from eagle3_contract.model.wiring import Owner
from tests.init.scene import drafter, run

SEVEN = {"target.layers": "8"}


def table(target: Target) -> NDArray[np.float32]:
    return target.stream.embedding.get_parameter("weight").detach().numpy()


def head(target: Target) -> NDArray[np.float32]:
    return target.model.get_output_embeddings().weight.detach().numpy()  # type: ignore[operator, union-attr]  # a transformers model


def targets_of(place: Path) -> NDArray[np.int64]:
    from contract.files.checkpoint import Checkpoint
    from contract.files.torch_tensors import load_tensor

    d2t = load_tensor(Checkpoint.open(place).tensors["d2t"]).numpy()
    return d2t + np.arange(len(d2t))


def content(place: Path, name: str, target_dir: Path | None) -> tuple[object, str]:
    from contract.statement import fact

    ran = run(place, settings=SEVEN if target_dir is None else {}, target=None if target_dir is None else str(target_dir))
    found = fact(ran.contract.tensors[name].content)
    return found.value, str(found.note if found.known else found.reason)


def test_an_own_embedding_is_the_targets_or_its_own(tmp_path: Path, target: Target, target_dir: Path) -> None:
    own = tiny(embedding=Owner.OWN)
    copied = drafter(tmp_path / "copy", wiring=own, tensors={"embed_tokens.weight": Tensor(table(target), "float32")})
    assert content(copied, "embed_tokens.weight", target_dir)[0] == "target_copy"
    assert content(copied, "embed_tokens.weight", None)[0] is None
    rounded = drafter(tmp_path / "bf16", wiring=own, tensors={"embed_tokens.weight": Tensor(table(target), "bfloat16")})
    assert content(rounded, "embed_tokens.weight", target_dir)[0] == "target_copy"
    one_row = table(target).copy()
    one_row[5] += 1
    touched = drafter(tmp_path / "touched", wiring=own, tensors={"embed_tokens.weight": Tensor(one_row, "float32")})
    assert content(touched, "embed_tokens.weight", target_dir) == ("independent", "95 of 96 sampled rows are the target's")


def test_a_fresh_table_looks_random_and_a_trained_one_does_not(tmp_path: Path, target_dir: Path) -> None:
    rng = np.random.default_rng(0)
    fresh = rng.standard_normal((96, 32)).astype(np.float32) * 0.02
    own = tiny(embedding=Owner.OWN)
    random_one = drafter(tmp_path / "random", wiring=own, tensors={"embed_tokens.weight": Tensor(fresh, "float32")})
    assert "look like a fresh random table" in content(random_one, "embed_tokens.weight", target_dir)[1]
    trained = drafter(tmp_path / "trained", wiring=own)  # rows of very different sizes
    assert "random" not in content(trained, "embed_tokens.weight", target_dir)[1]


def test_head_rows_by_id_by_offset_or_its_own(tmp_path: Path, target: Target, target_dir: Path) -> None:
    place = drafter(tmp_path / "own")
    assert content(place, "lm_head.weight", target_dir)[0] == "independent"
    targets = targets_of(place)
    by_id = drafter(tmp_path / "id", tensors={"lm_head.weight": Tensor(head(target)[targets], "float32")})
    assert content(by_id, "lm_head.weight", target_dir)[0] == "target_rows"
    offsets = targets - np.arange(len(targets))
    pruned = drafter(tmp_path / "offset", tensors={"lm_head.weight": Tensor(head(target)[offsets], "float32")})
    ran = run(pruned, target=str(target_dir), settings={"hidden_states.boundaries": "[2, 4, 5]"})
    (check,) = ran.failed("init.head-rows")
    assert "of the offsets d2t[i]" in check.message
    assert ran.report.exit_code == 1


def test_a_map_of_absolute_ids_is_what_it_is(tmp_path: Path, target_dir: Path) -> None:
    clean = drafter(tmp_path / "clean")
    assert run(clean, target=str(target_dir)).value("vocab.map") == "offset"
    targets = targets_of(clean)
    place = drafter(tmp_path / "d", tensors={"d2t": Tensor(targets, "int64")})
    ran = run(place, target=str(target_dir))
    assert ran.value("vocab.map") == "absolute"
    assert any(c.rule == "init.note" and "every engine adds the draft id" in c.message for c in ran.report.checks)


@pytest.mark.parametrize("fault", ["short", "zeros", "twice"])
def test_a_broken_map_is_no_map(tmp_path: Path, target_dir: Path, fault: str) -> None:
    d2t = targets_of(drafter(tmp_path / "clean")) - np.arange(24)
    broken = {"short": d2t[:20], "zeros": np.zeros(24, dtype=np.int64), "twice": np.where(np.arange(24) == 23, d2t - 1, d2t)}[fault]
    place = drafter(tmp_path / "d", tensors={"d2t": Tensor(broken.astype(np.int64), "int64"), "t2d": None})
    if fault == "twice":
        place = drafter(tmp_path / "e", tensors={"d2t": Tensor(np.full(24, -40, dtype=np.int64), "int64"), "t2d": None})
    ran = run(place, target=str(target_dir))
    assert "vocab.map" in ran.open(), ran.messages()
    assert ran.failed("init.vocab-maps-agree") or ran.failed("init.contradiction")


def test_maps_in_several_places_must_agree(tmp_path: Path, target_dir: Path) -> None:
    place = drafter(tmp_path / "run" / "d")
    targets = targets_of(place)
    samples = tmp_path / "data"
    samples.mkdir()
    np.save(samples / "d2t-24.npy", targets - np.arange(24))
    np.save(samples / "d2t-999.npy", np.zeros(999, dtype=np.int64))  # of another draft vocabulary
    torch.save({"d2t": torch.from_numpy(targets - np.arange(24))}, samples / "vocab_mapping.pt")
    empty = {"settings": {"hidden_states.boundaries": "[2, 4, 5]"}, "target": str(target_dir), "samples": str(samples)}
    agree = run(place, **empty)
    assert not agree.failed("init.vocab-maps-agree")
    changed = targets - np.arange(24)
    changed[3] += 1
    np.save(samples / "d2t-24.npy", changed)
    (check,) = run(place, **empty).failed("init.vocab-maps-agree")
    assert "differ in 1 of 24 entries, the first at 3" in check.message


def test_a_map_that_may_not_be_read_is_said_to_be_left_out(tmp_path: Path, target_dir: Path) -> None:
    place = drafter(tmp_path / "d")
    torch.save(torch.zeros(24, dtype=torch.int64), place / "d2t.pt")
    ran = run(place, target=str(target_dir), allow_pickle=False)
    assert any(c.rule == "init.not-compared" and "d2t.pt" in c.message for c in ran.report.checks)
    assert run(place, target=str(target_dir)).failed("init.vocab-maps-agree")


def test_a_checkpoint_without_the_map_that_training_used(tmp_path: Path, target_dir: Path) -> None:
    place = drafter(tmp_path / "d")
    targets = targets_of(place)
    bare = drafter(tmp_path / "bare", tensors={"d2t": None, "t2d": None})
    np.save(bare / "d2t.npy", targets - np.arange(24))
    ran = run(bare, target=str(target_dir))
    assert (ran.value("vocab.map"), ran.value("vocab.present")) == ("offset", False)
    assert any("carries none" in c.message for c in ran.failed("init.vocab-maps-agree"))
