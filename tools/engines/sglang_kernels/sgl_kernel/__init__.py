"""A stand-in in plain torch for the compiled ``sgl_kernel`` of SGLang 0.5.23, of which no CPU build is published.

Only the operators that the EAGLE-3 path reaches on a CPU without AMX, each by the contract of its call site
(``kernels/ops/speculative/*.py``, ``kernels/ops/kvcache/cache_move.py``, ``mem_cache/allocation.py``,
``layers/attention/intel_amx_backend.py``). SGLang itself is unchanged: what it reads, loads, captures and feeds is its own.
Names and argument order are SGLang's.

Shapes: B requests, Q draft tokens, N rows, S slots, H heads, K key/value heads, D head width.
"""

import ctypes

import torch

__version__ = "0.0.0"
_NAMESPACE = torch.library.Library("sgl_kernel", "FRAGMENT")
NONE = -1
FULL_MASK, QUERY_ONLY = 0, 1


def assign_req_to_token_pool_cpu(request_B, table, start_B, end_B, slots_N, _width):
    """Write each request's new slots into its row of the table."""
    at = 0
    for request, start, end in zip(request_B.tolist(), start_B.tolist(), end_B.tolist(), strict=True):
        table[request, start:end] = slots_N[at : at + end - start].to(table.dtype)
        at += end - start


def assign_extend_cache_locs_cpu(request_B, table, start_B, end_B, out_N, _width):
    """Read slots ``start..end`` of each request, one request after the other."""
    at = 0
    for request, start, end in zip(request_B.tolist(), start_B.tolist(), end_B.tolist(), strict=True):
        out_N[at : at + end - start] = table[request, start:end].to(out_N.dtype)
        at += end - start


def assign_draft_cache_locs_contiguous_cpu(request_B, table, length_B, out_N, _width, topk, steps):
    """The ``topk * steps`` slots behind each request's committed ones."""
    each = topk * steps
    for row, (request, length) in enumerate(zip(request_B.tolist(), length_B.tolist(), strict=True)):
        out_N[row * each : (row + 1) * each] = table[request, length : length + each].to(out_N.dtype)


def build_draft_decode_metadata_cpu(table, request_B, length_B, topk, steps, width):
    """A slot table of one row per branch: the committed slots, then those of the branch alone."""
    out = torch.zeros((len(request_B) * topk, width), dtype=table.dtype)
    for row, (request, length) in enumerate(zip(request_B.tolist(), length_B.tolist(), strict=True)):
        for branch in range(topk):
            own = length + branch * steps
            line = torch.cat([table[request, :length], table[request, own : own + steps]])
            out[row * topk + branch, : len(line)] = line
    return out


def fill_bonus_tokens_cpu(accepted, count_B, bonus_B, stride):
    """The last accepted token of each request."""
    rows = torch.arange(len(count_B)) * stride + count_B.long() - 1
    bonus_B.copy_(accepted.reshape(-1)[rows].to(bonus_B.dtype))


def fill_accept_out_cache_loc_cpu(index, slots_N, out):
    """Slots of the accepted rows, packed to the front."""
    kept = index.reshape(-1)
    kept = kept[kept > NONE].long()
    out[: len(kept)] = slots_N[kept].to(out.dtype)


def _parents(selected, parents, topk):
    """The parent of each drafted token, as its place among them (0 is the committed root)."""
    found = [NONE]
    for chosen in selected:
        group = chosen // topk
        found.append(0 if group == 0 else selected.index(parents[group]) + 1)
    return found


def build_tree_kernel_efficient_cpu(
    parent_list, selected_index, length_B, mask, positions, index_BQ, child_BQ, sibling_BQ, topk, _depth, tokens, mode
):
    """The tree of drafted tokens as first child and next sibling, with positions and what each token may see."""
    if mode not in (FULL_MASK, QUERY_ONLY):
        raise ValueError(f"tree mask mode {mode}")
    at = 0
    for row, length in enumerate(length_B.tolist()):
        parent = _parents(selected_index[row].tolist()[: tokens - 1], parent_list[row].tolist(), topk)
        index_BQ[row] = torch.arange(row * tokens, (row + 1) * tokens)
        for token in reversed(range(1, tokens)):  # so that the first child is the earliest
            first = int(child_BQ[row, parent[token]])
            child_BQ[row, parent[token]] = token
            if first != NONE:
                sibling_BQ[row, token] = first
        sees = torch.zeros(tokens, tokens, dtype=torch.bool)
        for token in range(tokens):
            line = token
            while line != NONE:
                sees[token, line] = True
                line = parent[line]
            positions[row * tokens + token] = length + int(sees[token].sum()) - 1
        if mode == QUERY_ONLY:
            mask[row * tokens**2 : (row + 1) * tokens**2] = sees.reshape(-1)
        else:
            size = tokens * (length + tokens)
            mask[at : at + size].view(tokens, length + tokens)[:, length:] = sees
            at += size


def verify_tree_greedy_cpu(
    predicts, accept_index, accept_token_num, candidates, retrive_index, retrive_next_token, retrive_next_sibling, target_predict
):
    """Walk each tree from its root as long as a child is what the target says."""
    says = target_predict.reshape(-1)
    for row in range(candidates.shape[0]):
        at, last, accepted = 0, int(retrive_index[row, 0]), 0
        accept_index[row, 0] = last
        while accepted + 1 < accept_index.shape[1]:
            at = int(retrive_next_token[row, at])
            while at != NONE and int(candidates[row, at]) != int(says[last]):
                at = int(retrive_next_sibling[row, at])
            if at == NONE:
                break
            predicts[last] = says[last]
            accepted += 1
            last = int(retrive_index[row, at])
            accept_index[row, accepted] = last
        predicts[last] = says[last]
        accept_token_num[row] = accepted


