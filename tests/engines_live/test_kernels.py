"""The plain-torch stand-in for SGLang's compiled kernels keeps the contracts of its call sites."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

FILE = Path(__file__).parents[2] / "tools" / "engines" / "sglang_kernels" / "sgl_kernel" / "__init__.py"
HEADS, KV, D, SLOTS = 4, 2, 8, 32


@pytest.fixture(scope="module")
def kernels() -> Any:
    spec = importlib.util.spec_from_file_location("sgl_kernel_stand_in", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int = 0) -> torch.Tensor:
    """Causal attention of the last len(q) rows over all of k, by torch's own kernel."""
    n, s = len(q), len(k)
    sees = torch.ones(n, s, dtype=torch.bool).tril(s - n)
    if window:
        sees &= torch.ones(n, s, dtype=torch.bool).triu(s - n - window + 1)
    k, v = (t.repeat_interleave(HEADS // KV, 1).transpose(0, 1) for t in (k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=sees)
    return out.transpose(0, 1)


@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("window", [0, 3])
def test_extend_attends_to_the_committed_slots_and_itself(kernels: Any, before: int, window: int) -> None:
    total, new = before + 4, 4
    k, v, q = draw(total, KV, D, seed=1), draw(total, KV, D, seed=2), draw(new, HEADS, D, seed=3)
    table = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(4)).view(1, SLOTS).int()
    k_cache, v_cache = torch.zeros(SLOTS, KV, D), torch.zeros(SLOTS, KV, D)
    kernels.store_cache_cpu(k[:before], v[:before], k_cache, v_cache, table[0, :before].long())
    out = torch.empty(new, HEADS, D)
    zero, lengths, counts = torch.tensor([0]), torch.tensor([total]), torch.tensor([new])
    more = (zero, lengths, counts, zero, new, D**-0.5, 0.0, False, window, None, None, None, True)
    kernels.extend_attention_cpu(q, k[before:], v[before:], out, k_cache, v_cache, 1.0, 1.0, table, *more)
    assert torch.allclose(out, reference(q, k, v, window), atol=1e-5)


def test_decode_writes_its_row_and_attends_to_it(kernels: Any) -> None:
    k, v, q = draw(6, KV, D, seed=1), draw(6, KV, D, seed=2), draw(1, HEADS, D, seed=3)
    table = torch.arange(SLOTS).flip(0).view(1, SLOTS)
    k_cache, v_cache, out = torch.zeros(SLOTS, KV, D), torch.zeros(SLOTS, KV, D), torch.empty(1, HEADS, D)
    kernels.store_cache_cpu(k[:5], v[:5], k_cache, v_cache, table[0, :5])
    more = (None, table, torch.tensor([0]), torch.tensor([6]), D**-0.5, 0.0, False, 0, None, None)
    kernels.decode_attention_cpu(q, k_cache, v_cache, 1.0, 1.0, out, k[5:], v[5:], table[0, 5:6], *more)
    assert torch.equal(k_cache[table[0, 5]], k[5])
    assert torch.allclose(out, reference(q, k, v), atol=1e-5)


def test_a_chain_is_built_and_walked_as_far_as_the_target_agrees(kernels: Any) -> None:
    tokens = 4
    index, child, sibling = (torch.full((1, tokens), -1, dtype=torch.long) for _ in range(3))
    positions, mask = torch.zeros(tokens, dtype=torch.long), torch.zeros(tokens**2, dtype=torch.bool)
    chosen, parents = torch.tensor([[0, 1, 2]]), torch.tensor([[-1, 0, 1]])
    kernels.build_tree_kernel_efficient_cpu(parents, chosen, torch.tensor([9]), mask, positions, index, child, sibling, 1, 3, tokens, 1)
    assert positions.tolist() == [9, 10, 11, 12]
    assert torch.equal(mask.view(tokens, tokens), torch.ones(tokens, tokens, dtype=torch.bool).tril())
    assert child.tolist() == [[1, 2, 3, -1]]
    predicts, accepted, count = torch.zeros(tokens, dtype=torch.long), torch.full((1, tokens), -1), torch.zeros(1, dtype=torch.long)
    drafted, target = torch.tensor([[7, 11, 12, 13]]), torch.tensor([[11, 12, 99, 5]])
    kernels.verify_tree_greedy_cpu(predicts, accepted, count, drafted, index, child, sibling, target)
    assert count.tolist() == [2]
    assert accepted.tolist() == [[0, 1, 2, -1]]
    assert predicts.tolist() == [11, 12, 99, 0]


def test_siblings_are_tried_in_order(kernels: Any) -> None:
    """Two branches from the root, the second goes on: selected places 0 and 1 (topk 2), then the second one's first child."""
    tokens = 4
    index, child, sibling = (torch.full((1, tokens), -1, dtype=torch.long) for _ in range(3))
    positions, mask = torch.zeros(tokens, dtype=torch.long), torch.zeros(tokens**2, dtype=torch.bool)
    chosen, parents = torch.tensor([[0, 1, 4]]), torch.tensor([[-1, 0, 1]])
    kernels.build_tree_kernel_efficient_cpu(parents, chosen, torch.tensor([3]), mask, positions, index, child, sibling, 2, 2, tokens, 1)
    assert positions.tolist() == [3, 4, 4, 5]
    predicts, accepted, count = torch.zeros(tokens, dtype=torch.long), torch.full((1, 3), -1), torch.zeros(1, dtype=torch.long)
    kernels.verify_tree_greedy_cpu(
        predicts, accepted, count, torch.tensor([[7, 8, 9, 10]]), index, child, sibling, torch.tensor([[9, 0, 10, 6]])
    )
    assert accepted.tolist() == [[0, 2, 3]]
    assert count.tolist() == [2]


def test_slots_and_ids_are_moved_as_asked(kernels: Any) -> None:
    table, request = torch.zeros(2, 8, dtype=torch.int32), torch.tensor([1, 0])
    start, end = torch.tensor([2, 0]), torch.tensor([4, 1])
    kernels.assign_req_to_token_pool_cpu(request, table, start, end, torch.tensor([21, 22, 30]), 8)
    assert table[1, 2:4].tolist() == [21, 22]
    assert table[0, 0].item() == 30
    out = torch.zeros(3, dtype=torch.long)
    kernels.assign_extend_cache_locs_cpu(request, table, start, end, out, 8)
    assert out.tolist() == [21, 22, 30]
    ids = torch.tensor([1, 2, 3, 4, 5])
    kernels.rotate_input_ids_cpu(ids, torch.tensor([0, 3]), torch.tensor([3, 2]), torch.tensor([[77], [88]]))
    assert ids.tolist() == [2, 3, 77, 5, 88]
    bonus = torch.zeros(2, dtype=torch.long)
    kernels.fill_bonus_tokens_cpu(torch.tensor([[4, 5, 6], [7, 8, 9]]), torch.tensor([1, 3]), bonus, 3)
    assert bonus.tolist() == [4, 9]
    cache = torch.arange(12.0).view(4, 3)
    kernels.copy_all_layer_kv_cache_cpu(torch.tensor([cache.data_ptr()]), torch.tensor([12]), torch.tensor([0, 1]), torch.tensor([1, 3]))
    assert cache[0].tolist() == [3.0, 4.0, 5.0]
    assert cache[1].tolist() == [9.0, 10.0, 11.0]
