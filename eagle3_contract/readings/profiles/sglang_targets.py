"""SGLang: what ids mean on each target class (``set_eagle3_layers_to_capture`` of 0.5.23 ``srt/models/``). Capture happens at a layer's
entry, so that a captured "layer" L is boundary L; 0 is the embedding output (layers/layer_boundary/stage.py:418-434)."""

from __future__ import annotations

from eagle3_contract.readings.rules import Beyond, Family, IdTest, Shift

NEXT = (Shift(by=1),)
FIRST_ID = (Shift(by=1, when=IdTest.FIRST_IS_ONE), Shift(by=0))
LAST_ID = (Shift(by=0, when=IdTest.LARGEST_IS_LAYERS), Shift(by=1))
SHORT = "RuntimeError: captured {captured} of {wanted} aux hidden states"
NO_HOOK = "ValueError: {name} does not implement set_eagle3_layers_to_capture"
DEEPSEEK = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "KimiK2ForCausalLM", "GlmMoeDsaForCausalLM")

FAMILIES: tuple[Family, ...] = (
    Family(name="Llama", source="models/llama.py:929-941", shifts=NEXT,
           targets=("LlamaForCausalLM", "Phi3ForCausalLM", "InternLM3ForCausalLM", "IQuestCoderForCausalLM", "MistralForCausalLM")),
    Family(name="Qwen3", source="models/qwen3.py:778-791", shifts=NEXT, targets=("Qwen3ForCausalLM",)),
    Family(name="Qwen3-MoE", source="models/qwen3_moe.py:1128-1143; qwen2_moe.py:1153-1156", shifts=NEXT, beyond=Beyond.INDEX, targets=("Qwen3MoeForCausalLM",)),
    Family(name="Llama4", source="models/mllama4.py:971-973", shifts=NEXT, targets=("Llama4ForConditionalGeneration",)),
    Family(name="Qwen2", source="models/qwen2.py:781-794", shifts=NEXT, since="0.5.2", targets=("Qwen2ForCausalLM",)),
    Family(name="Qwen2.5-VL", source="models/qwen2_5_vl.py:990-1002", shifts=NEXT, since="0.5.2", targets=("Qwen2_5_VLForConditionalGeneration",)),
    Family(name="Qwen2-MoE", source="models/qwen2_moe.py:1418-1433, 1153-1156", shifts=NEXT, since="0.5.2", beyond=Beyond.INDEX, targets=("Qwen2MoeForCausalLM",)),
    Family(name="gpt-oss", source="models/gpt_oss.py:1147 (0.5.1)", shifts=NEXT, since="0.5.1", until="0.5.17", targets=("GptOssForCausalLM",)),
    Family(name="gpt-oss", source="models/gpt_oss.py:1337-1352, 708-738", shifts=LAST_ID, highest="N", since="0.5.17", targets=("GptOssForCausalLM",)),
    Family(name="DeepSeek", source="models/deepseek_v2.py:3834 (0.5.5)", shifts=NEXT, since="0.5.5", until="0.5.13", targets=DEEPSEEK),
    Family(name="DeepSeek", source="models/deepseek_v2.py:2752-2755 (0.5.13)", shifts=FIRST_ID, since="0.5.13", until="0.5.17", targets=DEEPSEEK),
    Family(name="DeepSeek", source="models/deepseek_v2.py:3458-3473; layers/aux_hidden_states.py:84-90", shifts=FIRST_ID, short_error=SHORT, since="0.5.17", targets=DEEPSEEK),
)
