"""The statements that every trainer's checkpoint makes the same way: sizes, which tensors exist, whose embedding and head.

Where a size is both in the config and in a tensor's shape, the tensor decides (published configs have been wrong about head_dim:
AngelSlim/Qwen3-4B_eagle3 declares 80 over q_proj rows of 32 x 128) and the contradiction is noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.findings import Json
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers import tensor_names as names
from eagle3_contract.trainers.reading import TargetFacts
from eagle3_contract.trainers.statements import Statements

LARGEST: Final = 1e30
"""No number of a drafter's config is beyond this; a larger one is a mistake."""
_Q: Final = names.in_layer(0, "self_attn.q_proj.weight")
_K: Final = names.in_layer(0, "self_attn.k_proj.weight")
_KV_A: Final = names.in_layer(0, "self_attn.kv_a_proj_with_mqa.weight")


def whole(value: Json) -> int | None:
    """A size from a config (a whole number of at least 1), or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def number(value: Json) -> float | None:
    """A positive number from a config, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        return None
    return float(value)


def state_decoder(s: Statements, view: DrafterView, decoder: Mapping[str, Json], target: TargetFacts, *, where: str = "") -> None:
    """State sizes, norms and biases that exist, owners, vocabularies. ``decoder`` is the part of the config with the decoder's keys,
    ``where`` its prefix in messages."""
    s.config_or("wiring.architecture", view.architecture, "architectures")
    _sizes(s, view, decoder, where)
    _attention(s, view, decoder, where)
    act = decoder.get("hidden_act")
    s.config_or("wiring.rms_norm_eps", number(decoder.get("rms_norm_eps")), f"{where}rms_norm_eps")
    s.config_or("wiring.hidden_act", act if isinstance(act, str) else None, f"{where}hidden_act", likely="silu")
    for path, tensor in (
        ("wiring.qk_norm", names.in_layer(0, "self_attn.q_norm.weight")),
        ("wiring.qkv_bias", names.in_layer(0, "self_attn.q_proj.bias")),
        ("wiring.o_bias", names.in_layer(0, "self_attn.o_proj.bias")),
        ("wiring.mlp_bias", names.in_layer(0, "mlp.gate_proj.bias")),
        ("wiring.fc_bias", names.FC_BIAS),
        ("wiring.hidden_norm", names.in_layer(0, "hidden_norm.weight")),
        ("wiring.fc_applied", names.FC),
        ("vocab.present", names.D2T),
    ):
        s.measured(path, view.has(tensor), f"{tensor} is {'stored' if view.has(tensor) else 'not stored'}")
    _vocabularies(s, view, decoder, target, where)
    _fed(s, view, target)
    _owners(s, view, decoder, where)


def _owners(s: Statements, view: DrafterView, decoder: Mapping[str, Json], where: str) -> None:
    """Whose embedding and head training used. A head that is not stored was tied if the config ties it, and the target's otherwise."""
    own = view.has(names.EMBEDDING)
    s.measured("wiring.embedding", "own" if own else "target", f"{names.EMBEDDING} is {'stored' if own else 'not stored'}")
    tied = decoder.get("tie_word_embeddings", view.config.get("tie_word_embeddings")) is True
    if view.has(names.HEAD):
        s.measured("wiring.lm_head", "own", f"{names.HEAD} is stored")
    elif tied:
        s.config("wiring.lm_head", "tied_to_own" if own else "tied_to_target", f"{where}tie_word_embeddings, and no {names.HEAD}")
    else:
        s.measured("wiring.lm_head", "target", f"{names.HEAD} is not stored")


def _sizes(s: Statements, view: DrafterView, decoder: Mapping[str, Json], where: str) -> None:
    fc, gate = view.shape(names.FC), view.shape(names.in_layer(0, "mlp.gate_proj.weight"))
    _size(s, "wiring.hidden_size", fc[0] if fc and len(fc) == 2 else None, "rows of fc.weight", decoder, "hidden_size", where)
    _size(s, "wiring.intermediate_size", gate[0] if gate else None, "rows of mlp.gate_proj.weight", decoder, "intermediate_size", where)
    _size(s, "wiring.layers", view.layers or None, "layers stored", decoder, "num_hidden_layers", where)


def _size(s: Statements, path: str, stored: int | None, how: str, decoder: Mapping[str, Json], key: str, where: str) -> None:
    declared = whole(decoder.get(key))
    if stored is not None:
        s.measured(path, stored, how)
        if declared is not None and declared != stored:
            s.notes.append(f"config.json says {where}{key} {declared}, the tensors say {stored} ({how})")
    elif declared is not None:
        s.config(path, declared, f"{where}{key}")
    else:
        s.unknown(path, f"neither {where}{key} nor a tensor says it")


