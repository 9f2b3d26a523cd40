"""Which tensors are read, from whom, and how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from contract.errors import InputRejected, UsageError, UserError
from contract.files.checkpoint import Checkpoint
from eagle3_contract.drafter import weights
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Feedback, NormBeforeFc, Owner, Wiring

from .build import SMALL, inputs_for, small, target_tensors, tensors_for
from .compare import largest_miss, run


class CountingSource(MemorySource):
    """Counts what is read."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        super().__init__(tensors)
        self.whole: Counter[str] = Counter()
        self.by_row: dict[str, list[int]] = {}

    def tensor(self, name: str) -> Tensor:
        self.whole[name] += 1
        return super().tensor(name)

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        self.by_row.setdefault(name, []).extend(ids_L.tolist())
        return super().rows(name, ids_L)


def test_every_weight_is_read_once_and_of_a_large_embedding_only_the_rows_that_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "WHOLE_TABLE_BYTES", 1)
    source = CountingSource(tensors_for(SMALL) | {"layers.5.mlp.up_proj.weight": torch.ones(2), "t2d": torch.ones(40)})
    drafter = Drafter(SMALL, source)
    inputs = inputs_for(SMALL)
    teacher_forced(drafter, inputs.ids, inputs.states, steps=1)
    assert set(source.whole) == tensors_for(SMALL).keys() - {"embed_tokens.weight", "d2t"}
    assert set(source.whole.values()) == {1}
    assert source.by_row == {"embed_tokens.weight": sorted(set(inputs.ids[1:].tolist()))}


def test_a_small_embedding_is_read_once_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    source, inputs = CountingSource(tensors_for(SMALL)), inputs_for(SMALL)
    whole = teacher_forced(Drafter(SMALL, source), inputs.ids, inputs.states, steps=3)
    assert (source.whole["embed_tokens.weight"], source.by_row) == (1, {})
    monkeypatch.setattr(weights, "WHOLE_TABLE_BYTES", 1)
    by_row = teacher_forced(Drafter(SMALL, source), inputs.ids, inputs.states, steps=3)
    assert all(torch.equal(a, b) or torch.equal(a.isnan(), b.isnan()) for a, b in zip(whole.logits_steps, by_row.logits_steps, strict=True))
    assert torch.equal(whole.logits_steps[0], by_row.logits_steps[0])


def test_weights_of_the_compute_dtype_are_not_copied() -> None:
    tensors = tensors_for(SMALL)
    drafter = Drafter(SMALL, MemorySource(tensors))
    assert drafter.weights["fc.weight"].data_ptr() == tensors["fc.weight"].data_ptr()


def test_a_longer_shared_head_gives_its_first_rows_and_only_these_are_read() -> None:
    """What vLLM does with a drafter that has no lm_head: the target's, cut to the draft vocabulary."""
    target = CountingSource(target_tensors(SMALL))
    drafter = Drafter(small(lm_head=Owner.TARGET), MemorySource(tensors_for(SMALL)), target_source=target)
    assert torch.equal(drafter.weights["lm_head.weight"], target_tensors(SMALL)["lm_head.weight"][:24])
    assert target.by_row == {"lm_head.weight": list(range(24))}
    assert not target.whole


def test_a_target_without_a_head_is_tied() -> None:
    target = {"model.embed_tokens.weight": target_tensors(SMALL)["model.embed_tokens.weight"]}
    drafter = Drafter(small(lm_head=Owner.TARGET), MemorySource(tensors_for(SMALL)), target_source=MemorySource(target))
    assert torch.equal(drafter.weights["lm_head.weight"], target["model.embed_tokens.weight"][:24])


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "language_model.model.embed_tokens.weight", "transformer.wte.weight"])
def test_the_embedding_is_found_in_every_target_family(name: str) -> None:
    table = target_tensors(SMALL)["model.embed_tokens.weight"]
    target = MemorySource({name: table, "model.layers.61.embed_tokens.weight": table + 1})
    drafter = Drafter(small(embedding=Owner.TARGET), MemorySource(tensors_for(SMALL)), target_source=target)
    assert torch.equal(drafter.weights.embedding.rows(torch.tensor([3, 1, 3])), table[[3, 1, 3]])


def test_both_dialects_and_the_prefix_give_the_same() -> None:
    inputs = inputs_for(SMALL)
    plain = tensors_for(SMALL)
    expected = run(SMALL, inputs).logits_steps
    for rename in (
        lambda n: n.replace("layers.0.", "midlayer."),
        lambda n: f"model.{n}",
        lambda n: "model." + n.replace("layers.0.", "midlayer."),
    ):
        drafter = Drafter(SMALL, MemorySource({rename(name): value for name, value in plain.items()}))
        assert largest_miss(teacher_forced(drafter, inputs.ids, inputs.states).logits_steps, expected) == 0.0


def _refused(wiring: Wiring, tensors: dict[str, Tensor], target: dict[str, Tensor] | None = None) -> UserError:
    with pytest.raises(UserError) as caught:
        Drafter(wiring, MemorySource(tensors, "the drafter"), target_source=None if target is None else MemorySource(target, "the target"))
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("name", sorted(tensors_for(small(fc_bias=True, norms_before_fc=tuple(NormBeforeFc))).keys() - {"d2t"}))
def test_any_missing_tensor_is_named(name: str) -> None:
    """No engine says so: they run on with uninitialised memory, or ones."""
    wiring = small(fc_bias=True, norms_before_fc=tuple(NormBeforeFc))
    tensors = tensors_for(wiring)
    del tensors[name]
    error = _refused(wiring, tensors)
    assert error.rule == "drafter.missing-tensor"
    assert name in error.message


