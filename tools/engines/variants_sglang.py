"""Drafter variants that SGLang is asked about: each could break a prediction of the profile."""

from __future__ import annotations

from typing import Any

import torch

from tools.engines.drafters import DRAFT_VOCAB, GONE, HIDDEN, INNER, VOCAB, Variant, kept, offsets

NOT_LOADED = {"lm_head.weight": GONE, "d2t": GONE, "t2d": GONE}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
ATTENTION = "midlayer.self_attn"


def nested(*ids: Any, **more: Any) -> dict[str, Any]:
    """``eagle_config`` with these ids."""
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids)} | more}


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    """The mapping without one key."""
    return {k: v for k, v in config.items() if k != key}


def sharded(name: str) -> tuple[str, ...]:
    return ("model-00001-of-00002.safetensors",) if name.startswith("midlayer") else ("model-00002-of-00002.safetensors",)


def fc_twice(name: str) -> tuple[str, ...]:
    return ("a.safetensors", "model.safetensors") if name == "fc.weight" else ("model.safetensors",)


def fc_in_late_file(name: str) -> tuple[str, ...]:
    return ("model.safetensors", "z_old.safetensors") if name == "fc.weight" else ("model.safetensors",)


def in_bin(_name: str) -> tuple[str, ...]:
    return ("pytorch_model.bin",)


def both_formats(name: str) -> tuple[str, ...]:
    return ("model.safetensors", "pytorch_model.bin") if name == "norm.weight" else ("model.safetensors",)


