"""The profiles: one table of rules with their sources per engine. ``plain`` and ``common`` hold the rows that several share."""

from __future__ import annotations

from eagle3_contract.readings.profiles.atom import ATOM
from eagle3_contract.readings.profiles.eagle import EAGLE
from eagle3_contract.readings.profiles.llama_cpp import LLAMA_CPP
from eagle3_contract.readings.profiles.lmdeploy import LMDEPLOY
from eagle3_contract.readings.profiles.mlx_vlm import MLX_VLM
from eagle3_contract.readings.profiles.sglang import SGLANG
from eagle3_contract.readings.profiles.tensorrt_llm import TENSORRT_LLM
from eagle3_contract.readings.profiles.tokenspeed import TOKENSPEED
from eagle3_contract.readings.profiles.transformers import TRANSFORMERS
from eagle3_contract.readings.profiles.vllm import VLLM
from eagle3_contract.readings.rules import Profile

PROFILES: dict[str, Profile] = {
    p.engine: p for p in (SGLANG, VLLM, TENSORRT_LLM, LLAMA_CPP, LMDEPLOY, TOKENSPEED, ATOM, MLX_VLM, TRANSFORMERS, EAGLE)
}
"""Every profile by the name of its engine."""