def test_all_missing_tensors_are_named_at_once() -> None:
    assert (
        "fc.weight, norm.weight"
        in _refused(SMALL, {k: v for k, v in tensors_for(SMALL).items() if k not in ("fc.weight", "norm.weight")}).message
    )


def test_wrong_shapes_and_dtypes_are_refused() -> None:
    tensors = tensors_for(SMALL)
    error = _refused(SMALL, tensors | {"fc.weight": torch.ones(16, 47)})
    assert (error.rule, "[16, 47]" in error.message, "[16, 48]" in error.message) == ("drafter.tensor-shape", True, True)
    assert _refused(SMALL, tensors | {"lm_head.weight": torch.ones(25, 16)}).rule == "drafter.tensor-shape"
    assert _refused(SMALL, tensors | {"embed_tokens.weight": torch.ones(40, 15)}).rule == "drafter.tensor-shape"
    assert _refused(SMALL, tensors | {"norm.weight": torch.ones(16, dtype=torch.int8)}).rule == "drafter.tensor-dtype"
    packed = torch.ones(16, 48).to(torch.float8_e4m3fn)
    assert _refused(SMALL, tensors | {"fc.weight": packed}).rule == "drafter.tensor-dtype"


def test_a_needed_target_must_be_there_and_fit() -> None:
    tensors = tensors_for(SMALL)
    for wiring in (small(embedding=Owner.TARGET), small(lm_head=Owner.TARGET), small(lm_head=Owner.TIED_TO_TARGET)):
        error = _refused(wiring, tensors)
        assert isinstance(error, UsageError)
        assert error.rule == "drafter.target-needed"
        assert _refused(wiring, tensors, {"model.norm.weight": torch.ones(16)}).rule == "drafter.missing-tensor"
    narrow = {"model.embed_tokens.weight": torch.ones(48, 20)}
    assert _refused(small(embedding=Owner.TARGET), tensors, narrow).rule == "drafter.tensor-shape"
    short = {"lm_head.weight": torch.ones(23, 16)}
    assert _refused(small(lm_head=Owner.TARGET), tensors, short).rule == "drafter.tensor-shape"
    two = {"model.embed_tokens.weight": torch.ones(48, 16), "language_model.model.embed_tokens.weight": torch.ones(48, 16)}
    assert _refused(small(embedding=Owner.TARGET), tensors, two).rule == "drafter.two-names-one-tensor"


def test_a_vocab_map_must_be_integers_of_the_right_length() -> None:
    tensors = tensors_for(SMALL)
    for d2t, rule in (
        (torch.zeros(24), "drafter.tensor-dtype"),
        (torch.zeros(24, dtype=torch.bool), "drafter.tensor-dtype"),
        (torch.zeros(23, dtype=torch.int64), "drafter.vocab-map"),
        (torch.full((24,), -1), "drafter.vocab-map"),
    ):
        with pytest.raises(InputRejected) as caught:
            _ = Drafter(SMALL, MemorySource(tensors | {"d2t": d2t})).target_ids
        assert caught.value.rule == rule
    del tensors["d2t"]
    with pytest.raises(InputRejected, match="no d2t"):
        _ = Drafter(SMALL, MemorySource(tensors)).target_ids


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"fc_applied": False}, "exactly one state"),
        ({"fc_applied": False, "states": 1, "target_hidden_size": 24}, "hidden size must be"),
        ({"final_norm": False, "feedback": Feedback.POST_NORM}, "there is no final norm"),
        ({"kv_heads": 3}, "not a multiple"),
        ({"embedding": Owner.TIED_TO_OWN}, "cannot be a tied one"),
        ({"window": 0}, "at least the query's own key"),
        ({"layers": 0}, "at least one layer"),
        ({"norms_before_fc": (NormBeforeFc.FC_NORM, NormBeforeFc.FC_NORM)}, "named twice"),
    ],
)
def test_a_wiring_that_contradicts_itself_is_refused(changes: dict[str, object], complaint: str) -> None:
    error = _refused(small(**changes), tensors_for(SMALL))
    assert error.rule == "drafter.wiring"
    assert complaint in error.message


def test_an_unknown_activation_is_refused() -> None:
    assert _refused(small(hidden_act="swiglu_oai"), tensors_for(SMALL)).rule == "drafter.hidden-act"


def test_a_checkpoint_on_disk_gives_what_memory_gives(tmp_path: Path) -> None:
    tensors = tensors_for(SMALL)
    save_file({k.replace("layers.0.", "midlayer."): v for k, v in tensors.items()}, tmp_path / "model.safetensors")
    source = CheckpointSource(Checkpoint.open(tmp_path))
    inputs = inputs_for(SMALL)
    got = teacher_forced(Drafter(SMALL, source), inputs.ids, inputs.states)
    for a, b in zip(got.logits_steps, run(SMALL, inputs).logits_steps, strict=True):
        assert torch.equal(a.nan_to_num(), b.nan_to_num())
    with torch.device("meta"):
        assert torch.equal(source.tensor("norm.weight"), tensors["norm.weight"])
        assert torch.equal(source.rows("embed_tokens.weight", torch.tensor([2], device="cpu")), tensors["embed_tokens.weight"][2:3])
    assert source.label == str(tmp_path)
    assert source.shape("midlayer.mlp.up_proj.weight") == (24, 16)
