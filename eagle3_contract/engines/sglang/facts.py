"""What a running SGLang says about itself: the head of a record, and what the start-up gate compares."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any, Final

from torch import Tensor, nn

from eagle3_contract.engines.sglang.hook_points import PARALLEL, installed_version
from eagle3_contract.engines.sglang.target_hooks import capturing_model
from eagle3_contract.engines.unfused import unfused

ENGINE: Final = "sglang"
FLAGS: Final = (
    *("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
    *("speculative_draft_window_size", "speculative_use_rejection_sampling", "speculative_accept_threshold_single"),
    *("dtype", "kv_cache_dtype", "quantization", "page_size", "chunked_prefill_size", "max_running_requests", "enable_mixed_chunk"),
    *("disable_radix_cache", "disable_overlap_schedule", "disable_cuda_graph", "attention_backend", "prefill_attention_backend"),
    *("decode_attention_backend", "tp_size", "pp_size", "dp_size", "json_model_override_args", "context_length", "device"),
)
"""Arguments of the server that decide what the drafter is fed; those that are set are recorded, as text."""


def start_facts(worker: Any, mode: str) -> dict[str, Any]:
    """The event ``start`` of a spool.

    Args:
        worker: SGLang's EAGLEWorkerV2, loaded.
        mode: ``eager`` or ``graph``.
    """
    runner = worker.target_worker.model_runner
    target, drafter = runner.model, worker.draft_worker.draft_runner.model
    args = worker.server_args
    return {
        "engine": ENGINE,
        "version": installed_version(),
        "runner": None,
        "mode": mode,
        "tp": int(args.tp_size),
        "pp": int(args.pp_size),
        "device": str(args.device),
        "dtype": str(runner.dtype).removeprefix("torch."),
        "layer_ids": layer_ids(target),
        "layers": int(runner.model_config.num_hidden_layers),
        "target_class": type(target).__name__,
        "drafter_class": type(drafter).__name__,
        "flags": {name: str(value) for name, value in flags_set(args).items()},
    }


def flags_set(args: Any) -> dict[str, Any]:
    """Those of ``FLAGS`` that the server's arguments have, by their names."""
    given = {name: getattr(args, name, None) for name in FLAGS}
    return {name: value for name, value in given.items() if value is not None}


def tensor_rank() -> int:
    """The place of this process in its tensor parallel group."""
    return int(pkgutil.resolve_name(PARALLEL)().tp_rank)


def layer_ids(target: nn.Module) -> list[int] | None:
    """``layers_to_capture`` as it is set on the live target, None where it captures nothing. Entry k is the input of layer k."""
    capturing: Any = capturing_model(target)
    return [int(n) for n in capturing.layers_to_capture] or None


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter of a live model by the name that checkpoints use: q/k/v, gate/up and MLA's two down projections taken apart."""
    return unfused(model, _pieces)


def _pieces(module: Any, parent: Any, name: str) -> Sequence[tuple[str, int]]:
    """What a fused module holds, and how many rows of each: SGLang 0.5.23, layers/linear.py and models/deepseek_v2.py."""
    if name == "qkv_proj":
        kv = module.total_num_kv_heads * module.head_size
        return [("q_proj", module.total_num_heads * module.head_size), ("k_proj", kv), ("v_proj", kv)]
    if name == "gate_up_proj":
        return list(zip(("gate_proj", "up_proj"), module.output_sizes, strict=True))
    if name in ("fused_qkv_a_proj_with_mqa", "fused_qkv_a_proj"):
        rows = (parent.q_lora_rank, parent.kv_lora_rank + parent.qk_rope_head_dim)
        return list(zip(("q_a_proj", "kv_a_proj_with_mqa"), rows, strict=True))
    return ()


def sharing(worker: Any) -> dict[str, str]:
    """Whose ``embedding`` and ``lm_head`` the drafter uses: ``own``, ``target`` or ``tied_to_own``/``tied_to_target``."""
    target, drafter = worker.target_worker.model_runner.model, worker.draft_runner.model
    owner = getattr(target, "language_model", target)
    embedding = drafter.model.embed_tokens
    shared = "target" if embedding.weight.data_ptr() == owner.model.embed_tokens.weight.data_ptr() else "own"
    if drafter.lm_head is embedding:
        head = f"tied_to_{shared}"
    else:
        head = "target" if drafter.lm_head.weight.data_ptr() == owner.lm_head.weight.data_ptr() else "own"
    return {"embedding": shared, "lm_head": head}
