"""vLLM: which target classes capture, since when, and which boundaries they give. Ids are boundaries on every class.

From every wheel 0.9.0 to 0.32.0: the classes with SupportsEagle3 in ``models/registry.py``, by the release they came in. Before 0.18.0
each model captured for itself, before a layer (boundary N never; 0 a TypeError where it added a residual that was not there yet); since
0.18.0 EagleModelMixin does (models/interfaces.py:1569-1611: 0 to N), except DeepSeek's own loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from eagle3_contract.readings.rules import Family

MIXIN_SINCE = "0.18.0"
MIXIN = "models/interfaces.py:1569-1611, 1733"
NO_RESIDUAL = "TypeError: unsupported operand type(s) for +: 'Tensor' and 'NoneType' (boundary 0: no residual yet)"
RESIDUAL_SAFE = ("GptOssForCausalLM", "MiniCPMForCausalLM", "MiniCPM3ForCausalLM", "Qwen3MoeForCausalLM", "AfmoeForCausalLM")
"""Classes that captured boundary 0 before 0.18.0."""
DEEPSEEK = (
    "DeepseekForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
)
SINCE: dict[str, str] = {
    "0.9.0": "LlamaForCausalLM",
    "0.10.1": "Ernie4_5ForCausalLM GlmForCausalLM InternLM3ForCausalLM"
    " LLaMAForCausalLM Llama4ForCausalLM MistralForCausalLM Phi3ForCausalLM"
    " Qwen3ForCausalLM TeleChat2ForCausalLM TeleFLMForCausalLM",
    "0.10.2": "MiMoForCausalLM Qwen2ForCausalLM",
    "0.11.0": "CwmForCausalLM GptOssForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM",
    "0.11.1": "Llama4ForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen3MoeForCausalLM",
    "0.12.0": "OpenCUAForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
    "0.13.0": "Emu3ForConditionalGeneration SmolLM3ForCausalLM"
    " TransformersForCausalLM TransformersMoEForCausalLM TransformersMultiModalForCausalLM"
    " TransformersMultiModalMoEForCausalLM",
    "0.14.0": "IQuestCoderForCausalLM",
    "0.15.0": "LlavaForConditionalGeneration",
    "0.16.0": "AfmoeForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HunYuanVLForConditionalGeneration"
    " InternS1ProForConditionalGeneration LightOnOCRForConditionalGeneration Mistral3ForConditionalGeneration",
    "0.17.0": "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    "0.18.0": "ApertusForCausalLM ArceeForCausalLM Step1ForCausalLM",
    "0.19.0": "PixtralForConditionalGeneration",
    "0.20.0": "Exaone4_5_ForConditionalGeneration Gemma4ForCausalLM"
    " Gemma4ForConditionalGeneration MiniMaxM2ForCausalLM Ministral3ForCausalLM"
    " TeleChat3ForCausalLM",
    "0.21.0": "LagunaForCausalLM",
    "0.22.0": "InternS2PreviewForConditionalGeneration NemotronHForCausalLM NemotronHPuzzleForCausalLM",
    "0.23.0": "Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration MellumForCausalLM",
    "0.24.0": "Qwen3NextForCausalLM",
    "0.25.0": "GPTBigCodeForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM Starcoder2ForCausalLM",
    "0.26.0": "Olmo2ForCausalLM OlmoForCausalLM",
    "0.27.0": "Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration",
    "0.28.0": "InternS2MobiusForConditionalGeneration MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration",
    "0.29.0": "FlexOlmoForCausalLM Olmo3ForCausalLM Plamo3ForCausalLM Qwen3OmniMoeForConditionalGeneration",
    "0.30.0": "CohereCompassForConditionalGeneration K2HorizonForCausalLM NanbeigeForCausalLM SarvamMLAForCausalLM",
    "0.31.0": "Cohere2MoeForCausalLM MiMoV2OmniForCausalLM NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3",
    "0.32.0": "GPTNeoXForCausalLM GraniteForCausalLM GraniteSWAForCausalLM"
    " Jais2ForCausalLM MiniCPMV4_6ForConditionalGeneration PhiForCausalLM"
    " Qwen3ASRForConditionalGeneration SeedOssForCausalLM",
}
"""Target classes by the first release in which they capture (embedding and test models left out)."""


def _families() -> Iterator[Family]:
    for since, names in SINCE.items():
        targets = tuple(names.split())
        if _before_mixin(since):
            safe = tuple(t for t in targets if t in RESIDUAL_SAFE)
            unsafe = tuple(t for t in targets if t not in RESIDUAL_SAFE)
            source = f"models/ of {since} to 0.17.0: `if idx in self.aux_hidden_state_layers` before each layer"
            for group, error in ((safe, ""), (unsafe, NO_RESIDUAL)):
                if group:
                    yield Family(
                        name="ids are boundaries", targets=group, since=since, until=MIXIN_SINCE, embedding_error=error, source=source
                    )
            since = MIXIN_SINCE
        yield Family(name="ids are boundaries", targets=targets, since=since, highest="N", source=MIXIN)


def _before_mixin(since: str) -> bool:
    return tuple(int(p) for p in since.split(".")) < tuple(int(p) for p in MIXIN_SINCE.split("."))


FAMILIES: tuple[Family, ...] = (
    *_families(),
    Family(
        name="DeepSeek: ids are boundaries",
        targets=DEEPSEEK,
        since="0.18.0",
        until="0.25.0",
        embedding_error=NO_RESIDUAL,
        source="models/deepseek_v2.py:1238-1240 (0.18.0)",
    ),
    Family(
        name="DeepSeek: ids are boundaries",
        targets=DEEPSEEK,
        since="0.25.0",
        highest="N",
        embedding_error=NO_RESIDUAL,
        source="models/deepseek_v2.py:1560-1587",
    ),
    Family(
        name="DeepSeek: ids are boundaries",
        targets=("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
        since="0.18.0",
        until="0.25.0",
        embedding_error=NO_RESIDUAL,
        source="models/deepseek_v2.py:1238-1240 (0.18.0)",
    ),
    Family(
        name="DeepSeek: ids are boundaries",
        targets=("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
        since="0.25.0",
        until="0.29.0",
        highest="N",
        embedding_error=NO_RESIDUAL,
        source="models/deepseek_v2.py:1469-1490 (0.25.0)",
    ),
)
