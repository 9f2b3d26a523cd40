"""Samples that the trainers' own writers wrote, samples of our own, and every way in which one can be wrong."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from contract.errors import InputRejected, LimitExceeded, UsageError, UserError
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.trainers.rules import RULES
from eagle3_contract.trainers.sample import MOST_STATES
from eagle3_contract.trainers.sample_formats.neutral import write_sample
from eagle3_contract.trainers.samples import SampleReader, find_samples, load_sample
from tests.trainers.views import DATA

SAMPLES = DATA / "samples"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def reader() -> Iterator[SampleReader]:
    with SampleReader(allow_pickle=True) as opened:
        yield opened


FOUND = {
    "speculators-0.3.0": ["data_0.pt", "data_1.pt"],
    "speculators-0.9.0": ["hidden_states/hs_0.safetensors", "hidden_states/hs_1.safetensors", "hidden_states/hs_2.safetensors"],
    "specforge": ["rows_0-2000/data_0.ckpt", "rows_0-2000/data_1.ckpt", "rows_0-2000/data_2.ckpt"],
    "modelopt": ["conv0.pt"],
    "angelslim": ["data_0.ckpt"],
    "eagle": [],
}


@pytest.mark.parametrize("folder", sorted(FOUND))
def test_samples_are_found_among_vocab_maps_and_token_counts(folder: str) -> None:
    assert [f.relative_to(SAMPLES / folder).as_posix() for f in find_samples(SAMPLES / folder)] == FOUND[folder]


@pytest.mark.parametrize(
    ("root", "file", "name"),
    [
        ("a", "a/x.pt", "x.pt"), ("a", "a/b/x.pt", "b/x.pt"), ("a", "ab/x.pt", "x.pt"), (".", "b/x.pt", "b/x.pt"), (".", "/b/x.pt", "x.pt"),
        ("/", "/b/x.pt", "b/x.pt"), ("/r/", "/r/b/x.pt", "b/x.pt"), (None, "a/x.pt", "x.pt"), ("a/x.pt", "a/x.pt", "x.pt"),
    ],
)  # fmt: skip
def test_a_sample_is_called_by_its_place_below_the_root(root: str | None, file: str, name: str) -> None:
    assert SampleReader(allow_pickle=False, root=root).name_of(Path(file)) == name


def test_a_link_out_of_the_samples_folder_is_refused(tmp_path: Path) -> None:
    """As for weights; links within the folder, to the folder itself and into the cache of a repository are the user's."""
    inside, outside = tmp_path / "samples", tmp_path / "outside"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    for folder in (inside / "sub", outside):
        shutil.copy(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", folder)
    (inside / "hs_1.safetensors").symlink_to("sub/hs_0.safetensors")
    (tmp_path / "named").symlink_to(inside)
    assert [f.name for f in find_samples(tmp_path / "named")] == ["hs_0.safetensors", "hs_1.safetensors"][::-1]
    (inside / "hs_2.safetensors").symlink_to(outside / "hs_0.safetensors")
    for place in (inside, tmp_path / "named"):
        with pytest.raises(InputRejected) as refused:
            find_samples(place)
        assert refused.value.rule == "files.path-escape"
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    (snapshot / "samples").mkdir(parents=True)
    (tmp_path / "models--a--b" / "blobs").mkdir()
    shutil.copy(outside / "hs_0.safetensors", tmp_path / "models--a--b" / "blobs" / "abc")
    (snapshot / "samples" / "hs_0.safetensors").symlink_to("../../../blobs/abc")
    assert len(find_samples(snapshot / "samples")) == 1
    (snapshot / "samples" / "hs_1.safetensors").symlink_to("../../../../outside/hs_0.safetensors")
    with pytest.raises(InputRejected):
        find_samples(snapshot / "samples")


@pytest.mark.parametrize("name", ["a.pt", "a.ckpt.gz", "a.safetensors"])
def test_a_pipe_among_the_samples_is_not_waited_for(name: str, reader: SampleReader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert find_samples(tmp_path) == [tmp_path / name]
    with pytest.raises(InputRejected) as refused:
        reader.load(tmp_path / name)
    assert refused.value.rule == "files.not-regular"


@pytest.mark.parametrize(
    ("file", "layout", "tokens", "dtype"),
    [
        ("speculators-0.3.0/data_0.pt", "speculators.list_of_states", 24, torch.bfloat16),
        ("speculators-0.9.0/hidden_states/hs_2.safetensors", "speculators.hs", 23, torch.float32),
        ("specforge/rows_0-2000/data_2.ckpt", "specforge", 23, torch.float32),
        ("modelopt/conv0.pt", "modelopt", 24, torch.float32),
        ("angelslim/data_0.ckpt", "angelslim", 24, torch.float32),
    ],
)
def test_each_trainers_dump_is_read(reader: SampleReader, file: str, layout: str, tokens: int, dtype: torch.dtype) -> None:
    sample = reader.load(SAMPLES / file)
    assert (sample.format, sample.tokens, len(sample.states_THk)) == (layout, tokens, 3)
    assert all(s.shape == (tokens, 64) and s.dtype is dtype for s in sample.states_THk)
    assert sample.last_TG is not None
    assert sample.last_TG.shape == (tokens, 64)
    assert sample.loss_mask_T is not None
    assert sample.loss_mask_T.dtype is torch.uint8
    assert 0 < int(sample.loss_mask_T.sum()) < tokens
    assert sample.fc_input().shape == (tokens, 192)
    assert torch.equal(sample.fc_input((2, 0)), torch.cat([sample.states_THk[2], sample.states_THk[0]], dim=-1))


def test_two_trainers_dumped_the_same_conversation(reader: SampleReader) -> None:
    """The dumps were made from one target and one text, so that the formats can be compared value by value."""
    new = reader.load(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors")
    forge = reader.load(SAMPLES / "specforge/rows_0-2000/data_0.ckpt")
    assert torch.equal(new.input_ids_T, forge.input_ids_T)
    for mine, theirs in zip(new.states_THk, forge.states_THk, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4)
    assert new.loss_mask_T is not None
    assert forge.loss_mask_T is not None
    assert torch.equal(new.loss_mask_T, forge.loss_mask_T)
    assert new.last_TG is not None
    assert forge.last_TG is not None
    assert not torch.allclose(new.last_TG, forge.last_TG, atol=1e-2)  # before the final norm against after it


def test_the_list_is_sliced_as_the_trainer_slices_it(reader: SampleReader, tmp_path: Path) -> None:
    raw = torch.load(SAMPLES / "speculators-0.3.0/data_0.pt", weights_only=True)
    sample = reader.load(SAMPLES / "speculators-0.3.0/data_0.pt")
    assert torch.equal(sample.fc_input(), torch.cat(raw["hidden_states"][:-1], dim=-1))
    assert sample.last_TG is not None
    assert torch.equal(sample.last_TG, raw["hidden_states"][-1])
    torch.save({**raw, "last_hidden_state": raw["hidden_states"][0], "target_argmax": raw["input_ids"]}, tmp_path / "a.pt")
    own_last = reader.load(tmp_path / "a.pt")
    assert len(own_last.states_THk) == 4
    assert own_last.last_TG is not None
    assert torch.equal(own_last.last_TG, raw["hidden_states"][0])
    assert torch.equal(own_last.extras["target_argmax"], raw["input_ids"])


def test_speculators_first_layout_and_packed_files(reader: SampleReader, tmp_path: Path) -> None:
    raw = torch.load(SAMPLES / "speculators-0.3.0/data_0.pt", weights_only=True)
    states = raw["hidden_states"]
    v0 = {"input_ids": raw["input_ids"], "loss_mask": raw["loss_mask"], "hidden_state": torch.cat(states[:3], -1), "target": states[3]}
    torch.save(v0, tmp_path / "v0.pt")
    assert torch.equal(reader.load(tmp_path / "v0.pt").fc_input(), v0["hidden_state"])
    with gzip.open(tmp_path / "data_0.ckpt.gz", "wb") as packed:
        packed.write((SAMPLES / "specforge/rows_0-2000/data_0.ckpt").read_bytes())
    assert [f.name for f in find_samples(tmp_path)] == ["data_0.ckpt.gz", "v0.pt"]
    assert reader.load(tmp_path / "data_0.ckpt.gz").format == "specforge"


def test_order_is_natural_and_other_files_are_left_alone(tmp_path: Path) -> None:
    for index in (10, 9, 1):
        shutil.copy(SAMPLES / "speculators-0.3.0/data_0.pt", tmp_path / f"data_{index}.pt")
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    (tmp_path / "notes.txt").write_text("input_ids")
    assert [f.name for f in find_samples(tmp_path)] == ["data_1.pt", "data_9.pt", "data_10.pt"]
    assert find_samples(tmp_path / "data_9.pt") == [tmp_path / "data_9.pt"]


def test_a_damaged_sample_is_found_and_fails_rather_than_vanishes(tmp_path: Path) -> None:
    good = (SAMPLES / "speculators-0.3.0/data_0.pt").read_bytes()
    (tmp_path / "data_0.pt").write_bytes(b"")
    (tmp_path / "data_1.pt").write_bytes(good[: len(good) // 2])
    (tmp_path / "data_2.safetensors").write_bytes(b"\x00" * 20)
    (tmp_path / "data_3.ckpt.gz").write_bytes(b"\x1f\x8bxx")
    assert len(find_samples(tmp_path)) == 4
    with SampleReader(allow_pickle=True) as reader:
        for file in find_samples(tmp_path):
            with pytest.raises(InputRejected):
                reader.load(file)


def test_an_empty_folder_is_empty_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert find_samples(tmp_path) == []
    with pytest.raises(InputRejected) as refused:
        find_samples(tmp_path / "gone")
    assert refused.value.rule == "samples.not-found"


def test_folders_one_in_another_are_bounded(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    with pytest.raises(LimitExceeded) as refused:
        find_samples(tmp_path)
    assert refused.value.limit == "folder_depth"
    (tmp_path / "kept").touch()
    os.removedirs(tmp_path.joinpath(*["d"] * 1200))  # shutil.rmtree, which cleans up after tests, recurses


def test_samples_at_any_depth_within_the_bound_and_not_behind_links(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("top", *["d"] * 20)
    deep.mkdir(parents=True)
    for place in (deep, tmp_path / "top"):
        shutil.copy(SAMPLES / "speculators-0.3.0/data_0.pt", place / "data_0.pt")
    (deep / "up").symlink_to(tmp_path / "top")
    (tmp_path / "top" / "folder.pt").mkdir()
    assert find_samples(tmp_path / "top") == [deep / "data_0.pt", tmp_path / "top" / "data_0.pt"]
    with pytest.raises(LimitExceeded):
        find_samples(tmp_path / "top", limits=DEFAULT_LIMITS.lowered(folder_depth=19))
    assert len(find_samples(tmp_path / "top", limits=DEFAULT_LIMITS.lowered(folder_depth=20))) == 2


def test_a_path_that_is_too_long_names_no_samples() -> None:
    with pytest.raises(InputRejected) as refused:
        find_samples("a/" * 2500)
    assert refused.value.rule == "samples.not-found"


@pytest.mark.parametrize("width", [3, 4])
def test_a_last_state_of_another_width_than_the_states_is_refused(reader: SampleReader, tmp_path: Path, width: int) -> None:
    record = {"input_ids": torch.arange(7), "hidden_states": [torch.ones(7, 4)] * 3, "last_hidden_state": torch.ones(7, width)}
    torch.save(record, tmp_path / "data_0.pt")
    if width == 4:
        assert len(reader.load(tmp_path / "data_0.pt").states_THk) == 3
        return
    with pytest.raises(InputRejected, match="last_hidden_state is 3 wide, the states are 4") as refused:
        reader.load(tmp_path / "data_0.pt")
    assert refused.value.rule == "samples.shape"


NEUTRAL = {"format": "eagle3-contract-sample", "format_version": "1"}


def _of_states(folder: Path, layout: str, count: int) -> Path:
    """A sample of ``count`` states, each one wide, in a container."""
    ids = torch.arange(2)
    if layout == "neutral":
        save_file({"input_ids": ids, "states": torch.ones(2, count, 1)}, folder / "a.safetensors", NEUTRAL)
    elif layout == "speculators.hs":
        save_file({"token_ids": ids, "hidden_states": torch.ones(2, count, 1)}, folder / "a.safetensors")
    elif layout == "list":
        torch.save({"input_ids": ids, "hidden_states": [torch.ones(2, 1)] * count}, folder / "a.pt")
    else:
        torch.save({"input_ids": ids, "aux_hidden_state": torch.ones(2, count), "hidden_state": torch.ones(2, 1)}, folder / "a.pt")
    return next(folder.glob("a.*"))


@pytest.mark.parametrize("layout", ["neutral", "speculators.hs", "list", "fused"])
def test_more_states_than_a_target_has_layers_are_refused(reader: SampleReader, tmp_path: Path, layout: str) -> None:
    assert len(reader.load(_of_states(tmp_path, layout, MOST_STATES)).states_THk) >= MOST_STATES - 1
    with pytest.raises(InputRejected, match="no target has more than 1024 layers") as refused:
        reader.load(_of_states(tmp_path, layout, MOST_STATES + 1))
    assert refused.value.rule == "samples.shape"
    with pytest.raises(UsageError):
        write_sample(tmp_path / "b.safetensors", input_ids_T=torch.arange(2), states_THk=[torch.ones(2, 1)] * (MOST_STATES + 1))


def test_pickles_are_refused_without_the_opt_in() -> None:
    with pytest.raises(InputRejected) as refused:
        load_sample(SAMPLES / "speculators-0.3.0/data_0.pt", allow_pickle=False)
    assert refused.value.rule == "files.pickle-refused"
    assert load_sample(SAMPLES / "speculators-0.9.0/hidden_states/hs_0.safetensors", allow_pickle=False).tokens == 24


def _change(key: str, value: Any) -> Callable[[Record], None]:
    return lambda record: record.update({key: value(record[key])})


FAULTS: dict[str, tuple[str, Callable[[Record], None]]] = {
    "a state of NaN": ("not-finite", lambda r: r["hidden_states"][1].__setitem__((3, 5), float("nan"))),
    "an infinite last state": ("not-finite", lambda r: r["hidden_states"][-1].__setitem__((0, 0), float("inf"))),
    "a state a row short": ("length", lambda r: r["hidden_states"].__setitem__(0, r["hidden_states"][0][:-1])),
    "a mask a token short": ("length", _change("loss_mask", lambda m: m[:-1])),
    "whole-number states": ("dtype", lambda r: r["hidden_states"].__setitem__(0, r["hidden_states"][0].long())),
    "float tokens": ("dtype", _change("input_ids", lambda i: i.float())),
    "a state of another width": ("shape", lambda r: r["hidden_states"].__setitem__(0, r["hidden_states"][0][:, :32])),
    "tokens of two rows": ("shape", _change("input_ids", lambda i: torch.stack([i, i]))),
    "one state alone": ("shape", _change("hidden_states", lambda h: h[:1])),
    "a mask of twos": ("mask-values", _change("loss_mask", lambda m: 2 * m)),
    "a negative token": ("token-ids", _change("input_ids", lambda i: i - 600)),
    "no tokens": ("empty", _change("input_ids", lambda i: i[:0])),
    "no input_ids": ("unknown-format", lambda r: r.pop("input_ids")),
    "no states": ("unknown-format", lambda r: r.pop("hidden_states")),
    "a number for a state": ("dtype", lambda r: r["hidden_states"].__setitem__(0, 7)),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_each_fault_of_a_dump_has_its_own_rule(reader: SampleReader, tmp_path: Path, fault: str) -> None:
    rule, apply = FAULTS[fault]
    record = torch.load(SAMPLES / "speculators-0.3.0/data_0.pt", weights_only=True)
    torch.save(record, tmp_path / "clean.pt")
    assert reader.load(tmp_path / "clean.pt").tokens == 24
    apply(record)
    torch.save(record, tmp_path / "bad.pt")
    with pytest.raises(UserError) as refused:
        reader.load(tmp_path / "bad.pt")
    assert refused.value.rule == f"samples.{rule}"
    assert refused.value.rule in RULES


def test_a_width_that_is_no_multiple_of_a_state_is_refused(reader: SampleReader, tmp_path: Path) -> None:
    record = torch.load(SAMPLES / "specforge/rows_0-2000/data_0.ckpt", weights_only=True)
    record["aux_hidden_state"] = record["aux_hidden_state"][..., :100]
    torch.save(record, tmp_path / "bad.ckpt")
    with pytest.raises(UserError, match="no multiple"):
        reader.load(tmp_path / "bad.ckpt")


def test_names_are_relative_to_the_root() -> None:
    root = SAMPLES / "speculators-0.9.0"
    file = root / "hidden_states/hs_1.safetensors"
    assert load_sample(file, allow_pickle=False, root=root).name == "hidden_states/hs_1.safetensors"
    assert load_sample(file, allow_pickle=False).name == "hs_1.safetensors"
