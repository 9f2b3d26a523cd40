"""What ranks hold of a state: copies, column shards and partial sums are told apart or refused, never mistaken for each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import LAYERS, RECIPE, WIDTH, Recording, ints, states
from torch import Tensor

from contract.errors import InputRejected
from contract.files.bundle import Bundle, open_bundle
from contract.files.bundle_manifest import ModelInfo
from contract.files.torch_tensors import load_tensor
from eagle3_contract.engines.assemble import assemble
from eagle3_contract.engines.shards import Held, join
from eagle3_contract.engines.spool_read import open_spool

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ranks = st.integers(2, 6)
rows = st.integers(1, 7)
columns = st.integers(1, 9)
dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 2**31)


def state(rows_: int, width: int, dtype: torch.dtype, seed: int) -> Tensor:
    return torch.randn(rows_, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


@given(ranks, rows, columns, dtypes, seeds, st.booleans())
def test_columns_are_joined_in_rank_order(n: int, r: int, w: int, dtype: torch.dtype, seed: int, seen: bool) -> None:
    full = state(r, n * w, dtype, seed)
    joined = join(list(full.chunk(n, dim=1)), width=n * w, full_NG=full if seen else None)
    assert joined.held is Held.COLUMNS
    assert torch.equal(joined.state_NG, full)


@given(ranks, rows, columns, dtypes, seeds, st.booleans())
def test_replicas(n: int, r: int, w: int, dtype: torch.dtype, seed: int, seen: bool) -> None:
    full = state(r, w, dtype, seed)
    joined = join([full.clone() for _ in range(n)], width=w, full_NG=full if seen else None)
    assert joined.held is Held.REPLICA
    assert torch.equal(joined.state_NG, full)


@given(ranks, rows, columns, dtypes, seeds)
def test_partial_sums_are_added(n: int, r: int, w: int, dtype: torch.dtype, seed: int) -> None:
    parts = [state(r, w, torch.float32, seed + i).abs().to(dtype) for i in range(n)]  # of one sign, so that nothing cancels
    full = torch.stack([p.double() for p in parts]).sum(0).to(dtype)
    joined = join(parts, width=w, full_NG=full)
    assert joined.held is Held.PARTIAL_SUM
    assert torch.equal(joined.state_NG, full)


@given(ranks, rows, st.integers(2, 9), dtypes, seeds)
def test_partial_sums_alone_are_not_told_from_replicas_that_drifted(n: int, r: int, w: int, dtype: torch.dtype, seed: int) -> None:
    with pytest.raises(InputRejected, match="the full state would tell") as raised:
        join([state(r, w, dtype, seed + i) for i in range(n)], width=w)
    assert raised.value.rule == "engine.shards"


@given(st.permutations(range(4)), rows, st.integers(2, 5), dtypes, seeds)
def test_another_order_is_named(order: list[int], r: int, w: int, dtype: torch.dtype, seed: int) -> None:
    full = state(r, 4 * w, dtype, seed)
    chunks = full.chunk(4, dim=1)
    held = [chunks[i] for i in order]
    if order == sorted(order):
        assert torch.equal(join(held, width=4 * w, full_NG=full).state_NG, full)
        return
    with pytest.raises(InputRejected) as raised:
        join(held, width=4 * w, full_NG=full)
    assert f"in the order {[order.index(i) for i in range(4)]} they are" in raised.value.message


@given(ranks, rows, columns, dtypes, seeds)
def test_what_explains_nothing_is_refused(n: int, r: int, w: int, dtype: torch.dtype, seed: int) -> None:
    full = state(r, n * w, dtype, seed)
    other = full + 1
    for parts in (list(other.chunk(n, dim=1)), [other.clone() for _ in range(n)]):
        with pytest.raises(InputRejected):
            join(parts, width=n * w, full_NG=full)


@settings(max_examples=30)
@given(ranks, rows, columns, seeds)
def test_nan_is_never_equal(n: int, r: int, w: int, seed: int) -> None:
    full = state(r, n * w, torch.float32, seed)
    full[0, 0] = float("nan")
    with pytest.raises(InputRejected):
        join(list(full.chunk(n, dim=1)), width=n * w, full_NG=full)


def test_zeros_are_what_they_are() -> None:
    zeros = torch.zeros(3, 4)
    assert torch.equal(join([zeros, zeros], width=4, full_NG=zeros).state_NG, zeros)


@pytest.mark.parametrize(
    ("parts", "full"),
    [
        ([], None),
        ([torch.ones(2, 3), torch.ones(2, 3)], None),  # 6 columns of 8
        ([torch.ones(2, 3), torch.ones(2, 5)], None),  # unequal shards
        ([torch.ones(2, 8), torch.ones(2, 4)], None),
        ([torch.ones(2, 4), torch.ones(3, 4)], None),
        ([torch.ones(2, 4), torch.ones(2, 4, dtype=torch.bfloat16)], None),
        ([torch.ones(8), torch.ones(8)], None),
        ([torch.ones(2, 8), torch.ones(2, 8)], torch.ones(3, 8)),
    ],
)
def test_shapes_that_do_not_fit(parts: list[Tensor], full: Tensor | None) -> None:
    with pytest.raises(InputRejected) as raised:
        join(parts, width=8, full_NG=full)
    assert raised.value.rule == "engine.shards"


PROMPT = [11, 12, 13]


def recorded(folder: Path, held: str, *, fed: bool = True, ids: list[int] | None = None) -> Path:
    """A request of two ranks, whose slots each hold as ``held`` says; boundaries are replicas."""
    recording = Recording(folder / "spool", start={"tp": 2})
    recording.prompt("r0", PROMPT)
    whole = {f"slot.{i}": states(b, range(3), PROMPT) for i, b in enumerate(RECIPE)}
    swept = {f"boundary.{b}": states(b, range(3), PROMPT) for b in range(LAYERS + 1)}
    for rank in range(2):
        mine = {
            "replica": lambda x, _: x,
            "columns": lambda x, rank: x.chunk(2, dim=1)[rank],
            "partial sum": lambda x, rank: x * 0.25 if rank == 0 else x - x * 0.25,
        }[held]
        slots = {name: mine(x, rank) for name, x in whole.items()}
        tokens = {"input_ids": ints(ids if ids is not None and rank else PROMPT), "position_ids": ints(range(3))}
        recording.spool.event("target", tokens | slots | swept, request="r0", phase="prefill", rank=rank)
    recording.drafter("r0", "prefill", 0, [12, 13, 21], range(3), torch.cat(list(whole.values()), 1) if fed else None)
    recording.output("r0", [21])
    recording.end()
    return recording.folder


def bundle_of(folder: Path, width: int | None = WIDTH) -> Bundle:
    target = ModelInfo(id=None, model_type=None, files={})
    return open_bundle(assemble([open_spool(folder)], folder.parent / "bundle", recipe=RECIPE, target=target, drafter=None, width=width))


@pytest.mark.parametrize("held", list(Held))
def test_ranks_in_a_spool(tmp_path: Path, held: Held) -> None:
    (request,) = bundle_of(recorded(tmp_path, held.value)).requests
    for i, boundary in enumerate(RECIPE):
        got = load_tensor(request.tensors[f"slot.{i}"])
        assert torch.allclose(got, states(boundary, range(3), PROMPT), rtol=1e-6, atol=0)
    assert len(request.info.forwards) == 1


@pytest.mark.parametrize(
    ("held", "more", "width", "rule"),
    [
        ("partial sum", {"fed": False}, WIDTH, "engine.shards"),
        ("replica", {}, None, "engine.shards"),
        ("replica", {"ids": [11, 12, 14]}, WIDTH, "engine.spool-order"),
    ],
)
def test_ranks_that_are_refused(tmp_path: Path, held: str, more: dict[str, object], width: int | None, rule: str) -> None:
    with pytest.raises(InputRejected) as raised:
        bundle_of(recorded(tmp_path, held, **more), width)  # type: ignore[arg-type]  # keywords by name
    assert raised.value.rule == rule


def test_only_the_first_rank_wrote(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "replica")
    second = sorted(folder.iterdir())[3]
    second.unlink()
    (request,) = bundle_of(folder).requests  # only rank 0 wrote: its rows are whole
    assert request.tokens == 3
