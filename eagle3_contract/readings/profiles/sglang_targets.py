"""SGLang: what ids mean on each target class (``set_eagle3_layers_to_capture`` in ``srt/models/``), from every wheel 0.4.9 to 0.5.23.

Capture happens at a layer's entry, so that a captured "layer" L is boundary L; boundary 0 is the embedding output. Where a class added
``hidden_states + residual`` before there was a residual, boundary 0 is a TypeError. The table lists every class that had the hook at each
release: a class that is in it, but not at the version asked for, has no hook there.
"""

from __future__ import annotations

from eagle3_contract.readings.rules import Beyond, Family, IdTest, Shift

NEXT = (Shift(by=1),)
FIRST_ID = (Shift(by=1, when=IdTest.FIRST_IS_ONE), Shift(by=0))
LAST_ID = (Shift(by=0, when=IdTest.LARGEST_IS_LAYERS), Shift(by=1))
SHORT = "RuntimeError: captured {captured} of {wanted} aux hidden states"
NO_RESIDUAL = "TypeError: unsupported operand type(s) for +: 'Tensor' and 'NoneType' (boundary 0: no residual yet)"

LLAMA = ("LlamaForCausalLM", "Phi3ForCausalLM", "InternLM3ForCausalLM", "IQuestCoderForCausalLM", "MistralForCausalLM")
DEEPSEEK = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM", "MistralLarge3ForCausalLM")
KIMI = ("KimiK25ForConditionalGeneration",)
BAILING = ("BailingMoEForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM")
EXAONE = ("ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM")
QWEN3_VL = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration")
BRANCH = "branch_only"  # the layer's MLP output without the residual, except boundary 0

