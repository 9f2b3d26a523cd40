"""Arguments of an engine's own Python entry point for a capture: defaults, and the command line with which it is served laid over them.

``vllm.LLM`` (0.32.0, entrypoints/llm.py) and ``sglang.Engine`` (0.5.23, srt/entrypoints/engine.py) take what their servers take, by the
same names with underscores, but for what only a server has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.errors import UsageError
from contract.files.names import shown
from eagle3_contract.engines.rules import RULES
from eagle3_contract.readings.serve_args import ENVIRONMENT

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,80}")
VARIABLE: Final = re.compile(r"(VLLM|SGLANG|SGL|TORCH|TORCHDYNAMO|HF|OMP|CUDA|NCCL|PYTORCH|TRITON|TOKENIZERS)_[A-Z0-9_]{1,80}")
"""Environment variables of a serving command that are passed on: those that say how an engine computes."""
SERVER_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "vllm": frozenset(
        {"host", "port", "uds", "api_key", "root_path", "uvicorn_log_level", "chat_template", "response_role", "served_model_name"}
        | {"enable_auto_tool_choice", "tool_call_parser", "disable_log_requests", "enable_log_requests", "allowed_origins"}
        | {"allow_credentials", "allowed_methods", "allowed_headers", "ssl_keyfile", "ssl_certfile", "api_server_count", "reasoning_parser"}
    ),
    "sglang": frozenset(
        {"host", "port", "api_key", "served_model_name", "chat_template", "tool_call_parser", "reasoning_parser", "enable_metrics"}
    ),
}
"""Flags that only a server has; a capture has none."""
OURS: Final[Mapping[str, frozenset[str]]] = {
    "vllm": frozenset({"model", "tokenizer", "worker_extension_cls", "skip_tokenizer_init"}),
    "sglang": frozenset({"model", "model_path", "tokenizer_path", "speculative_draft_model_path", "skip_tokenizer_init"}),
}
"""Flags that the capture itself decides: which models, and that prompts are token ids."""
REFUSED: Final = "trust_remote_code"
SLACK: Final = 32
"""Tokens of room behind the last one: close to the maximal length vLLM stops drafting (0.32.0, v1/spec_decode/llm_base_proposer.py)."""
AT_ONCE: Final = 64
"""Requests that run at once where all are submitted at once."""
STEP_TOKENS: Final = 16_384
"""Tokens of one engine step, unless one prompt is longer."""
CHUNK: Final = 32
"""Tokens of a chunk where a prefill is to be cut up; shorter prompts get smaller ones."""
CHUNK_LEAST: Final = 8
BLOCK: Final = 32
"""Tokens of a block of vLLM's prefix cache where it is on: one that its CPU backend has, and short prompts fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be run, as far as an engine's sizes depend on it.

    Attributes:
        prompts: how many.
        longest, total: tokens of the longest prompt, and of all of them.
        new_tokens: generated for each.
        positions: the target's max_position_embeddings, if known.
        drafts: drafts per round of a chain.
        topk, nodes: branches per step and tokens verified per round, of a tree; 1 and drafts + 1 for a chain.
        dtype: that the target computes in.
        cuda: whether it runs on a GPU.
    """

    prompts: int
    longest: int
    total: int
    new_tokens: int
    positions: int | None
    drafts: int
    topk: int
    nodes: int
    dtype: str
    cuda: bool

    @property
    def length(self) -> int:
        """Maximal length of a sequence: what is needed, with room behind it as far as the target has positions."""
        needed = self.longest + self.new_tokens
        roomy = needed + SLACK + max(self.drafts, self.nodes)
        return roomy if self.positions is None else max(needed, min(roomy, self.positions))

    @property
    def step_tokens(self) -> int:
        """Tokens of one engine step, so that no prefill is cut up."""
        return max(self.longest, min(self.total, STEP_TOKENS), self.length) + AT_ONCE * (self.nodes + 1)

    @property
    def chunk(self) -> int:
        """Tokens of a chunk, so that the longest prompt has three at least."""
        return max(CHUNK_LEAST, min(CHUNK, self.longest // 3))


def engine_flags(engine: str, work: Work, run: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the engine for runs of a kind (``""``, ``cached``, ``chunked``), as JSON.

    Args:
        engine: ``vllm`` or ``sglang``.
        work: what is to be run.
        run: which circumstances.
        given: the serving command line, as ``parse_serve_args`` gives it.

    Raises:
        UsageError: ``engine.options``: a flag is not well-formed, or must not be passed on.
    """
    flags = _vllm(work, run) if engine == "vllm" else _sglang(work, run)
    for name, value in given.items():
        if name == ENVIRONMENT or name in OURS[engine] or name in SERVER_ONLY[engine] or value is None:
            continue
        if not NAME.fullmatch(name):
            raise _refused(f"--{shown(name)} is no flag of {engine}")
        if name == REFUSED:
            if value in (False, "false", "False"):
                continue
            raise _refused(f"--{REFUSED.replace('_', '-')} runs code from the model's folder, which this tool never does")
        if name == "speculative_config":
            if not isinstance(value, Mapping):
                raise _refused("speculative_config is no JSON object")
            value = {**flags[name], **{k: v for k, v in value.items() if k != "model"}}
        if not run or name not in _CIRCUMSTANCES[engine]:
            flags[name] = value
    return flags


