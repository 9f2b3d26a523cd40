"""vLLM: which target classes capture, and which boundaries they can give. Ids are boundaries on every class (model_executor/models/
interfaces.py:1569-1611: id k is the residual stream before layer k; since 0.18.0 also 0 and N on classes with EagleModelMixin)."""

from __future__ import annotations

from eagle3_contract.readings.rules import Family

MIXIN = "models/interfaces.py:1569-1611, 1733"
NO_RESIDUAL = "TypeError: unsupported operand type(s) for +: 'Tensor' and 'NoneType' (id 0: no residual yet)"
DEEPSEEK = ("DeepseekForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "KimiK2ForCausalLM", "KimiK25ForConditionalGeneration", "MistralLarge3ForCausalLM")
LLAMA = ("LlamaForCausalLM",)
QWEN = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")
OTHERS = tuple(
    "AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM Cohere2MoeForCausalLM Emu3ForConditionalGeneration Gemma4ForCausalLM"
    " Gemma4ForConditionalGeneration GptOssForCausalLM GraniteForCausalLM IQuestCoderForCausalLM InternLM3ForCausalLM"
    " InternS1ProForConditionalGeneration LagunaForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration LlavaForConditionalGeneration"
    " MiMoForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM MiniMaxM2ForCausalLM Ministral3ForCausalLM"
    " Mistral3ForConditionalGeneration MistralForCausalLM NemotronHForCausalLM Phi3ForCausalLM PixtralForConditionalGeneration Plamo3ForCausalLM"
    " Qwen2_5_VLForConditionalGeneration Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3OmniMoeForConditionalGeneration"
    " Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration"
    " Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration SarvamMLAForCausalLM SeedOssForCausalLM Step1ForCausalLM TeleChat2ForCausalLM"
    " TransformersForCausalLM TransformersMoEForCausalLM".split()
)
"""Classes of 0.32.0 whose model has EagleModelMixin and whose class has SupportsEagle3 (models/registry.py); when each came is in no source here."""

FAMILIES: tuple[Family, ...] = (
    Family(name="Llama", source="models/llama.py (0.9.0 to 0.17)", until="0.18.0", targets=LLAMA, embedding_error=NO_RESIDUAL),
    Family(name="Qwen", source="models/qwen3.py (0.10.1 to 0.17)", since="0.10.1", until="0.18.0", targets=QWEN, embedding_error=NO_RESIDUAL),
    Family(name="Llama and Qwen", source=f"{MIXIN}; models/llama.py:428-441", since="0.18.0", highest="N", targets=(*LLAMA, *QWEN)),
    Family(name="DeepSeek", source="models/deepseek_v2.py (0.18 to 0.24)", since="0.18.0", until="0.25.0", targets=DEEPSEEK, embedding_error=NO_RESIDUAL),
    Family(name="DeepSeek", source="models/deepseek_v2.py:1560-1587", since="0.25.0", highest="N", targets=DEEPSEEK, embedding_error=NO_RESIDUAL),
    Family(name="classes with EagleModelMixin", source=MIXIN, since="0.32.0", highest="N", targets=OTHERS),
)
