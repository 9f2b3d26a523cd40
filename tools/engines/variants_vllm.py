"""Drafter variants that vLLM is asked about: each could break a prediction of the profile (V1 runner, for V2 needs Triton)."""

from __future__ import annotations

from typing import Any

import torch

from tools.engines.drafters import DRAFT_VOCAB, GONE, HEAD, HEADS, HIDDEN, INNER, KV_HEADS, VOCAB, Variant, kept, offsets
from tools.engines.variants_sglang import (
    ATTENTION,
    LLAMA3,
    NOT_LOADED,
    YARN,
    both_formats,
    fc_in_late_file,
    fc_twice,
    in_bin,
    nested,
    sharded,
    without,
)

WIDE_MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}


def top(*ids: Any, **more: Any) -> dict[str, Any]:
    """Ids at the top level."""
    return {"eagle_aux_hidden_state_layer_ids": list(ids)} | more


def speculators(inner: dict[str, Any] | None = None, **outer: Any) -> dict[str, Any]:
    """A config in the layout of speculators."""
    layer = {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 10000.0,
    } | (inner or {})
    proposal = [{"proposal_type": "greedy", "speculative_tokens": 2}]
    whole = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "draft_vocab_size": DRAFT_VOCAB,
        "norm_before_residual": False,
        "torch_dtype": "float32",
        "transformer_layer_config": {k: v for k, v in layer.items() if v is not GONE},
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": proposal,
            "verifier": {"name_or_path": "$TARGET", "architectures": ["LlamaForCausalLM"]},
        },
    }
    return whole | outer


