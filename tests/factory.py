"""A tiny drafter of any wiring, with the contract that it keeps: for every test that needs files to break.

``pair(...)`` makes both in memory; a test changes what it wants wrong and calls ``write``. No torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from contract.files.writing import write_safetensors
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, T2D
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.states import State
from eagle3_contract.model.wiring import Attention, LaterLayerNorm, Mla, NormBeforeFc, Owner, Rope, Wiring

DIGEST = "sha256:" + "0" * 64
LAYERS = 8
MLA = Mla(q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
_CODES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "int64": "I64", "int32": "I32", "int16": "I16", "bool": "BOOL"}
AS_THEY_ARE = (
    *("layers", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "fc_applied", "fc_bias", "hidden_norm", "double_norm"),
    *("norm_before_residual", "final_norm", "window", "window_follows_steps", "qk_norm", "qkv_bias", "o_bias", "mlp_bias"),
    *("rms_norm_eps", "hidden_act", "attention_scale", "logit_scale"),
)
"""Fields of ``Wiring`` that the contract has under the same name and value."""


@dataclass
class Tensor:
    """Values and the dtype they are stored in. bfloat16 is made from float32 by cutting it off."""

    values: NDArray[Any]
    dtype: str

    def encoded(self) -> tuple[str, Sequence[int], bytes]:
        values = np.ascontiguousarray(self.values)
        if self.dtype == "bfloat16":
            data = (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        else:
            data = values.astype(self.dtype).tobytes()
        return _CODES[self.dtype], values.shape, data


@dataclass
class Pair:
    """A drafter and its contract, both still to be written. Everything may be changed before."""

    contract: dict[str, Any]
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    files: dict[str, bytes] = field(default_factory=dict)
    raw_config: bytes | None = None
    record_digests: bool = True

    def write(self, folder: Path, *, name: str = "contract.yaml") -> Path:
        """Write drafter and contract into one folder; returns the contract's path. Listed files get their true digests."""
        folder.mkdir(parents=True, exist_ok=True)
        text = self.raw_config if self.raw_config is not None else json.dumps(self.config, indent=1).encode()
        (folder / "config.json").write_bytes(text)
        if self.tensors:
            write_safetensors(folder / "model.safetensors", {n: t.encoded() for n, t in self.tensors.items()}, {"format": "pt"})
        for other, data in self.files.items():
            (folder / other).parent.mkdir(parents=True, exist_ok=True)
            (folder / other).write_bytes(data)
        if self.record_digests:
            listed = self.contract["drafter"]["files"]
            for listed_name in listed:
                if (folder / listed_name).is_file():
                    listed[listed_name] = "sha256:" + hashlib.sha256((folder / listed_name).read_bytes()).hexdigest()
        return write_contract(folder / name, self.contract)


