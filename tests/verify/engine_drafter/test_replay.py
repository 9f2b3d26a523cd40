"""The masked forward is the teacher-forced one where a row sees what it sees there: any number of layers, windows, latent attention."""

from __future__ import annotations

import pytest
import torch
from factory import MLA, pair, tiny
from hypothesis import given
from hypothesis import strategies as st

from eagle3_contract.drafter.attention import KeyValue
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.taps import Recorder
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.model.wiring import Attention, Owner, Rope, Wiring
from eagle3_contract.verify.engine_drafter.replay import Inputs, masked, replay

WIRINGS = {
    "one layer": tiny(embedding=Owner.OWN),
    "three layers": tiny(embedding=Owner.OWN, layers=3),
    "latent": tiny(embedding=Owner.OWN, attention=Attention.MLA, mla=MLA, rope=Rope(table_length=256, rotary_dim=4)),
    "window": tiny(embedding=Owner.OWN, window=5),
}


def drafter(wiring: Wiring) -> Drafter:
    made = pair(wiring, dtype="float32")
    return Drafter(wiring, MemorySource({n: torch.from_numpy(t.values) for n, t in made.tensors.items()}))


@pytest.mark.parametrize("name", WIRINGS)
def test_a_causal_mask_gives_the_first_step(name: str) -> None:
    wiring = WIRINGS[name]
    d, tokens = drafter(wiring), 14
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, wiring.target_vocab_size, (tokens,), generator=generator)
    states = torch.randn(tokens, d.states_width, generator=generator)
    taps = Recorder()
    teacher_forced(d, ids, states, steps=1, taps=taps)
    rows = tokens - 1
    inputs = Inputs(ids[1:], torch.arange(rows), d.fuse(states[:rows]))
    seen = torch.ones(rows, rows, dtype=torch.bool).tril()
    if wiring.window is not None:
        seen &= ~torch.ones(rows, rows, dtype=torch.bool).tril(-wiring.window)
    out = replay(d, inputs, seen)
    torch.testing.assert_close(out.final_NH, taps.values[0, "final_normed"], atol=1e-5, rtol=1e-4)


def test_blocks_of_queries_change_nothing() -> None:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(9, n, 8, generator=generator) for n in (4, 2, 2))
    seen = torch.rand(9, 9, generator=generator) > 0.4
    seen.fill_diagonal_(True)
    whole = masked(q, KeyValue(k, v), 0.3, seen)
    torch.testing.assert_close(masked(q, KeyValue(k, v), 0.3, seen, budget=1), whole)


def test_a_row_that_is_not_finite_spoils_only_those_that_see_it() -> None:
    q, k, v = torch.ones(4, 2, 8), torch.ones(4, 1, 8), torch.ones(4, 1, 8)
    v[1, 0, 0] = float("nan")
    seen = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    out = masked(q, KeyValue(k, v), 1.0, seen)
    assert out.isfinite().flatten(1).all(1).tolist() == [True, False, False, True]


@given(st.integers(0, 4), st.integers(1, 5))
def test_slots_of_zeros_are_rows_of_zeros(blank: int, rows: int) -> None:
    """``blank_N`` gives what as many keys and values of zeros give that everybody sees."""
    make = torch.Generator().manual_seed(rows)
    q, k, v = (torch.randn(rows, heads, 8, generator=make) for heads in (4, 2, 2))
    seen = torch.ones(rows, rows, dtype=torch.bool).tril()
    zeros = torch.zeros(blank, 2, 8)
    with_rows = torch.cat([seen, torch.ones(rows, blank, dtype=torch.bool)], 1)
    want = masked(q, KeyValue(torch.cat([k, zeros]), torch.cat([v, zeros])), 0.3, with_rows)
    torch.testing.assert_close(masked(q, KeyValue(k, v), 0.3, seen, torch.full((rows,), blank)), want)