FAMILIES: tuple[Family, ...] = (
    Family(name="Llama", targets=LLAMA, shifts=NEXT, embedding_error=NO_RESIDUAL, until="0.5.22", source="models/llama.py:700 (0.4.9)"),
    Family(name="Llama", targets=LLAMA, shifts=NEXT, since="0.5.22", source="models/llama.py:929-941"),
    Family(
        name="Llama4",
        targets=("Llama4ForConditionalGeneration",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        until="0.5.22",
        source="models/mllama4.py:229 (0.4.9)",
    ),
    Family(name="Llama4", targets=("Llama4ForConditionalGeneration",), shifts=NEXT, since="0.5.22", source="models/mllama4.py:971-973"),
    Family(name="Qwen3", targets=("Qwen3ForCausalLM",), shifts=NEXT, source="models/qwen3.py:778-791"),
    Family(name="Qwen3-MoE", targets=("Qwen3MoeForCausalLM",), shifts=NEXT, until="0.5.5", source="models/qwen3_moe.py:759 (0.4.9)"),
    Family(
        name="Qwen3-MoE",
        targets=("Qwen3MoeForCausalLM",),
        shifts=NEXT,
        beyond=Beyond.INDEX,
        since="0.5.5",
        source="models/qwen3_moe.py:1128-1143; qwen2_moe.py:1153-1156",
    ),
    Family(
        name="gpt-oss",
        targets=("GptOssForCausalLM",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.1",
        until="0.5.17",
        source="models/gpt_oss.py:1135 (0.5.1)",
    ),
    Family(
        name="gpt-oss",
        targets=("GptOssForCausalLM",),
        shifts=LAST_ID,
        highest="N",
        since="0.5.17",
        source="models/gpt_oss.py:1337-1352, 708-738",
    ),
    Family(name="Qwen2", targets=("Qwen2ForCausalLM",), shifts=NEXT, since="0.5.2", source="models/qwen2.py:781-794"),
    Family(
        name="Qwen2.5-VL",
        targets=("Qwen2_5_VLForConditionalGeneration",),
        shifts=NEXT,
        since="0.5.2",
        source="models/qwen2_5_vl.py:990-1002",
    ),
    Family(
        name="Qwen2-MoE",
        targets=("Qwen2MoeForCausalLM",),
        shifts=NEXT,
        since="0.5.2",
        until="0.5.5",
        source="models/qwen2_moe.py:758 (0.5.2)",
    ),
    Family(
        name="Qwen2-MoE",
        targets=("Qwen2MoeForCausalLM",),
        shifts=NEXT,
        beyond=Beyond.INDEX,
        since="0.5.5",
        source="models/qwen2_moe.py:1418-1433, 1153-1156",
    ),
    Family(
        name="Apertus",
        targets=("ApertusForCausalLM",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.3",
        until="0.5.22",
        source="models/apertus.py:671 (0.5.3)",
    ),
    Family(name="Apertus", targets=("ApertusForCausalLM",), shifts=NEXT, since="0.5.22", source="models/apertus.py:675-687"),
    Family(
        name="DeepSeek",
        targets=DEEPSEEK,
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.5",
        until="0.5.13",
        source="models/deepseek_v2.py:3822-3834 (0.5.5)",
    ),
    Family(
        name="DeepSeek",
        targets=DEEPSEEK,
        shifts=FIRST_ID,
        embedding_error=NO_RESIDUAL,
        since="0.5.13",
        until="0.5.14",
        source="models/deepseek_v2.py:2752-2755 (0.5.13)",
    ),
    Family(
        name="DeepSeek",
        targets=DEEPSEEK,
        shifts=FIRST_ID,
        since="0.5.14",
        until="0.5.17",
        source="models/deepseek_v2.py:2752-2755 (0.5.13)",
    ),
    Family(
        name="DeepSeek",
        targets=DEEPSEEK,
        shifts=FIRST_ID,
        short_error=SHORT,
        since="0.5.17",
        source="models/deepseek_v2.py:3458-3473; layers/aux_hidden_states.py:84-90",
    ),
    Family(
        name="Kimi (DeepSeek)",
        targets=KIMI,
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.10",
        until="0.5.13",
        source="models/kimi_k25.py:841 (0.5.10)",
    ),
    Family(
        name="Kimi (DeepSeek)",
        targets=KIMI,
        shifts=FIRST_ID,
        embedding_error=NO_RESIDUAL,
        since="0.5.13",
        until="0.5.14",
        source="models/deepseek_v2.py:2752-2755 (0.5.13)",
    ),
    Family(
        name="Kimi (DeepSeek)",
        targets=KIMI,
        shifts=FIRST_ID,
        since="0.5.14",
        until="0.5.17",
        source="models/deepseek_v2.py:2752-2755 (0.5.13)",
    ),
    Family(
        name="Kimi (DeepSeek)",
        targets=KIMI,
        shifts=FIRST_ID,
        short_error=SHORT,
        since="0.5.17",
        source="models/kimi_k25.py:928-939; deepseek_v2.py:3458-3473",
    ),
    Family(
        name="GLM4-MoE",
        targets=("Glm4MoeForCausalLM",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.5",
        until="0.5.21",
        source="models/glm4_moe.py:1165 (0.5.5)",
    ),
    Family(name="GLM4-MoE", targets=("Glm4MoeForCausalLM",), shifts=NEXT, since="0.5.21", source="models/glm4_moe.py:1269-1281"),
    Family(
        name="GLM4-MoE-Lite", targets=("Glm4MoeLiteForCausalLM",), shifts=FIRST_ID, since="0.5.13", source="models/glm4_moe_lite.py:805-820"
    ),
    Family(name="GLM5", targets=("Glm5NextForConditionalGeneration",), shifts=NEXT, since="0.5.20", source="models/glm5_next.py:1533-1543"),
    Family(
        name="LongCat",
        targets=("LongcatFlashForCausalLM",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.6",
        until="0.5.21",
        source="models/longcat_flash.py:1039 (0.5.6)",
    ),
    Family(name="LongCat", targets=("LongcatFlashForCausalLM",), shifts=NEXT, since="0.5.21", source="models/longcat_flash.py:1112-1120"),
    Family(
        name="MiniMax-M2",
        targets=("MiniMaxM2ForCausalLM",),
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.6",
        until="0.5.11",
        source="models/minimax_m2.py:766 (0.5.6)",
    ),
    Family(name="MiniMax-M2", targets=("MiniMaxM2ForCausalLM",), shifts=NEXT, since="0.5.11", source="models/minimax_m2.py:1067-1080"),
    Family(
        name="MiMo-V2-Flash",
        targets=("MiMoV2FlashForCausalLM",),
        shifts=NEXT,
        since="0.5.7",
        until="0.5.9",
        source="models/mimo_v2_flash.py:672 (0.5.7)",
    ),
    Family(name="Bailing-MoE", targets=BAILING, shifts=NEXT, since="0.5.9", source="models/bailing_moe.py:1098-1109"),
    Family(
        name="Exaone-MoE",
        targets=EXAONE,
        shifts=NEXT,
        embedding_error=NO_RESIDUAL,
        since="0.5.9",
        until="0.5.22",
        source="models/exaone_moe.py:865 (0.5.9)",
    ),
    Family(name="Exaone-MoE", targets=EXAONE, shifts=NEXT, since="0.5.22", source="models/exaone_moe.py:866-879"),
    Family(
        name="Qwen3-Next",
        targets=("Qwen3NextForCausalLM",),
        shifts=NEXT,
        beyond=Beyond.INDEX,
        since="0.5.9",
        source="models/qwen3_next.py:1286-1298, 954-957",
    ),
    Family(name="Qwen3-VL", targets=QWEN3_VL, shifts=NEXT, since="0.5.11", source="models/qwen3_vl.py:1777-1797"),
    Family(
        name="Gemma3",
        targets=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
        shifts=NEXT,
        highest="N",
        stream=BRANCH,
        since="0.5.12",
        source="models/gemma3_causal.py:917-926, 632-672",
    ),
    Family(
        name="Gemma4",
        targets=("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
        shifts=NEXT,
        highest="N",
        since="0.5.12",
        source="models/gemma4_causal.py:1495-1505",
    ),
    Family(
        name="MiniMax-M3",
        targets=("MiniMaxM3SparseForCausalLM",),
        shifts=NEXT,
        since="0.5.16",
        until="0.5.23",
        source="models/minimax_m3.py:1491 (0.5.16)",
    ),
    Family(
        name="MiniMax-M3",
        targets=("MiniMaxM3SparseForCausalLM",),
        shifts=NEXT,
        highest="N",
        since="0.5.23",
        source="models/minimax_m3.py:2056-2077, 1955-1964",
    ),
    Family(
        name="MiniMax-M3-VL",
        targets=("MiniMaxM3SparseForConditionalGeneration",),
        shifts=NEXT,
        default=("3", "N//2+1", "N-2"),
        since="0.5.18",
        until="0.5.23",
        source="models/minimax_m3_vl.py:207 (0.5.18)",
    ),
    Family(
        name="MiniMax-M3-VL",
        targets=("MiniMaxM3SparseForConditionalGeneration",),
        shifts=NEXT,
        default=("3", "N//2+1", "N-2"),
        highest="N",
        since="0.5.23",
        source="models/minimax_m3_vl.py:246-265",
    ),
    Family(
        name="Qwen3.5",
        targets=("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"),
        shifts=NEXT,
        beyond=Beyond.INDEX,
        since="0.5.22",
        source="models/qwen3_5_text.py:150-159; qwen3_5.py:1894",
    ),
    Family(
        name="no EAGLE-3 hook",
        supported=False,
        source="attention_backend_setup.py:54-60",
        error="ValueError: the target's class does not implement set_eagle3_layers_to_capture",
        targets=(
            "KimiK3ForConditionalGeneration",
            "KimiLinearForCausalLM",
            "Glm4ForCausalLM",
            "NemotronHForCausalLM",
            "DeepseekV4ForCausalLM",
            "LagunaForCausalLM",
        ),
    ),
)
