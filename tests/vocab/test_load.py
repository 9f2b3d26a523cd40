"""Maps as each trainer leaves them, read, classified and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from eagle3_contract.vocab.classify import MapKind, classify_map
from eagle3_contract.vocab.load import VocabSource, checkpoint_map, disagreements, find_map_files, load_map

SAMPLES = Path(__file__).parent.parent / "trainers" / "data" / "samples"
FILES = {
    "speculators-0.9.0": ["d2t-128.npy", "t2d-128.npy"],
    "specforge": ["vocab_mapping/vocab_mapping.pt"],
    "modelopt": ["d2t.pt"],
    "angelslim": ["vocab_mapping.pt"],
    "eagle": ["cache.pt"],
}


@pytest.mark.parametrize("trainer", sorted(FILES))
def test_every_trainers_map_is_found_and_is_an_offset_map(trainer: str) -> None:
    found = find_map_files(SAMPLES / trainer)
    assert [f.relative_to(SAMPLES / trainer).as_posix() for f in found] == FILES[trainer]
    held = [load_map(f, allow_pickle=True) for f in found]
    d2t = next(s.d2t for s in held if s.d2t is not None)
    t2d = next((s.t2d for s in held if s.t2d is not None), None)
    verdict = classify_map(d2t, 128, 512, t2d)
    assert verdict.kind is MapKind.OFFSET
    assert verdict.t2d_problems == ()
    assert (t2d is None) is (trainer == "modelopt")
    unsorted = any("ascending" in n for n in verdict.notes) and any("negative" in n for n in verdict.notes)
    assert unsorted is (trainer == "modelopt")


@pytest.mark.parametrize("trainer", sorted(FILES))
def test_the_same_map_with_absolute_ids_is_told(trainer: str) -> None:
    held = [load_map(f, allow_pickle=True) for f in find_map_files(SAMPLES / trainer)]
    d2t = next(s.d2t for s in held if s.d2t is not None)
    assert classify_map(d2t + np.arange(128), 128, 512).kind is MapKind.ABSOLUTE


def test_pickles_need_the_opt_in_and_other_files_are_no_maps(tmp_path: Path) -> None:
    with pytest.raises(InputRejected) as refused:
        load_map(SAMPLES / "eagle/cache.pt")
    assert refused.value.rule == "files.pickle-refused"
    with pytest.raises(InputRejected) as refused:
        load_map(SAMPLES / "speculators-0.9.0/token_freq.pt", allow_pickle=True)
    assert refused.value.rule == "vocab.no-map"
    np.save(tmp_path / "d2t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputRejected):
        load_map(tmp_path / "d2t.npy")


def test_a_checkpoints_map_keeps_its_dtype(tmp_path: Path) -> None:
    ids = torch.tensor([0, 0, 3])
    for dtype, expected in ((torch.int64, np.int64), (torch.float32, np.float32), (torch.bfloat16, np.float32), (torch.int16, np.int16)):
        save_file({"d2t": ids.to(dtype), "model.t2d": torch.tensor([True, True, False, False, False, True])}, tmp_path / "m.safetensors")
        source = checkpoint_map(Checkpoint.open(tmp_path / "m.safetensors").tensors, "m")
        assert source.d2t is not None
        assert source.d2t.dtype == expected
        assert source.d2t.tolist() == [0, 0, 3]
        kind = classify_map(source.d2t, 3, 6, source.t2d).kind
        assert kind is (MapKind.OFFSET if dtype is torch.int64 else MapKind.INVALID)


def test_disagreements_name_both_places() -> None:
    a, b = np.array([0, 0, 1]), np.array([0, 2, 1])
    assert disagreements([VocabSource("x", a), VocabSource("y", a.copy()), VocabSource("z", None, np.ones(4, bool))]) == []
    (text,) = disagreements([VocabSource("x", a), VocabSource("y", b)])
    assert text == "d2t: x and y differ in 1 of 3 entries, the first at 1: 0 and 2"
    (text,) = disagreements([VocabSource("x", a), VocabSource("y", a[:2])])
    assert "shape [3]" in text
    (text,) = disagreements([VocabSource("x", a, np.ones(4, bool)), VocabSource("y", None, np.zeros(4, bool))])
    assert text.startswith("t2d: x and y differ in 4 of 4")