VARIANTS: tuple[Variant, ...] = (
    # which states, on which target
    Variant(name="u01_qwen2_no_ids", target="qwen2_8"),
    Variant(name="u02_qwen2_zero_and_n", target="qwen2_8", config=top(0, 3, 8)),
    Variant(name="u03_qwen3_nested_descending", target="qwen3_10", config=nested(9, 4, 1)),
    Variant(name="u04_float_ids_top", config=top(1.0, 3.0, 4.0)),
    Variant(name="u05_fractional_id", config=top(1.5, 3, 4)),
    Variant(name="u06_empty_top_nested_set", target="llama9", config=nested(2, 5, 8) | top()),
    Variant(
        name="u07_eagle_config_empty_dflash", target="llama9", config={"eagle_config": {}, "dflash_config": {"target_layer_ids": [0, 2, 4]}}
    ),
    Variant(name="u08_eagle_config_list", config={"eagle_config": [1, 3, 4]}),
    Variant(name="u09_nested_empty_list", config=nested()),
    Variant(name="u10_five_states", target="llama9", states=5, config=nested(0, 1, 4, 6, 9)),
    Variant(name="u11_two_states_num_aux", target="qwen3_10", states=2, config=top(2, 8, num_aux_hidden_states=2)),
    Variant(name="u12_one_nested", target="qwen2_8", states=1, config=nested(4)),
    Variant(name="u13_negative_and_too_large", config=top(-1, 3, 40)),
    Variant(name="u14_use_aux_false_nested_ids", target="qwen2_8", config=nested(1, 3, 4, use_aux_hidden_state=False)),
    Variant(name="u15_use_aux_null", config=nested(1, 3, 4, use_aux_hidden_state=None)),
    Variant(name="u16_dflash_and_top", config=top(2, 4, 6, dflash_config={"target_layer_ids": [0, 1, 2]})),
    Variant(name="u17_false_is_zero", config=top(False, 3, 5)),
    Variant(name="u18_gptoss_no_ids", target="gptoss_10"),
    Variant(name="u19_gptoss_n", target="gptoss_8", config=top(8, 1, 4)),
    Variant(name="u20_tied_target_no_head", target="llama8tied", tensors={"lm_head.weight": GONE}),
    Variant(name="u21_tied_target_full_vocabulary", target="qwen2_10tied", config={"draft_vocab_size": GONE}, tensors=NOT_LOADED),
    # widths
    Variant(name="u22_wide_target", target="llama8wide", config={"target_hidden_size": 96}, tensors={"fc.weight": (HIDDEN, 288)}),
    Variant(name="u23_wide_target_unsaid", target="llama8wide"),
    Variant(
        name="u24_wide_target_own_embedding",
        target="llama8wide",
        config={"target_hidden_size": 96} | nested(0, 5),
        tensors={"fc.weight": (HIDDEN, 192), "embed_tokens.weight": (VOCAB, HIDDEN)},
    ),
    # norms, biases
    Variant(name="u25_norm_before_fc_no_tensor", config=nested(1, 3, 4, norm_before_fc=True)),
    Variant(
        name="u26_fc_norm_one_missing",
        config={"fc_norm": True} | top(1, 3, 4),
        tensors={"fc_norm.0.weight": (HIDDEN,), "fc_norm.2.weight": (HIDDEN,)},
    ),
    Variant(
        name="u27_use_aux_norm_legacy",
        config={"use_aux_norm": True},
        tensors={f"aux_norm_{n}.weight": (HIDDEN,) for n in ("low", "mid", "high")},
    ),
    Variant(name="u28_norm_before_residual_string", config={"norm_before_residual": "false"}),
    Variant(name="u29_norm_output_zero", config={"norm_output": 0, "norm_before_residual": 1}),
    Variant(
        name="u30_everything",
        target="qwen2_8",
        config={"norm_before_fc": True, "fc_norm": True, "norm_output": True, "norm_before_residual": True} | top(0, 3, 5),
        tensors={"input_norm.weight": (3 * HIDDEN,)} | {f"fc_norm.{k}.weight": (HIDDEN,) for k in range(3)},
    ),
    Variant(
        name="u31_mlp_bias_all",
        config={"mlp_bias": True},
        tensors={f"midlayer.mlp.{p}_proj.bias": (n,) for p, n in (("gate", INNER), ("up", INNER), ("down", HIDDEN))},
    ),
    Variant(name="u32_bias_only_o", config={"bias": True}, tensors={f"{ATTENTION}.o_proj.bias": (HIDDEN,)}),
    # head, embedding, vocabulary
    Variant(
        name="u33_tied_own_embedding",
        config={"tie_word_embeddings": True},
        tensors={"lm_head.weight": GONE, "embed_tokens.weight": (VOCAB, HIDDEN)},
    ),
    Variant(name="u34_draft_vocab_64", config={"draft_vocab_size": 64}, tensors={"lm_head.weight": (64, HIDDEN), "d2t": offsets(64)}),
    Variant(
        name="u35_full_vocabulary_own_head", config={"draft_vocab_size": VOCAB}, tensors={"lm_head.weight": (VOCAB, HIDDEN), "d2t": GONE}
    ),
    Variant(name="u36_draft_vocab_below_head", config={"draft_vocab_size": 96}),
    Variant(name="u37_d2t_absolute", tensors={"d2t": kept()}),
    Variant(name="u38_no_d2t", target="qwen3_8", tensors={"d2t": GONE}),
    Variant(name="u39_vocab_larger", config={"vocab_size": 300}),
    Variant(name="u40_vocab_smaller_own_embedding", config={"vocab_size": 200}, tensors={"embed_tokens.weight": (200, HIDDEN)}),
    # shapes
    Variant(name="u41_kv_heads_absent", config={"num_key_value_heads": GONE}),
    Variant(
        name="u42_kv_heads_four",
        config={"num_key_value_heads": 4},
        tensors={f"{ATTENTION}.{p}_proj.weight": (128, 2 * HIDDEN) for p in "kv"},
    ),
    Variant(name="u43_intermediate_larger", config={"intermediate_size": INNER + 32}),
    # missing and odd tensors
    Variant(
        name="u44_no_o_down_norm", tensors={f"{ATTENTION}.o_proj.weight": GONE, "midlayer.mlp.down_proj.weight": GONE, "norm.weight": GONE}
    ),
    Variant(name="u45_layers_0_names", layer="layers.0", tensors={"t2d": GONE}),
    Variant(name="u46_rotary_buffer", tensors={f"{ATTENTION}.rotary_emb.inv_freq": (HEAD // 2,)}),
    Variant(name="u47_second_layer_extra", tensors={"layers.1.hidden_norm.weight": (HIDDEN,)}),
    # files
    Variant(name="u48_fc_in_earlier_file", files=fc_twice),
    Variant(name="u49_fc_in_later_file", files=fc_in_late_file),
    Variant(name="u50_both_formats", files=both_formats),
    Variant(name="u51_sharded", target="qwen3_8", files=sharded),
    Variant(name="u52_bin", files=in_bin, tensors={"fc.weight": torch.randn(HIDDEN, 192).half() * 0.15}),
    # rope
    Variant(name="u53_rope_parameters_win", config={"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}),
    Variant(name="u54_no_theta", config={"rope_theta": GONE}, target="qwen3_10"),
    Variant(name="u55_yarn", config={"rope_scaling": YARN}),
    Variant(name="u56_dynamic", config={"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
    # Qwen3 drafters
    Variant(name="u57_qwen3_drafter", target="qwen3_8", base="qwen3", config=top(1, 4, 6)),
    Variant(
        name="u58_qwen3_no_q_norm_theta",
        target="llama9",
        base="qwen3",
        config={"rope_theta": 1000000.0},
        tensors={f"{ATTENTION}.q_norm.weight": GONE},
    ),
    Variant(name="u59_qwen3_four_top", target="qwen3_10", base="qwen3", states=4, config=top(0, 3, 6, 9)),
    # latent attention
    Variant(name="u60_mla", target="dsv3w_9", base="mla", config=WIDE_MLA | nested(1, 4, 9), layer="layers.0"),
    Variant(name="u61_mla_norm_output_bias", target="dsv3w_9", base="mla", config=WIDE_MLA | {"norm_output": True, "bias": True}),
    Variant(name="u62_mla_four_top_unread", target="dsv3w_9", base="mla", config=WIDE_MLA | top(1, 3, 5, 7), states=4),
    # speculators layout
    Variant(name="u63_speculators", whole=speculators(eagle_aux_hidden_state_layer_ids=[1, 4, 6])),
    Variant(
        name="u64_speculators_norms",
        whole=speculators(norm_before_fc=True, fc_norm=True, norm_output=True, norm_before_residual=True),
        tensors={"input_norm.weight": (3 * HIDDEN,)} | {f"fc_norm.{k}.weight": (HIDDEN,) for k in range(3)},
    ),
    Variant(
        name="u65_speculators_five",
        states=5,
        whole=speculators({"num_aux_hidden_states": 5}, eagle_aux_hidden_state_layer_ids=[0, 2, 4, 6, 8]),
    ),
    Variant(
        name="u66_speculators_served",
        whole=speculators(),
        flags={
            "model": "$DRAFT",
            "speculative_config": {"method": "__unset__", "model": "__unset__", "num_speculative_tokens": "__unset__"},
        },
    ),
    Variant(name="u67_speculators_eagle1", whole=speculators(speculators_model_type="eagle")),
    # flags
    Variant(name="u68_five_tokens", flags={"speculative_config": {"num_speculative_tokens": 5}}, config=top(0, 2, 4)),
    Variant(name="u69_method_eagle", flags={"speculative_config": {"method": "eagle"}}, target="qwen2_8"),
    # rope parameters as transformers completes and checks them
    Variant(name="u70_llama3_no_original", config={"rope_scaling": without(LLAMA3, "original_max_position_embeddings")}),
    Variant(name="u71_llama3_no_low", config={"rope_scaling": without(LLAMA3, "low_freq_factor")}),
    Variant(name="u72_yarn_no_original", config={"rope_scaling": {"type": "yarn", "factor": 2.0}}),
    Variant(name="u73_yarn_two_originals", config={"rope_scaling": YARN, "original_max_position_embeddings": 64}),
    Variant(name="u74_rope_type_unknown", config={"rope_scaling": {"rope_type": "su", "factor": 2.0}}),
    Variant(name="u75_longrope_no_factors", config={"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}),
    # run as EAGLE-1
    Variant(
        name="u76_method_eagle_kept_name",
        target="qwen3_8",
        config={"architectures": ["Eagle3LlamaForCausalLM"]} | top(1, 4, 6),
        flags={"speculative_config": {"method": "eagle"}},
    ),
    Variant(
        name="u77_method_eagle_qwen3_drafter",
        base="qwen3",
        states=2,
        config=nested(2, 5, use_aux_hidden_state=False),
        flags={"speculative_config": {"method": "eagle"}},
    ),
    Variant(
        name="u78_method_eagle_plain_llama_name",
        config={"architectures": ["LlamaForCausalLM"]},
        flags={"speculative_config": {"method": "eagle"}},
    ),
)
