"""Files, kinds of drafter, tensors and owners."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from factory import Pair, Tensor, pair, tiny

from contract.files.writing import write_safetensors
from eagle3_contract.check.context import Integrity
from eagle3_contract.model.wiring import Feedback, LaterLayerNorm, NormBeforeFc, Owner
from incidents.case import Case, both, setting, without

W = "contract.wiring."


def tensor(shape: tuple[int, ...], dtype: str = "bfloat16") -> Tensor:
    return Tensor(np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(np.float32), dtype)


def drop(name: str) -> Any:
    return lambda p: p.tensors.pop(name)


def add(name: str, shape: tuple[int, ...]) -> Any:
    return lambda p: p.tensors.update({name: tensor(shape)})


def list_as(name: str, shape: tuple[int, ...], **more: Any) -> Any:
    entry = {"shape": list(shape), "dtype": "bfloat16", "stored": True, "used": "own", "content": "independent"} | more
    return setting(f"contract.tensors:{name}", entry)


def stating(name: str, part: str, value: str) -> Any:
    return lambda p: p.contract["tensors"][name].update({part: value})


def digested_rows() -> Pair:
    """Golden rows whose digest the contract states."""
    made = golden_rows()
    rows = b"rows"
    made.files["golden/golden.safetensors"] = rows
    made.contract["golden"]["sha256"] = "sha256:" + hashlib.sha256(rows).hexdigest()
    return made


def golden_rows() -> Pair:
    made = pair()
    made.contract["golden"] = {"file": "golden/golden.safetensors", "produced_by": "trainer"}
    return made


def beside_the_weights(made: Pair) -> None:
    made.contract["golden"]["file"] = "golden.safetensors"


def second_head(folder: Path) -> None:
    write_safetensors(folder / "zz.safetensors", {"lm_head.weight": tensor((24, 32)).encoded()})


def flip_a_byte(folder: Path) -> None:
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def cut_short(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])


def plain_llama(p: Pair) -> None:
    for name in ("fc.weight", "midlayer.hidden_norm.weight", "d2t", "t2d"):
        del p.tensors[name]
    for proj in ("q_proj", "k_proj", "v_proj"):
        old = p.tensors[f"midlayer.self_attn.{proj}.weight"]
        p.tensors[f"midlayer.self_attn.{proj}.weight"] = Tensor(old.values[:, :32], old.dtype)


def target_itself(p: Pair) -> None:
    plain_llama(p)
    for layer in range(1, 8):
        for name in [n for n in p.tensors if n.startswith("midlayer.")]:
            p.tensors[name.replace("midlayer.", f"layers.{layer}.")] = p.tensors[name]


def eagle_1(p: Pair) -> None:
    plain_llama(p)
    p.tensors["fc.weight"] = tensor((32, 64))


def listing(*names: str) -> Any:
    def change(p: Pair) -> None:
        for name in names:
            p.contract["drafter"]["files"][name] = "sha256:" + "1" * 64

    return change


def own_embedding() -> Pair:
    made = pair(tiny(embedding=Owner.OWN))
    made.contract["tensors"]["embed_tokens.weight"]["content"] = "target_copy"
    return made


def two_layers() -> Pair:
    return pair(tiny(layers=2, later_layer_norm=LaterLayerNorm.INPUT_LAYERNORM), dialect="layers")


def normed_concatenation() -> Pair:
    return pair(tiny(norms_before_fc=(NormBeforeFc.INPUT_NORM,)))


def normed_states() -> Pair:
    return pair(tiny(norms_before_fc=(NormBeforeFc.FC_NORM,), feedback=Feedback.POST_NORM), dialect="layers")


def without_fc(p: Pair) -> None:
    p.contract["tensors"].pop("fc.weight")
    p.contract["wiring"]["fc_applied"] = False


KINDS = (
    ("DFlash", setting("config.architectures", ["DFlashDraftModel"])),
    ("DFlash", setting("config.dflash_config", {"target_layer_ids": [1, 9], "block_size": 16})),
    ("DSpark", setting("config.architectures", ["DSparkDraftModel"])),
    ("Domino", setting("config.architectures", ["DominoDraftModel"])),
    ("P-EAGLE", setting("config.architectures", ["PEagleDraftModel"])),
    ("P-EAGLE", setting("config.parallel_drafting", True)),
    ("P-EAGLE", setting("config.eagle_config.parallel_draft_step", 4)),
    ("P-EAGLE", add("parallel_draft_heads.medusa_heads.0.0.linear.weight", (32, 32))),
    ("DFlash", both(setting("config.target_layer_ids", [1, 3, 4]), setting("config.block_size", 16))),
    ("Medusa", add("medusa_heads.0.0.linear.weight", (32, 32))),
    ("EAGLE-1", setting("config.architectures", ["LlamaForCausalLMEagle"])),
    ("EAGLE-1", setting("config.architectures", ["EagleLlamaForCausalLM"])),
    ("a drafter without fc", drop("fc.weight")),
    ("a drafter without fc", both(drop("fc.weight"), without_fc)),
    ("Medusa", add("medusa_head.0.0.linear.weight", (32, 32))),
    ("MTP", setting("config.architectures", ["DeepseekV3ForCausalLMNextN"])),
    ("MTP", both(add("eh_proj.weight", (32, 64)), add("enorm.weight", (32,)))),
    ("EAGLE-1", eagle_1),
    ("a plain language model", plain_llama),
    ("the target itself", target_itself),
    ("a speculators eagle drafter", setting("config.speculators_model_type", "eagle")),
)

CASES = (
    *(
        Case(name=f"kind-{i}-{kind.replace(' ', '-')}", rule="drafter.kind", change=change, says=(kind,))
        for i, (kind, change) in enumerate(KINDS)
    ),
    Case(
        name="architecture-of-another-trainer",
        rule="config.architecture",
        change=setting("config.architectures", ["Eagle3LlamaForCausalLM"]),
    ),
    Case(name="no-architectures", rule="config.architecture", change=without("config.architectures")),
    Case(
        name="golden-rows-are-others",
        rule="golden.digest",
        base=digested_rows,
        change=lambda p: p.contract["golden"].update(sha256="sha256:" + "0" * 64),
        says=("golden/golden.safetensors is not the file",),
    ),
    Case(
        name="golden-rows-among-the-weights",
        rule="drafter.golden-apart",
        base=golden_rows,
        change=beside_the_weights,
        exit=0,
        warns=True,
        says=("golden.safetensors",),
    ),
    Case(name="unlisted-file", rule="drafter.file-unlisted", after=lambda f: (f / "config.py").write_text("x = 1\n"), says=("config.py",)),
    Case(name="unlisted-folder", rule="drafter.file-unlisted", after=lambda f: (f / "original").mkdir(), says=("original",)),
    Case(name="second-lm-head", rule="files.tensor-in-two-files", after=second_head, exit=2, says=("lm_head.weight", "zz.safetensors")),
    Case(name="second-lm-head-is-unlisted-too", rule="drafter.file-unlisted", after=second_head, exit=2, says=("zz.safetensors",)),
    Case(
        name="listed-file-missing", rule="drafter.file-missing", change=listing("generation_config.json"), says=("generation_config.json",)
    ),
    Case(name="no-config", rule="drafter.config-missing", after=lambda f: (f / "config.json").unlink()),
    Case(name="config-is-a-list", rule="drafter.config-not-object", change=lambda p: setattr(p, "raw_config", b"[]"), exit=2),
    Case(name="config-with-nan", rule="files.json-constant", change=lambda p: setattr(p, "raw_config", b'{"rope_theta": NaN}'), exit=2),
    Case(name="config-key-twice", rule="files.json-duplicate-key", change=lambda p: setattr(p, "raw_config", b'{"a": 1, "a": 2}'), exit=2),
    Case(name="weights-cut-short", rule="files.data-truncated", after=cut_short, exit=2),
    Case(name="digest", rule="drafter.digest", after=flip_a_byte, integrity=Integrity.DIGESTS, says=("model.safetensors",)),
    Case(
        name="digest-of-config",
        rule="drafter.digest",
        after=lambda f: (f / "config.json").write_text(json.dumps(json.loads((f / "config.json").read_text()))),
        integrity=Integrity.DIGESTS,
        says=("config.json",),
    ),
    Case(name="fc-missing", rule="tensors.missing", change=drop("fc.weight"), says=("fc.weight",)),
    Case(name="lm-head-missing", rule="tensors.missing", change=drop("lm_head.weight"), says=("lm_head.weight",)),
    Case(name="lm-head-missing-for-the-wiring", rule="wiring.embedding-and-head", change=drop("lm_head.weight")),
    Case(name="tensor-deleted-in-contract", rule="tensors.unexpected", change=without("contract.tensors.t2d"), says=("t2d",)),
    Case(
        name="fc-deleted-on-both-sides",
        rule="wiring.fc-width",
        change=both(drop("fc.weight"), lambda p: p.contract["tensors"].pop("fc.weight")),
    ),
    Case(
        name="leaked-target-buffers",
        rule="tensors.unexpected",
        change=add("target_model.rotary_emb.inv_freq", (6,)),
        says=("target_model",),
    ),
    Case(name="unknown-tensor", rule="tensors.unexpected", change=add("adapter.weight", (4, 4)), says=("no EAGLE-3 drafter has",)),
    Case(
        name="stored-though-contract-says-not",
        rule="tensors.unexpected",
        change=add("embed_tokens.weight", (96, 32)),
        says=("says that it does not",),
    ),
    Case(
        name="one-tensor-two-names",
        rule="tensors.named-twice",
        change=add("layers.0.hidden_norm.weight", (32,)),
        says=("midlayer.hidden_norm",),
    ),
    Case(name="prefixed-twin", rule="tensors.named-twice", change=add("model.norm.weight", (32,))),
    Case(
        name="embedding-not-listed",
        rule="tensors.owner",
        change=lambda p: p.contract["tensors"].pop("embed_tokens.weight"),
        says=("no entry for embed_tokens.weight",),
    ),
    *(
        Case(name=f"used-{name}-{used}", rule="tensors.used", change=stating(name, "used", used), says=(name,))
        for name, used in (("fc.weight", "target"), ("fc.weight", "not_used"), ("norm.weight", "tied_to_own"), ("d2t", "not_used"))
    ),
    *(
        Case(name=f"content-{name}-{content}", rule="tensors.used", change=stating(name, "content", content), says=(name,))
        for name, content in (("fc.weight", "map"), ("fc.weight", "target_copy"), ("t2d", "independent"), ("lm_head.weight", "map"))
    ),
    Case(
        name="used-though-no-drafter-has-it",
        rule="tensors.used",
        change=both(add("adapter.weight", (4, 4)), list_as("adapter.weight", (4, 4))),
        says=("adapter.weight",),
    ),
    Case(
        name="used-though-not-stored",
        rule="tensors.used",
        change=both(
            drop("t2d"), setting("contract.tensors:t2d", {"shape": [96], "dtype": "bool", "stored": False, "used": "own", "content": "map"})
        ),
        says=("not stored",),
    ),
    Case(
        name="listed-shape",
        rule="tensors.shape",
        change=setting("contract.tensors:d2t", {"shape": [23], "dtype": "int64", "stored": True, "used": "own", "content": "map"}),
    ),
    Case(
        name="listed-dtype",
        rule="tensors.dtype",
        change=lambda p: setattr(p.tensors["norm.weight"], "dtype", "float32"),
        says=("norm.weight", "float32"),
    ),
    Case(
        name="owner-contradiction",
        rule="tensors.owner",
        change=setting(
            "contract.tensors:lm_head.weight",
            {"shape": [24, 32], "dtype": "bfloat16", "stored": True, "used": "target", "content": "independent"},
        ),
    ),
    Case(
        name="own-embedding-not-stored",
        rule="tensors.owner",
        base=own_embedding,
        change=list_as("embed_tokens.weight", (96, 32), stored=False),
    ),
    Case(
        name="own-embedding-random",
        rule="tensors.own-embedding-served",
        base=own_embedding,
        change=list_as("embed_tokens.weight", (96, 32)),
        exit=0,
    ),
    Case(
        name="head-of-another-vocabulary",
        rule="wiring.embedding-and-head",
        change=lambda p: p.tensors.update({"lm_head.weight": tensor((25, 32))}),
    ),
    Case(
        name="fc-for-one-state-more",
        rule="wiring.fc-width",
        change=lambda p: p.tensors.update({"fc.weight": tensor((32, 128))}),
        says=("4 states", "recipe has 3"),
    ),
    Case(
        name="fc-no-multiple",
        rule="wiring.fc-width",
        change=lambda p: p.tensors.update({"fc.weight": tensor((32, 100))}),
        says=("no multiple",),
    ),
    Case(
        name="state-deleted-in-contract",
        rule="wiring.fc-width",
        change=setting("contract.hidden_states.boundaries", [2, 4]),
        says=("3 states", "recipe has 2"),
    ),
    Case(
        name="q-proj-of-a-plain-decoder",
        rule="wiring.attention-shapes",
        change=lambda p: p.tensors.update({"midlayer.self_attn.q_proj.weight": tensor((48, 32))}),
    ),
    Case(
        name="kv-heads",
        rule="wiring.attention-shapes",
        change=lambda p: p.tensors.update({"midlayer.self_attn.k_proj.weight": tensor((48, 64))}),
    ),
    Case(
        name="mlp-width", rule="wiring.mlp-shapes", change=lambda p: p.tensors.update({"midlayer.mlp.down_proj.weight": tensor((32, 40))})
    ),
    Case(name="hidden-norm-missing", rule="wiring.norms", change=drop("midlayer.hidden_norm.weight")),
    Case(name="input-norm-missing", rule="wiring.norms", base=normed_concatenation, change=drop("input_norm.weight")),
    Case(
        name="input-norm-unused",
        rule="wiring.norms",
        change=both(add("input_norm.weight", (96,)), list_as("input_norm.weight", (96,))),
        says=("does not use it",),
    ),
    Case(name="fc-norm-of-one-state-missing", rule="wiring.norms", base=normed_states, change=drop("fc_norm.1.weight")),
    Case(
        name="q-norm-unused",
        rule="wiring.norms",
        change=both(add("midlayer.self_attn.q_norm.weight", (12,)), list_as("layers.0.self_attn.q_norm.weight", (12,))),
    ),
    Case(name="final-norm-missing", rule="wiring.norms", change=drop("norm.weight")),
    Case(name="bias-missing", rule="wiring.biases", base=lambda: pair(tiny(fc_bias=True)), change=drop("fc.bias")),
    Case(
        name="bias-unused",
        rule="wiring.biases",
        change=both(add("midlayer.self_attn.q_proj.bias", (48,)), list_as("layers.0.self_attn.q_proj.bias", (48,))),
    ),
    Case(
        name="two-layers-one-stored",
        rule="wiring.layer-count",
        base=two_layers,
        change=lambda p: [p.tensors.pop(n) for n in list(p.tensors) if n.startswith("layers.1.")],
    ),
    Case(name="config-says-40-layers", rule="config.layers", change=setting("config.num_hidden_layers", 40), says=("40",)),
    Case(name="one-layer-more-stored", rule="wiring.layer-count", change=add("layers.1.self_attn.o_proj.weight", (32, 48))),
    Case(name="contract-does-not-list-its-own", rule="wiring.tensors-listed", change=lambda p: p.contract["tensors"].pop("norm.weight")),
    Case(name="contract-shape-against-wiring", rule="wiring.tensors-listed", change=list_as("norm.weight", (31,))),
)