def environment_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables of the serving command line.

    Raises:
        UsageError: ``engine.options`` for one that does not say how an engine computes.
    """
    found: dict[str, str] = {}
    for name, value in given.get(ENVIRONMENT, {}).items():
        if not VARIABLE.fullmatch(name) or "\0" in str(value):
            raise _refused(f"the environment variable {shown(name)} of the serving command is not passed on")
        found[name] = str(value)
    return found


_CIRCUMSTANCES: Final[Mapping[str, frozenset[str]]] = {
    "vllm": frozenset(
        {
            "enable_prefix_caching",
            "no_enable_prefix_caching",
            "block_size",
            "enable_chunked_prefill",
            "max_num_batched_tokens",
            "max_num_seqs",
        }
    ),
    "sglang": frozenset({"disable_radix_cache", "chunked_prefill_size", "max_running_requests", "page_size"}),
}
"""Flags that a run other than the plain one is about; a serving command line does not undo them."""


def _vllm(work: Work, run: str) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "dtype": work.dtype,
        "max_model_len": work.length,
        "max_num_seqs": min(AT_ONCE, max(4, work.prompts)),
        "max_num_batched_tokens": work.step_tokens,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "disable_log_stats": False,
        "skip_tokenizer_init": True,
        "speculative_config": {"method": "eagle3", "num_speculative_tokens": work.drafts},
    }
    if run == "cached":
        flags |= {"enable_prefix_caching": True} | ({} if work.cuda else {"block_size": BLOCK})
    if run == "chunked":
        flags |= {"enable_chunked_prefill": True, "max_num_seqs": 2, "max_num_batched_tokens": work.chunk}
    return flags


def _sglang(work: Work, run: str) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "dtype": work.dtype,
        "context_length": work.length,
        "max_running_requests": min(AT_ONCE, max(4, work.prompts)),
        "disable_radix_cache": True,
        "chunked_prefill_size": -1,
        "disable_cuda_graph": True,
        "skip_tokenizer_init": True,
        "skip_server_warmup": True,
        "random_seed": 0,
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": work.drafts,
        "speculative_eagle_topk": work.topk,
        "speculative_num_draft_tokens": work.nodes,
    }
    if not work.cuda:
        # Only these two flags reach a backend that drafts on a CPU; memory is taken at the start, whatever is needed.
        flags |= {"device": "cpu", "prefill_attention_backend": "intel_amx", "decode_attention_backend": "intel_amx"}
        flags |= {"mem_fraction_static": 0.1, "max_total_tokens": max(2048, 2 * (work.total + work.prompts * (work.new_tokens + SLACK)))}
    if run == "cached":
        flags["disable_radix_cache"] = False
    if run == "chunked":
        flags |= {"chunked_prefill_size": work.chunk, "max_running_requests": 1}
    return flags


def _refused(message: str) -> UsageError:
    return UsageError(message, rule="engine.options", fix=RULES["engine.options"].remedy)
