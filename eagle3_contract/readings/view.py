"""What a reading looks at: the drafter's config and headers, and the target's config. Nothing here opens a file (``load`` does)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle3_contract.readings.conditions import MISSING, UNKNOWN

TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
"""Where multimodal targets keep the sizes of their language model."""
ARCHITECTURES: Mapping[str, str] = {
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "llama": "LlamaForCausalLM",
    "llama4": "Llama4ForConditionalGeneration",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
}
"""The class that published targets of a model_type name; only where a config names none (a contract states the model_type)."""
CONTEXT_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
"""SGLang 0.5.23 utils/hf_transformers/common.py:668-674, in this order."""


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """A tensor as its header describes it. ``dtype`` as the file writes it (``F32``, ``BF16``, ``torch.float32``)."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterView:
    """A drafter's folder as engines see it.

    Attributes:
        config: config.json, parsed.
        files: weight file -> tensor name -> header. Safetensors files hide ``.bin`` ones.
        index: tensor name -> file, if there is an index.
        missing_files: files that the index names and that are not there.
        name: of the folder (vLLM guesses the method from it).
        hf_quant: hf_quant_config.json beside the config (ModelOpt), or None if there is none.
        d2t_span: the lowest and highest target id of the map (i + d2t[i]); None if the values were not read.
    """

    config: Mapping[str, Any]
    files: Mapping[str, Mapping[str, TensorHeader]]
    index: Mapping[str, str] | None = None
    missing_files: tuple[str, ...] = ()
    name: str = "drafter"
    d2t_span: tuple[int, int] | None = None
    hf_quant: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], headers: Mapping[str, tuple[str, Sequence[int]]], **more: Any) -> DrafterView:
        """A drafter with one safetensors file: tensor name -> (dtype, shape)."""
        tensors = {name: TensorHeader(dtype, tuple(shape)) for name, (dtype, shape) in headers.items()}
        return cls(config=config, files={"model.safetensors": tensors}, **more)

    def weight_files(self) -> list[str]:
        """The files an engine loads, in its order: safetensors before pickles, what the index names, sorted."""
        names = [f for f in self.files if f.endswith(".safetensors")] or list(self.files)
        if self.index is not None:
            names = [f for f in names if f in set(self.index.values())]
        return sorted(names)


@dataclass(frozen=True, slots=True)
class Target:
    """The target's config.json; sizes are looked for at the top, then in the config of its language model."""

    config: Mapping[str, Any] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """A value of the config, ``architecture`` (the first one) or ``context_length``; MISSING if absent."""
        if path == "architecture":
            names = self.config.get("architectures")
            named = names[0] if isinstance(names, Sequence) and not isinstance(names, str) and names else None
            return named or ARCHITECTURES.get(str(self.config.get("model_type")), MISSING)
        if path == "context_length":
            return next((v for k in CONTEXT_KEYS if isinstance(v := self.get(k), int)), UNKNOWN)
        for holder in (self.config, *(self.config.get(k) for k in TEXT_CONFIGS)):
            if isinstance(holder, Mapping) and path in holder:
                return holder[path]
        return MISSING


def dtype_name(text: str) -> str:
    """``F32``, ``torch.float32`` and ``float32`` -> ``float32``."""
    short = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16"}
    return short.get(text, text.removeprefix("torch.").lower())