def _attention(s: Statements, view: DrafterView, decoder: Mapping[str, Json], where: str) -> None:
    heads = whole(decoder.get("num_attention_heads"))
    s.config_or("wiring.heads", heads or None, f"{where}num_attention_heads")
    kv_heads = whole(decoder.get("num_key_value_heads"))
    s.rules({"wiring.attention_scale": None, "wiring.logit_scale": 1.0}, "1/sqrt(head_dim) and no logit scale in every trainer read")
    if view.has(_KV_A):
        _latent(s, view, decoder, heads, kv_heads, where)
        return
    s.measured("wiring.attention", "gqa", f"{_Q} is {'stored' if view.has(_Q) else 'not stored'}")
    s.measured("wiring.mla", None, f"{_KV_A} is not stored")
    q, k = view.shape(_Q), view.shape(_K)
    stored = q[0] // heads if q and heads and q[0] % heads == 0 else None
    _size(s, "wiring.head_dim", stored, f"rows of {_Q} / heads", decoder, "head_dim", where)
    head_dim = s.value("wiring.head_dim")
    stored_kv = k[0] // head_dim if k and head_dim and k[0] % head_dim == 0 else None
    _size(s, "wiring.kv_heads", stored_kv, f"rows of {_K} / head_dim", decoder, "num_key_value_heads", where)
    if head_dim:
        s.rule("wiring.rope.rotary_dim", head_dim, "the whole head is rotated in every trainer read")
    else:
        s.unknown("wiring.rope.rotary_dim", "head_dim is not known")
    s.rule("wiring.rope.interleaved", False, "halves are rotated in every Llama and Qwen drafter read")


def _latent(s: Statements, view: DrafterView, decoder: Mapping[str, Json], heads: int | None, kv_heads: int | None, where: str) -> None:
    """Multi-head latent attention (Kimi, DeepSeek drafters). ``wiring.mla`` is a mapping of its sizes; ``norm_eps`` is the adapter's."""
    s.measured("wiring.attention", "mla", f"{_KV_A} is stored")
    sizes = {key: whole(decoder.get(key)) for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    lora = view.shape(names.in_layer(0, "self_attn.q_a_proj.weight"))
    missing = [f"{where}{key}" for key, value in sizes.items() if value is None]
    if missing:
        s.unknown("wiring.mla", f"{', '.join(missing)} not in config.json")
    else:
        s.config("wiring.mla", {"q_lora_rank": lora[0] if lora else None, **sizes, "norm_eps": None}, f"{where}kv_lora_rank and others")
    nope, rope = sizes["qk_nope_head_dim"], sizes["qk_rope_head_dim"]
    if nope is not None and rope is not None:
        s.config("wiring.head_dim", nope + rope, f"{where}qk_nope_head_dim + {where}qk_rope_head_dim")
        s.config("wiring.rope.rotary_dim", rope, f"{where}qk_rope_head_dim")
    else:
        s.unknown("wiring.head_dim", "the sizes of the latent attention are not known")
        s.unknown("wiring.rope.rotary_dim", "the sizes of the latent attention are not known")
    s.config_or("wiring.kv_heads", kv_heads or heads, f"{where}num_key_value_heads")
    s.rule(
        "wiring.rope.interleaved",
        True,
        "DeepSeek's attention rotates neighbouring pairs (transformers modeling_deepseek_v3.py; TorchSpec models/draft/deepseek_eagle.py)",
    )


def _vocabularies(s: Statements, view: DrafterView, decoder: Mapping[str, Json], target: TargetFacts, where: str) -> None:
    head, d2t, t2d, table = (view.shape(n) for n in (names.HEAD, names.D2T, names.T2D, names.EMBEDDING))
    stored = head[0] if head else d2t[0] if d2t else None
    _size(s, "vocab.draft_size", stored, "rows of lm_head.weight" if head else "length of d2t", view.config, "draft_vocab_size", "")
    if s.value("vocab.draft_size") is None and (full := whole(decoder.get("vocab_size"))):
        s.config("vocab.draft_size", full, f"{where}vocab_size; no draft_vocab_size, so the vocabulary is not reduced")
    stored = target.vocab_size or (t2d[0] if t2d else table[0] if table else None)
    how = "the target's config.json" if target.vocab_size else "length of t2d" if t2d else "rows of embed_tokens.weight"
    _size(s, "vocab.target_size", stored, how, decoder, "vocab_size", where)
    if view.has(names.D2T):
        s.rule("vocab.map", "offset", "every trainer read writes target = i + d2t[i]; the values must bear it out")
    elif s.value("vocab.draft_size") is not None and s.value("vocab.draft_size") == s.value("vocab.target_size"):
        s.measured("vocab.map", "identity", "no d2t, and as many draft ids as target ids")
    else:
        s.unknown("vocab.map", "the draft vocabulary is smaller than the target's and no d2t is stored")


def _fed(s: Statements, view: DrafterView, target: TargetFacts) -> None:
    """The width of one state and how many are fed, from fc and what is known of the target."""
    fc = view.shape(names.FC)
    declared = whole(view.config.get("target_hidden_size"))
    if target.hidden_size is not None:
        s.config("target.hidden_size", target.hidden_size, "hidden_size of the target's config.json")
    elif declared is not None:
        s.config("target.hidden_size", declared, "target_hidden_size")
    elif (hidden := s.value("wiring.hidden_size")) is not None:
        s.rule("target.hidden_size", hidden, "no target_hidden_size: every trainer read then takes the drafter's own")
    else:
        s.unknown("target.hidden_size", "neither the target nor target_hidden_size is given")
    width = s.value("target.hidden_size")
    if fc and len(fc) == 2 and width and fc[1] % width == 0:
        s.measured("states", fc[1] // width, f"columns of fc.weight / {width}")
    else:
        s.unknown("states", "fc.weight is not a whole number of target states wide" if fc else "fc.weight is not stored")
