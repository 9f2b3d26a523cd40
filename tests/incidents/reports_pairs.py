"""Heads as public reports have them, and what is changed in them, for ``cases_reports``."""

from __future__ import annotations

from typing import Any

from factory import MLA, Pair, Tensor, pair, tiny

from eagle3_contract.model.wiring import Attention, Feedback, NormBeforeFc, Rope
from incidents.cases_files import tensor
from incidents.cases_recipe import target

IDS = "config.eagle_config.eagle_aux_hidden_state_layer_ids"
KEY = "eagle_aux_hidden_state_layer_ids"


def served(architecture: str, layers: int = 8, **more: Any) -> Any:
    return target(architectures=[architecture], num_hidden_layers=layers, max_position_embeddings=256, **more)


def named(made: Pair, model_type: str) -> Pair:
    """The same pair for another family."""
    made.contract["target"]["model_type"] = model_type
    return made


def llama_70b() -> Pair:
    """nvidia/Llama-3.3-70B-Instruct-Eagle3 as trained: states that are not the default ones."""
    return pair(boundaries=(1, 30, 60), ids=(1, 30, 60), layout="flat", target_layers=80)


def kimi_mla() -> Pair:
    """lightseekorg/kimi-k2.5-eagle3-mla: ids are inputs of layers, the first one 2."""
    rope = Rope(theta=10000.0, table_length=256, rotary_dim=4, interleaved=True)
    wiring = tiny(attention=Attention.MLA, mla=MLA, head_dim=12, kv_heads=4, rope=rope)
    made = pair(wiring, boundaries=(2, 30, 58), ids=(2, 30, 58), dialect="layers", target_layers=61)
    made.config |= {"model_type": "deepseek_v3"}
    return named(made, "deepseek_v3")


def gpt_oss_v3() -> Pair:
    """nvidia/gpt-oss-120b-Eagle3-v3: boundaries, the last one N."""
    return named(pair(boundaries=(24, 30, 36), ids=(24, 30, 36), target_layers=36), "gpt_oss")


def sixteen() -> Pair:
    return pair(boundaries=(2, 8, 13), ids=(1, 7, 12), target_layers=16)


def by_top_level() -> Pair:
    return pair(boundaries=(1, 3, 6), ids=(1, 3, 6), layout="flat")


def final_state(layout: str = "nested") -> Pair:
    """nvidia/gpt-oss-120b-Eagle3-v2: the normed last state alone, without fc."""
    made = pair(tiny(fc_applied=False), boundaries=("final_norm",), ids=None, layout=layout)
    made.config["eagle_config"] = {"use_aux_hidden_state": False}
    return made


def modern(layout: str = "flat") -> Pair:
    """A norm per state and a normed feedback (EAGLE-3.1)."""
    return pair(tiny(norms_before_fc=(NormBeforeFc.FC_NORM,), feedback=Feedback.POST_NORM), layout=layout, ids=(2, 4, 5), dialect="layers")


def normed_concatenation() -> Pair:
    return pair(tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,)), layout="speculators", ids=(2, 4, 5), dialect="layers")


def theta_in_parameters() -> Pair:
    """transformers 5 writes rope_theta into rope_parameters only."""
    made = pair(tiny(rope=Rope(theta=5e6, table_length=256, rotary_dim=12)))
    del made.config["rope_theta"]
    made.config["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e6}
    return made


def per_attention_type(p: Pair) -> None:
    """speculators#649: rope parameters per kind of attention, as transformers 5 nests them for some targets."""
    del p.config["rope_theta"]
    p.config["rope_parameters"] = {"full_attention": {"rope_type": "default", "rope_theta": 5e6}}


def flat_default() -> Pair:
    return pair(layout="flat", ids=(2, 4, 5))


def on_vision() -> Pair:
    made = named(pair(), "qwen3_vl")
    made.contract["training"]["data"]["modality"] = "vision"
    made.contract["hidden_states"]["point"] = "after_injected_vision"
    return made


def yuhuili() -> Pair:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: no ids, and the architecture string of the target."""
    made = pair(ids=None, layout="flat")
    made.config["architectures"] = ["LlamaForCausalLM"]
    made.contract["wiring"]["architecture"] = "LlamaForCausalLM"
    return made


def every_state(p: Pair) -> None:
    """All hidden states instead of three."""
    p.tensors["fc.weight"] = tensor((32, 9 * 32))


def plain_decoder(p: Pair) -> None:
    """Loaded by the class of a plain decoder, whose attention is half as wide."""
    p.config["architectures"] = ["Qwen3ForCausalLM"]


def q_proj_only(p: Pair) -> None:
    p.tensors["midlayer.self_attn.q_proj.weight"] = Tensor(p.tensors["midlayer.self_attn.q_proj.weight"].values[:32], "bfloat16")