def rotate_input_ids_cpu(input_ids, start_B, count_B, last_B, select_index=None):
    """Shift each request's ids left by one and put the sampled token at the end (or where ``select_index`` says)."""
    for row, (start, count) in enumerate(zip(start_B.tolist(), count_B.tolist(), strict=True)):
        input_ids[start : start + count - 1] = input_ids[start + 1 : start + count].clone()
        input_ids[start + count - 1 if select_index is None else int(select_index[row])] = last_B.reshape(-1)[row]


def copy_all_layer_kv_cache_cpu(pointers, strides, to, source):
    """Copy slots of every layer's cache (raw memory; ``strides`` are bytes per slot); all are read before one is written."""
    for pointer, stride in zip(pointers.tolist(), strides.tolist(), strict=True):
        held = [ctypes.string_at(pointer + slot * stride, stride) for slot in source.tolist()]
        for slot, content in zip(to.tolist(), held, strict=True):
            ctypes.memmove(pointer + slot * stride, content, stride)


def _attend(q_NHD, k_SKD, v_SKD, sees_NS, scale, cap, sinks_H):
    group = q_NHD.shape[1] // k_SKD.shape[1]
    k, v = (t.float().repeat_interleave(group, dim=1) for t in (k_SKD, v_SKD))
    scores = torch.einsum("nhd,shd->hns", q_NHD.float(), k) * scale
    if cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~sees_NS, float("-inf"))
    if sinks_H is not None:
        scores = torch.cat([scores, sinks_H.float()[:, None, None].expand(-1, scores.shape[1], 1)], dim=-1)
    return torch.einsum("hns,shd->nhd", torch.softmax(scores, dim=-1)[..., : k.shape[0]], v)


def decode_attention_cpu(
    query,
    k_cache,
    v_cache,
    _k_scale,
    _v_scale,
    out,
    key,
    value,
    loc,
    _logits,
    table,
    request_B,
    length_B,
    scale,
    cap,
    is_cross,
    window,
    _lens,
    sinks,
):
    """One row per request; its key and value are written first. A window of w sees w tokens; 0 or less means all."""
    if is_cross:
        raise ValueError("no cross attention here")
    if key is not None:
        k_cache[loc] = key.view(-1, *k_cache.shape[1:]).to(k_cache.dtype)
        v_cache[loc] = value.view(-1, *v_cache.shape[1:]).to(v_cache.dtype)
    for row, length in enumerate(length_B.tolist()):
        slots = table[int(request_B[row]), :length].long()
        if window > 0:
            slots = slots[-window:]
        sees = torch.ones(1, len(slots), dtype=torch.bool)
        values = v_cache[slots][..., : out.shape[-1]]
        out[row : row + 1] = _attend(query[row : row + 1], k_cache[slots], values, sees, scale, cap, sinks).to(out.dtype)


def extend_attention_cpu(
    query, key, value, out, k_cache, v_cache, _k_scale, _v_scale, table, request_B, length_B, count_B, start_B, _longest,
    scale, cap, is_cross, window, _lens, sinks, tree_mask, is_causal,
):  # fmt: skip
    """The new rows of each request over its committed slots and themselves, causal or by the tree's mask."""
    if is_cross:
        raise ValueError("no cross attention here")
    for row, (length, count, start) in enumerate(zip(length_B.tolist(), count_B.tolist(), start_B.tolist(), strict=True)):
        before, rows = length - count, slice(start, start + count)
        slots = table[int(request_B[row]), :length].long()
        k, v = k_cache[slots], v_cache[slots][..., : out.shape[-1]]
        if key is not None:  # the new rows as they were passed: the cache may hold them in another dtype
            new_k, new_v = key[rows].reshape(count, -1, query.shape[-1]), value[rows].reshape(count, -1, out.shape[-1])
            # Latent attention passes full heads on a fresh prompt, while its cache holds the one latent head.
            k, v = (torch.cat([k[:before], new_k]), torch.cat([v[:before], new_v])) if before else (new_k, new_v)
        sees = torch.ones(count, length, dtype=torch.bool)
        if tree_mask is not None:
            sees[:, before:] = tree_mask[row * count**2 : (row + 1) * count**2].view(count, count)
        elif is_causal:
            sees = sees.tril(diagonal=before)
        if window > 0:
            sees &= ~torch.ones_like(sees).tril(diagonal=before - window)
        out[rows] = _attend(query[rows], k, v, sees, scale, cap, sinks).to(out.dtype)


def store_cache_cpu(k, v, k_cache, v_cache, loc, *_):
    """Write rows into the cache."""
    k_cache[loc] = k.view(-1, *k_cache.shape[1:]).to(k_cache.dtype)
    v_cache[loc] = v.view(-1, *v_cache.shape[1:]).to(v_cache.dtype)


# These two are looked up as torch operators; a python callable on the namespace serves.
torch.ops.sgl_kernel.decode_attention_cpu = decode_attention_cpu
torch.ops.sgl_kernel.extend_attention_cpu = extend_attention_cpu