VARIANTS: tuple[Variant, ...] = (
    # which states, on which target
    Variant(name="t01_qwen2_no_ids", target="qwen2_8"),
    Variant(name="t02_qwen2_embedding", target="qwen2_8", config=nested(-1, 3, 6)),
    Variant(name="t03_qwen3_last_layer", target="qwen3_8", config=nested(0, 3, 7)),
    Variant(name="t04_llama9_no_ids", target="llama9"),
    Variant(name="t05_minus_two", config=nested(-2, 3, 5)),
    Variant(name="t06_float_ids", config=nested(1.0, 3.0, 4.0)),
    Variant(name="t07_fractional_id", config=nested(1.5, 3, 4)),
    Variant(name="t08_empty_ids", config=nested()),
    Variant(name="t09_eagle_config_empty", target="llama9", config={"eagle_config": {}}),
    Variant(name="t10_eagle_config_list", config={"eagle_config": [1, 3, 4]}),
    Variant(name="t11_five_states", target="llama9", states=5, config=nested(-1, 0, 3, 5, 7)),
    Variant(name="t12_two_states", target="qwen3_10", states=2, config=nested(2, 8)),
    Variant(name="t13_one_state_equal_width", target="qwen2_8", states=1, config=nested(4)),
    Variant(name="t14_four_ids_fc_of_three", config=nested(0, 2, 4, 6)),
    Variant(name="t15_num_aux_two_no_ids", states=2, config={"num_aux_hidden_states": 2}),
    Variant(name="t16_use_aux_false", target="qwen2_8", config=nested(1, 3, 4, use_aux_hidden_state=False)),
    Variant(name="t17_use_aux_empty_string", config=nested(1, 3, 4, use_aux_hidden_state="")),
    Variant(name="t18_mixed_bool_and_negative", config=nested(False, -1, 5)),
    Variant(name="t19_duplicate_and_too_large", config=nested(2, 2, 40), states=3),
    Variant(name="t20_huge_id", config=nested(1, 3, 10**12)),
    Variant(name="t21_dsv3_no_ids", target="dsv3_7"),
    Variant(name="t22_dsv3_float_zero", target="dsv3_8", config=nested(0.0, 3, 6)),
    Variant(name="t23_dsv3_first_one_last", target="dsv3_8", config=nested(1, 2, 7)),
    Variant(name="t24_dsv3_one_not_first", target="dsv3_7", config=nested(4, 1, 6)),
    Variant(name="t25_dsv3_minus_one", target="dsv3_7", config=nested(-1, 2, 5)),
    Variant(name="t26_gptoss_no_ids", target="gptoss_10"),
    Variant(name="t27_gptoss_with_n", target="gptoss_8", config=nested(2, 5, 8)),
    Variant(name="t28_gptoss_descending", target="gptoss_10", config=nested(8, 4, -1)),
    Variant(name="t29_gptoss_above_n", target="gptoss_8", config=nested(1, 4, 9)),
    Variant(name="t30_tied_target", target="llama8tied", config=nested(1, 4, 6)),
    Variant(name="t31_tied_target_head_shared", target="qwen2_10tied", config={"draft_vocab_size": None}, tensors=NOT_LOADED),
    # widths
    Variant(name="t32_wide_target", target="llama8wide", config={"target_hidden_size": 96}, tensors={"fc.weight": (HIDDEN, 288)}),
    Variant(name="t33_wide_target_unsaid", target="llama8wide"),
    Variant(
        name="t34_wide_target_own_embedding",
        target="llama8wide",
        config={"target_hidden_size": 96} | nested(0, 5),
        tensors={"fc.weight": (HIDDEN, 192), "embed_tokens.weight": (VOCAB, HIDDEN)},
    ),
    # norms, biases
    Variant(name="t35_norm_before_fc_no_tensor", config=nested(1, 3, 4, norm_before_fc=True)),
    Variant(
        name="t36_fc_norm_one_missing",
        config={"fc_norm": True} | nested(1, 3, 4),
        tensors={"fc_norm.0.weight": (HIDDEN,), "fc_norm.2.weight": (HIDDEN,)},
    ),
    Variant(
        name="t37_fc_norm_legacy_names",
        target="qwen3_10",
        config={"use_aux_norm": 1},
        tensors={f"aux_norm_{n}.weight": (HIDDEN,) for n in ("low", "mid", "high")},
    ),
    Variant(name="t38_norm_output_string", config={"norm_output": "no"}),
    Variant(name="t39_norm_output_zero", config={"norm_output": 0}),
    Variant(
        name="t40_everything",
        target="qwen2_8",
        config={"norm_before_fc": True, "fc_norm": True, "norm_output": True, "bias": True, "norm_before_residual": True} | nested(0, 3, 5),
        tensors={"input_norm.weight": (3 * HIDDEN,), "fc.bias": (HIDDEN,)} | {f"fc_norm.{k}.weight": (HIDDEN,) for k in range(3)},
    ),
    Variant(name="t41_mlp_bias", config={"mlp_bias": True}, tensors={"midlayer.mlp.down_proj.bias": (HIDDEN,)}),
    Variant(
        name="t42_attention_bias_all",
        config={"attention_bias": True},
        tensors={f"{ATTENTION}.{p}_proj.bias": (n,) for p, n in (("q", 128), ("k", 64), ("v", 64), ("o", HIDDEN))},
    ),
    # head, embedding, vocabulary
    Variant(name="t43_tied_reduced", config={"tie_word_embeddings": True}, tensors={"embed_tokens.weight": (VOCAB, HIDDEN)}),
    Variant(
        name="t44_tied_full_no_map",
        config={"tie_word_embeddings": True, "draft_vocab_size": VOCAB},
        tensors=NOT_LOADED | {"embed_tokens.weight": (VOCAB, HIDDEN)},
    ),
    Variant(name="t45_draft_vocab_64", config={"draft_vocab_size": 64}, tensors={"lm_head.weight": (64, HIDDEN), "d2t": offsets(64)}),
    Variant(
        name="t46_full_vocabulary_own_head", config={"draft_vocab_size": VOCAB}, tensors={"lm_head.weight": (VOCAB, HIDDEN), "d2t": GONE}
    ),
    Variant(name="t47_draft_vocab_below_head", config={"draft_vocab_size": 96}),
    Variant(name="t48_draft_vocab_null_nothing", config={"draft_vocab_size": None}, tensors=NOT_LOADED),
    Variant(
        name="t49_draft_vocab_null_own_head", config={"draft_vocab_size": None}, tensors={"lm_head.weight": (VOCAB, HIDDEN), "d2t": GONE}
    ),
    Variant(name="t50_d2t_absolute", tensors={"d2t": kept()}),
    Variant(name="t51_d2t_int16_no_t2d", tensors={"d2t": offsets().to(torch.int16), "t2d": GONE}),
    Variant(name="t52_no_d2t", tensors={"d2t": GONE}),
    Variant(name="t53_vocab_larger", config={"vocab_size": 300}, tensors={"embed_tokens.weight": (300, HIDDEN)}),
    # shapes
    Variant(name="t54_kv_heads_absent", config={"num_key_value_heads": GONE}),
    Variant(
        name="t55_kv_heads_four",
        config={"num_key_value_heads": 4},
        tensors={f"{ATTENTION}.{p}_proj.weight": (128, 2 * HIDDEN) for p in "kv"},
    ),
    Variant(
        name="t56_head_dim_absent",
        config={"head_dim": GONE},
        tensors={f"{ATTENTION}.{p}_proj.weight": (n, 2 * HIDDEN) for p, n in (("q", 64), ("k", 32), ("v", 32))}
        | {f"{ATTENTION}.o_proj.weight": (HIDDEN, 64)},
    ),
    Variant(name="t57_intermediate_larger", config={"intermediate_size": INNER + 32}),
    # missing and odd tensors
    Variant(
        name="t58_no_o_down_head",
        tensors={f"{ATTENTION}.o_proj.weight": GONE, "midlayer.mlp.down_proj.weight": GONE, "lm_head.weight": GONE},
    ),
    Variant(name="t59_no_layer_norms", tensors={"midlayer.hidden_norm.weight": GONE, "midlayer.input_layernorm.weight": GONE}),
    Variant(name="t60_module_prefix", layer="module.midlayer"),
    Variant(name="t61_model_prefix_half", layer="model.layers.0", tensors={"norm.weight": GONE, "model.norm.weight": (HIDDEN,)}),
    Variant(name="t62_half_precision", config={"torch_dtype": "float16"}, tensors={"fc.weight": torch.randn(HIDDEN, 192).half() * 0.15}),
    # files
    Variant(name="t63_sharded", files=sharded),
    Variant(name="t64_fc_in_earlier_file", files=fc_twice),
    Variant(name="t65_fc_in_later_file", files=fc_in_late_file),
    Variant(name="t66_bin", files=in_bin),
    Variant(name="t67_both_formats", files=both_formats),
    # rope
    Variant(name="t68_rope_parameters_win", config={"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}),
    Variant(name="t69_no_theta", config={"rope_theta": GONE}, target="qwen3_10"),
    Variant(name="t70_yarn", config={"rope_scaling": YARN}),
    Variant(name="t71_dynamic", config={"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
    Variant(name="t72_linear", config={"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0}}),
    Variant(name="t73_partial_rotary", config={"partial_rotary_factor": 0.5}),
    # latent attention
    Variant(name="t74_mla", target="dsv3_7", base="mla", config=nested(0, 3, 5), layer="layers.0"),
    Variant(name="t75_mla_five", target="dsv3_8", base="mla", config=nested(0, 2, 4, 6, 7), states=5),
    Variant(name="t76_mla_no_q_lora", target="dsv3_8", base="mla", config={"q_lora_rank": None}),
    Variant(
        name="t77_mla_norms",
        target="dsv3_7",
        base="mla",
        config={"fc_norm": True, "norm_output": True},
        tensors={"fc_norm.1.weight": (HIDDEN,)},
    ),
    Variant(name="t78_mla_no_draft_vocab", target="dsv3_7", base="mla", config={"draft_vocab_size": GONE}, tensors=NOT_LOADED),
    Variant(name="t79_mla_kv_a_missing", target="dsv3_8", base="mla", tensors={f"{ATTENTION}.kv_a_proj_with_mqa.weight": GONE}),
    Variant(name="t80_mla_first_one", target="dsv3_8", base="mla", config=nested(1, 3, 5)),
    # speculators layout, flags
    Variant(
        name="t81_speculators_layout",
        whole={
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "draft_vocab_size": DRAFT_VOCAB,
            "transformer_layer_config": {"model_type": "llama", "hidden_size": HIDDEN},
        },
    ),
    Variant(
        name="t82_tree",
        flags={"speculative_num_steps": 2, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 4},
        config=nested(0, 2, 4),
    ),
    Variant(name="t83_window_three", flags={"speculative_draft_window_size": 3}, config={"sliding_window": 5}),
    Variant(name="t84_eagle_algorithm", target="qwen3_8", flags={"speculative_algorithm": "EAGLE"}, config=nested(1, 3, 4)),
    Variant(name="t85_override_norm_output", flags={"json_model_override_args": '{"norm_output": true, "bias": true}'}),
    # rope parameters as transformers completes and checks them
    Variant(name="t86_llama3_no_original", config={"rope_scaling": without(LLAMA3, "original_max_position_embeddings")}),
    Variant(name="t87_llama3_no_low", config={"rope_scaling": without(LLAMA3, "low_freq_factor")}),
    Variant(name="t88_yarn_no_original", config={"rope_scaling": {"type": "yarn", "factor": 2.0}}),
    Variant(name="t89_yarn_two_originals", config={"rope_scaling": YARN, "original_max_position_embeddings": 64}),
    Variant(name="t90_rope_type_unknown", config={"rope_scaling": {"rope_type": "su", "factor": 2.0}}),
    Variant(name="t91_longrope_no_factors", config={"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}),
)