def write_contract(path: Path, contract: Mapping[str, Any]) -> Path:
    """Write a contract as YAML."""
    path.write_text(yaml.safe_dump(contract, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def tiny(**changes: Any) -> Wiring:
    """A plain EAGLE-3 wiring, small: hidden 32, 4 heads of 12, 96 target tokens, 24 draft tokens, three states."""
    plain = Wiring(
        hidden_size=32,
        target_hidden_size=32,
        states=3,
        layers=1,
        heads=4,
        kv_heads=2,
        head_dim=12,
        intermediate_size=48,
        draft_vocab_size=24,
        target_vocab_size=96,
        rms_norm_eps=1e-5,
        hidden_act="silu",
        rope=Rope(theta=10000.0, table_length=256, rotary_dim=12),
    )
    return replace(plain, **changes)


def pair(
    wiring: Wiring | None = None,
    *,
    boundaries: Sequence[State] = (2, 4, 5),
    ids: Sequence[int] | None = (1, 3, 4),
    layout: str = "nested",
    dialect: str = "midlayer",
    dtype: str = "bfloat16",
    t2d: bool = True,
    target_layers: int = LAYERS,
    seed: int = 0,
) -> Pair:
    """A drafter whose checkpoint keeps its contract.

    Args:
        wiring: of training; ``tiny()`` by default. Its ``states`` follow from ``boundaries``.
        ids: layer ids in config.json (under the nested key, or the top-level one for other layouts); None leaves them out.
        layout: ``flat``, ``nested`` or ``speculators``.
        dialect: ``midlayer`` or ``layers``, for the names of the first layer.
    """
    w = replace(wiring or tiny(), states=len(boundaries))
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = dict(tensor_shapes(w))
    tensors = {n: Tensor(_weights(rng, s), dtype) for n, s in shapes.items()}
    full = w.draft_vocab_size == w.target_vocab_size
    if not full:
        targets = vocab_targets(w, rng)
        tensors[D2T] = Tensor(targets - np.arange(w.draft_vocab_size), "int64")
        if t2d:
            mask = np.zeros(w.target_vocab_size, dtype=bool)
            mask[targets] = True
            tensors[T2D] = Tensor(mask, "bool")
    contract = _contract(w, boundaries, tensors, full, target_layers)
    config = _config(w, ids, layout, dtype, target_layers)
    contract["wiring"]["architecture"] = config["architectures"][0]
    stored = {(n.replace("layers.0.", "midlayer.") if dialect == "midlayer" else n): t for n, t in tensors.items()}
    return Pair(contract=contract, config=config, tensors=stored)


def vocab_targets(w: Wiring, rng: np.random.Generator) -> NDArray[np.int64]:
    """Target ids of the draft vocabulary: the lowest third, then a sorted choice, as trainers make them from token counts."""
    low = w.draft_vocab_size // 3
    rest = rng.choice(np.arange(low, w.target_vocab_size), size=w.draft_vocab_size - low, replace=False)
    return np.concatenate([np.arange(low), np.sort(rest)]).astype(np.int64)


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    if len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    scale = np.exp(0.5 * rng.standard_normal((shape[0], 1)))
    return (rng.standard_normal(shape) * scale / np.sqrt(shape[-1])).astype(np.float32)


def _contract(w: Wiring, boundaries: Sequence[State], tensors: Mapping[str, Tensor], full: bool, layers: int) -> dict[str, Any]:
    rope = {
        "type": w.rope.type,
        "theta": w.rope.theta,
        "scaling": {k: list(v) if isinstance(v, tuple) else v for k, v in w.rope.scaling.items()},
    }
    rope |= {"table_length": w.rope.table_length or 256, "rotary_dim": w.rope.rotary_dim or w.head_dim, "interleaved": w.rope.interleaved}
    wiring: dict[str, Any] = {"architecture": "LlamaForCausalLMEagle3"} | {name: getattr(w, name) for name in AS_THEY_ARE}
    wiring |= {name: getattr(w, name).value for name in ("attention", "feedback", "concat_order", "embedding", "lm_head")}
    wiring |= {"norms_before_fc": [n.value for n in w.norms_before_fc], "rope": rope}
    wiring["later_layer_norm"] = (LaterLayerNorm.NONE if w.layers == 1 else w.later_layer_norm).value
    wiring["mla"] = None if w.mla is None else {name: getattr(w.mla, name) for name in w.mla.__dataclass_fields__}
    listed: dict[str, Any] = {}
    for name, tensor in tensors.items():
        content = "map" if name in (D2T, T2D) else "independent"
        used = "not_used" if name == T2D else "own"
        listed[name] = {"shape": list(tensor.values.shape), "dtype": tensor.dtype, "stored": True, "used": used, "content": content}
    for name, owner, rows in ((EMBEDDING, w.embedding, w.target_vocab_size), (HEAD, w.lm_head, w.draft_vocab_size)):
        if name not in listed:
            shape, dtype = [rows, w.hidden_size], next(t.dtype for t in tensors.values())
            listed[name] = {"shape": shape, "dtype": dtype, "stored": False, "used": owner.value, "content": "target_copy"}
    return {
        "schema_version": 1,
        "kind": "eagle3",
        "drafter": {"path": ".", "files": {"config.json": DIGEST, "model.safetensors": DIGEST}},
        "target": {
            "id": "example/tiny-target",
            "revision": "main",
            "model_type": "llama",
            "layers": layers,
            "hidden_size": w.target_hidden_size,
            "dtype": "bfloat16",
            "quantization": "none",
            "tokenizer_sha256": DIGEST,
            "fingerprint": {"unknown": "the tiny target has no weights"},
        },
        "hidden_states": {"boundaries": list(boundaries), "point": "residual"},
        "vocab": {
            "draft_size": w.draft_vocab_size,
            "target_size": w.target_vocab_size,
            "target_padded_size": w.target_vocab_size,
            "present": not full,
            "map": "identity" if full else "offset",
        },
        "wiring": wiring,
        "alignment": {"token_shift": w.token_shift, "positions_start": w.positions_start, "step_positions": w.step_positions.value},
        "tensors": listed,
        "training": {
            "trainer": "specforge",
            "version": "0.2.0",
            "commit": {"unknown": "made by a test"},
            "rollout": "teacher",
            "max_length": 2048,
            "target_state": {"boundary": layers, "normed": True, "norm_applied_by_trainer": False},
            "data": {
                "chat_template_sha256": {"unknown": "plain text"},
                "thinking": "none",
                "modality": "text",
                "packed": False,
                "loss_mask_rule": "mask_of_state",
            },
            "samples": {"path": None, "count": 0, "states": list(boundaries), "manifest": {}},
            "metrics": {"definition": "specforge.acc", "accuracy": [0.7]},
        },
        "golden": None,
        "serving": {"steps": 3, "topk": 1, "draft_tokens": 4},
        "acceptance": {
            "aggregation": "pooled",
            "counts_bonus": True,
            "counts_prefill": False,
            "k": 3,
            "temperature": 0.0,
            "floor": {"unknown": "not measured"},
            "baselines": [],
        },
        "tolerances": {"states": None, "logits": None},
    }


def _config(w: Wiring, ids: Sequence[int] | None, layout: str, dtype: str, target_layers: int) -> dict[str, Any]:
    decoder: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": w.hidden_size,
        "intermediate_size": w.intermediate_size,
        "num_hidden_layers": w.layers,
        "num_attention_heads": w.heads,
        "num_key_value_heads": w.kv_heads,
        "head_dim": w.head_dim,
        "vocab_size": w.target_vocab_size,
        "rms_norm_eps": w.rms_norm_eps,
        "hidden_act": w.hidden_act,
        "max_position_embeddings": w.rope.table_length or 256,
        "rope_theta": w.rope.theta,
        "attention_bias": w.qkv_bias or w.o_bias,
        "mlp_bias": w.mlp_bias,
        "tie_word_embeddings": w.lm_head in (Owner.TIED_TO_OWN, Owner.TIED_TO_TARGET),
    }
    if w.rope.type != "default":
        decoder["rope_scaling"] = {"rope_type": w.rope.type} | {
            k: list(v) if isinstance(v, tuple) else v for k, v in w.rope.scaling.items()
        }
    if w.window is not None:
        decoder["sliding_window"] = w.window
    if w.attention is Attention.MLA and w.mla is not None:
        del decoder["head_dim"]
        decoder |= {n: getattr(w.mla, n) for n in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
    flags: dict[str, Any] = {"draft_vocab_size": w.draft_vocab_size}
    if w.target_hidden_size != w.hidden_size:
        flags["target_hidden_size"] = w.target_hidden_size
    for name, on in (
        ("norm_before_residual", w.norm_before_residual),
        ("norm_output", w.feedback.value == "post_norm"),
        ("bias", w.fc_bias),
    ):
        if on or (layout == "speculators" and name != "bias"):
            flags[name] = on
    for name, norm in (("norm_before_fc", NormBeforeFc.INPUT_NORM), ("fc_norm", NormBeforeFc.FC_NORM)):
        if norm in w.norms_before_fc:
            flags[name] = True
    architecture = "Eagle3DeepseekV2ForCausalLM" if w.attention is Attention.MLA else "LlamaForCausalLMEagle3"
    if layout == "speculators":
        config = {
            "architectures": ["Eagle3DraftModel"],
            "speculators_model_type": "eagle3",
            "dtype": dtype,
            "transformer_layer_config": decoder,
        }
        config |= flags | {"tie_word_embeddings": decoder["tie_word_embeddings"]}
    else:
        config = {"architectures": [architecture], "torch_dtype": dtype} | decoder | flags
    if layout == "nested":
        config["eagle_config"] = {"use_aux_hidden_state": True} | ({} if ids is None else {"eagle_aux_hidden_state_layer_ids": list(ids)})
    elif ids is not None:
        config["eagle_aux_hidden_state_layer_ids"] = list(ids)
    return config
