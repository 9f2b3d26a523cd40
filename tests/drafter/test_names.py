"""Names of both dialects, and what a wiring needs, without torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from contract.errors import InputRejected
from eagle3_contract.drafter.names import canonical_name, name_table
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.wiring import LaterLayerNorm, NormBeforeFc, Owner

from .build import MLA, SMALL, small


@pytest.mark.parametrize(
    ("stored", "canonical"),
    [
        ("midlayer.self_attn.q_proj.weight", "layers.0.self_attn.q_proj.weight"),
        ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.q_proj.weight"),
        ("model.layers.0.hidden_norm.weight", "layers.0.hidden_norm.weight"),
        ("model.midlayer.input_layernorm.weight", "layers.0.input_layernorm.weight"),
        ("layers.2.mlp.up_proj.bias", "layers.2.mlp.up_proj.bias"),
        ("layers.1.post_attention_layernorm.weight", "layers.1.post_attention_layernorm.weight"),
        ("layers.0.self_attn.kv_a_proj_with_mqa.weight", "layers.0.self_attn.kv_a_proj_with_mqa.weight"),
        ("midlayer.self_attn.q_a_layernorm.weight", "layers.0.self_attn.q_a_layernorm.weight"),
        ("midlayer.self_attn.k_norm.weight", "layers.0.self_attn.k_norm.weight"),
        ("fc_norm.2.weight", "fc_norm.2.weight"),
        ("aux_norm_low.weight", "fc_norm.0.weight"),
        ("model.aux_norm_mid.weight", "fc_norm.1.weight"),
        ("aux_norm_high.weight", "fc_norm.2.weight"),
        ("input_norm.weight", "input_norm.weight"),
        ("fc.bias", "fc.bias"),
        ("model.norm.weight", "norm.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("model.embed_tokens.weight", "embed_tokens.weight"),
        ("d2t", "d2t"),
        ("t2d", "t2d"),
    ],
)
def test_every_dialect_has_one_canonical_spelling(stored: str, canonical: str) -> None:
    assert canonical_name(stored) == canonical


@pytest.mark.parametrize(
    "stored",
    [
        "target_model.model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.model.fc.weight",
        "layers.0.self_attn.qkv_proj.weight",
        "layers.00.mlp.up_proj.weight",
        "layers.-1.mlp.up_proj.weight",
        "layers.0.mlp.up_proj.weight.extra",
        "layers.0.hidden_norm.bias",
        "verifier_lm_head.weight",
        "midlayer.self_attn.q_proj.weight_scale",
        "fc_norm.x.weight",
        "medusa_head.0.weight",
        "",
    ],
)
def test_other_names_are_strange(stored: str) -> None:
    assert canonical_name(stored) is None
    assert name_table(["fc.weight", stored]).strange == (stored,)


def test_two_names_of_one_tensor_are_refused() -> None:
    with pytest.raises(InputRejected, match=r"layers\.0\.mlp\.up_proj\.weight.*midlayer") as caught:
        name_table(["fc.weight", "midlayer.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight"])
    assert caught.value.rule == "drafter.two-names-one-tensor"


def test_shapes_of_a_plain_drafter() -> None:
    shapes = tensor_shapes(replace(SMALL, embedding=Owner.TARGET))
    assert shapes == {
        "fc.weight": (16, 48),
        "layers.0.input_layernorm.weight": (16,),
        "layers.0.hidden_norm.weight": (16,),
        "layers.0.post_attention_layernorm.weight": (16,),
        "layers.0.self_attn.q_proj.weight": (32, 32),
        "layers.0.self_attn.k_proj.weight": (16, 32),
        "layers.0.self_attn.v_proj.weight": (16, 32),
        "layers.0.self_attn.o_proj.weight": (16, 32),
        "layers.0.mlp.gate_proj.weight": (24, 16),
        "layers.0.mlp.up_proj.weight": (24, 16),
        "layers.0.mlp.down_proj.weight": (16, 24),
        "norm.weight": (16,),
        "lm_head.weight": (24, 16),
    }


def test_each_switch_needs_just_its_own_tensors() -> None:
    plain = tensor_shapes(SMALL)

    def added(**changes: object) -> dict[str, tuple[int, ...]]:
        changed = tensor_shapes(small(**changes))
        assert plain.items() <= changed.items()
        return {name: shape for name, shape in changed.items() if name not in plain}

    def removed(**changes: object) -> set[str]:
        return plain.keys() - tensor_shapes(small(**changes)).keys()

    attention = "layers.0.self_attn."
    assert added(fc_bias=True) == {"fc.bias": (16,)}
    assert added(norms_before_fc=(NormBeforeFc.INPUT_NORM,)) == {"input_norm.weight": (48,)}
    assert added(norms_before_fc=(NormBeforeFc.FC_NORM,)) == {f"fc_norm.{i}.weight": (16,) for i in range(3)}
    assert added(qk_norm=True) == {f"{attention}q_norm.weight": (8,), f"{attention}k_norm.weight": (8,)}
    assert added(o_bias=True) == {f"{attention}o_proj.bias": (16,)}
    assert added(qkv_bias=True).keys() == {f"{attention}{n}_proj.bias" for n in "qkv"}
    assert added(layers=2)["layers.1.self_attn.q_proj.weight"] == (32, 16)
    assert "layers.1.hidden_norm.weight" not in added(layers=2)
    assert "layers.1.hidden_norm.weight" in added(layers=2, later_layer_norm=LaterLayerNorm.HIDDEN_NORM)
    assert removed(final_norm=False) == {"norm.weight"}
    assert removed(hidden_norm=False) == {"layers.0.hidden_norm.weight"}
    assert removed(lm_head=Owner.TIED_TO_OWN) == {"lm_head.weight"}
    assert removed(embedding=Owner.TARGET) == {"embed_tokens.weight"}
    assert removed(fc_applied=False, states=1) == {"fc.weight"}


def test_latent_attention_reads_the_concatenation() -> None:
    shapes = tensor_shapes(MLA)
    assert shapes["layers.0.self_attn.q_a_proj.weight"] == (12, 32)
    assert shapes["layers.0.self_attn.kv_a_proj_with_mqa.weight"] == (14, 32)
    assert shapes["layers.0.self_attn.kv_b_proj.weight"] == (44, 10)
    assert shapes["layers.0.self_attn.o_proj.weight"] == (16, 20)
    assert "layers.0.self_attn.k_proj.weight" not in shapes


def test_names_and_shapes_need_no_torch() -> None:
    code = "import sys, eagle3_contract.drafter.names, eagle3_contract.drafter.shapes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
