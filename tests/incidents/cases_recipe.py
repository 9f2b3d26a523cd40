"""Recipe, vocab map and target."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from factory import Pair, Tensor, pair, tiny

from contract.files.checkpoint import Checkpoint
from contract.files.writing import write_safetensors
from eagle3_contract.check.context import Integrity
from eagle3_contract.model.fingerprint import fingerprint
from eagle3_contract.model.wiring import Owner
from incidents.case import Case, both, setting, without

TARGET = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96}
EMPTY_OBJECT = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
"""Digest of a tokenizer.json that holds {}."""
IDS = "config.eagle_config.eagle_aux_hidden_state_layer_ids"


def seed_recipe() -> Pair:
    """Embedding and two layers, as in the seed, in the convention of engines that read id k as boundary k."""
    return pair(boundaries=(0, 3, 5), ids=(0, 3, 5))


def after_layer() -> Pair:
    """Ids that name outputs of layers."""
    return pair(boundaries=(0, 3, 5), ids=(-1, 2, 4))


def defaults() -> Pair:
    return pair(ids=None, layout="flat")


def final_only() -> Pair:
    made = pair(boundaries=("final_norm",), ids=None)
    made.config["eagle_config"]["use_aux_hidden_state"] = False
    return made


def d2t(change: Any, dtype: str = "int64") -> Any:
    """Replace the map by a function of it."""

    def apply(p: Pair) -> None:
        p.tensors["d2t"] = Tensor(change(p.tensors["d2t"].values), dtype)
        p.contract["tensors"]["d2t"].update(shape=list(p.tensors["d2t"].values.shape), dtype=dtype)

    return apply


def shuffled() -> Pair:
    """An unsorted map with negative offsets, as ModelOpt writes it, and no mask."""
    made = pair(t2d=False)
    offsets = made.tensors["d2t"].values
    targets = np.random.default_rng(3).permutation(offsets + np.arange(len(offsets)))
    made.tensors["d2t"] = Tensor(targets - np.arange(len(offsets)), "int64")
    return made


def absolute(values: Any) -> Any:
    return values + np.arange(len(values))


def put(values: Any, at: int, value: int) -> Any:
    changed = values.copy()
    changed[at] = value
    return changed


def flip_mask(p: Pair) -> None:
    mask = p.tensors["t2d"].values.copy()
    on, off = int(np.flatnonzero(mask)[-1]), int(np.flatnonzero(~mask)[0])
    mask[[on, off]] = mask[[off, on]]
    p.tensors["t2d"] = Tensor(mask, "bool")


def full_vocabulary() -> Pair:
    return pair(tiny(draft_vocab_size=96))


def target(**changes: Any) -> Any:
    """A target's config.json beside the drafter."""

    def write(folder: Path) -> Path:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(TARGET | changes))
        return folder / "config.json"

    return write


def target_tensors() -> dict[str, Tensor]:
    rng = np.random.default_rng(11)
    shapes = {"model.embed_tokens.weight": (96, 32), "lm_head.weight": (96, 32), "model.norm.weight": (32,)}
    return {n: Tensor(rng.standard_normal(s).astype(np.float32), "bfloat16") for n, s in shapes.items()}


def target_folder(folder: Path) -> Path:
    """A target's folder with a tokenizer and its weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TARGET))
    (folder / "tokenizer.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", {n: t.encoded() for n, t in target_tensors().items()})
    return folder


def with_target_rows() -> Pair:
    """Embedding and head are the target's: a copy, and the rows of the draft vocabulary."""
    made = pair(tiny(embedding=Owner.OWN))
    theirs = target_tensors()
    ids = made.tensors["d2t"].values + np.arange(24)
    made.tensors["embed_tokens.weight"] = theirs["model.embed_tokens.weight"]
    made.tensors["lm_head.weight"] = Tensor(theirs["lm_head.weight"].values[ids], "bfloat16")
    made.contract["tensors"]["embed_tokens.weight"]["content"] = "target_copy"
    made.contract["tensors"]["lm_head.weight"]["content"] = "target_rows"
    with TemporaryDirectory() as folder:
        write_safetensors(Path(folder) / "model.safetensors", {n: t.encoded() for n, t in theirs.items()})
        made.contract["target"]["fingerprint"] = fingerprint(Checkpoint.open(folder).tensors)
    made.contract["target"]["tokenizer_sha256"] = EMPTY_OBJECT
    return made


def pruned_by_offset(p: Pair) -> None:
    """TorchSpec's prune: rows picked by d2t[i] instead of i + d2t[i]."""
    rows = target_tensors()["lm_head.weight"].values[p.tensors["d2t"].values]
    p.tensors["lm_head.weight"] = Tensor(rows, "bfloat16")


def random_embedding(p: Pair) -> None:
    values = np.random.default_rng(2).standard_normal((96, 32)).astype(np.float32)
    p.tensors["embed_tokens.weight"] = Tensor(values, "bfloat16")


def stale_embedding(p: Pair) -> None:
    """The embedding of an earlier checkpoint of the target."""
    table = p.tensors["embed_tokens.weight"].values
    values = table + 0.2 * np.random.default_rng(2).standard_normal(table.shape).astype(np.float32)
    p.tensors["embed_tokens.weight"] = Tensor(values, "bfloat16")


def list_as_config(folder: Path) -> Path:
    """A config.json that is no object."""
    folder.mkdir()
    (folder / "config.json").write_text("[1]")
    return folder


def with_tokenizer() -> Pair:
    made = pair()
    made.contract["target"]["tokenizer_sha256"] = EMPTY_OBJECT
    return made


def padded() -> Pair:
    """The target has 96 tokens and 128 rows."""
    made = pair()
    made.contract["vocab"]["target_padded_size"] = 128
    made.config["vocab_size"] = 128
    return made


def named_verifier() -> Pair:
    made = pair(layout="speculators", ids=(2, 4, 5), dialect="layers")
    made.config["speculators_config"] = {"verifier": {"name_or_path": "example/tiny-target"}}
    return made


RECIPE = "contract.hidden_states.boundaries"
CASES = (
    Case(name="recipe-unknown", rule="recipe.known", change=setting(RECIPE, {"unknown": "nobody wrote it down"}), exit=3),
    Case(name="recipe-empty", rule="recipe.known", change=setting(RECIPE, [])),
    Case(name="boundary-beyond-the-target", rule="recipe.in-range", change=setting(RECIPE, [2, 4, 9]), says=("0 to 8", "9")),
    Case(name="state-twice", rule="recipe.distinct", change=setting(RECIPE, [2, 4, 4])),
    Case(
        name="seed-ids-of-another-recipe",
        rule="recipe.config-ids",
        base=seed_recipe,
        change=setting(IDS, [3, 5, 7]),
        says=("[3, 5, 7]", "[0, 3, 5]"),
    ),
    Case(name="contract-says-another-recipe", rule="recipe.config-ids", change=setting(RECIPE, [0, 3, 5])),
    Case(
        name="ids-missing-from-config",
        rule="recipe.config-names-states",
        base=seed_recipe,
        change=without(IDS),
        says=("[2, 4, 5]", "[0, 3, 5]"),
        exit=0,
        warns=True,
    ),
    Case(name="ids-after-layer-off-by-one", rule="recipe.config-ids", base=after_layer, change=setting(IDS, [1, 2, 4])),
    Case(
        name="contract-off-by-one-under-defaults",
        rule="recipe.config-names-states",
        exit=0,
        base=defaults,
        change=setting(RECIPE, [3, 5, 6]),
        says=("[2, 4, 5]",),
    ),
    Case(
        name="ids-under-a-key-that-nobody-reads",
        rule="recipe.config-names-states",
        exit=0,
        base=lambda: pair(boundaries=(1, 4, 7), ids=(0, 3, 6)),
        change=both(without(IDS), setting("config.aux_hidden_states_layer_ids", [0, 3, 6])),
        says=("aux_hidden_states_layer_ids",),
    ),
    Case(name="ids-as-text", rule="recipe.config-ids-valid", change=setting(IDS, "1,3,4"), says=("no list",)),
    Case(name="ids-as-strings", rule="recipe.config-ids-valid", change=setting(IDS, ["1", "3", "4"])),
    Case(name="ids-reversed", rule="recipe.config-ids-valid", change=setting(IDS, [4, 3, 1]), says=("ascending",)),
    Case(name="ids-twice", rule="recipe.config-ids-valid", change=setting(IDS, [1, 3, 3]), says=("duplicates",)),
    Case(name="ids-bool", rule="recipe.config-ids-valid", change=setting(IDS, [True, 3, 4])),
    Case(
        name="aux-states-switched-off",
        rule="recipe.use-aux-hidden-state",
        change=setting("config.eagle_config.use_aux_hidden_state", False),
    ),
    Case(
        name="final-state-with-aux-on",
        rule="recipe.use-aux-hidden-state",
        base=final_only,
        change=setting("config.eagle_config.use_aux_hidden_state", True),
    ),
    Case(name="top-level-ids-disagree", rule="recipe.config-ids", change=setting("config.eagle_aux_hidden_state_layer_ids", [1, 2, 3])),
    Case(name="direct-map", rule="vocab.map-kind", change=d2t(absolute), says=("absolute", "offset", "add i")),
    Case(name="direct-map-unsorted", rule="vocab.map-values", base=shuffled, change=d2t(lambda v: v + 96), says=("no map",)),
    Case(name="map-of-zeros", rule="vocab.map-kind", change=d2t(np.zeros_like), says=("never written",)),
    Case(
        name="map-of-zeros-without-mask", rule="vocab.map-kind", base=lambda: pair(t2d=False), change=d2t(np.zeros_like), says=("identity",)
    ),
    Case(name="contract-says-direct-map", rule="vocab.map-kind", change=setting("contract.vocab.map", "absolute")),
    Case(name="map-out-of-range", rule="vocab.map-values", change=d2t(lambda v: put(v, -1, 96)), says=("outside",)),
    Case(name="map-negative-target", rule="vocab.map-values", change=d2t(lambda v: put(v, 3, -5)), says=("negative",)),
    Case(name="map-duplicate-target", rule="vocab.map-values", change=d2t(lambda v: put(v, 1, v[0] - 1)), says=("twice",)),
    Case(name="map-as-float", rule="vocab.map-dtype", change=d2t(lambda v: v, "float32"), says=("float32",)),
    Case(name="map-as-int16", rule="vocab.map-dtype", change=d2t(lambda v: v, "int16")),
    Case(name="map-too-short", rule="vocab.map-length", change=d2t(lambda v: v[:-1]), says=("[23]",)),
    Case(name="map-missing", rule="vocab.map-present", change=lambda p: p.tensors.pop("d2t")),
    Case(name="map-though-none-is-said", rule="vocab.map-present", change=setting("contract.vocab.present", False)),
    Case(
        name="map-for-a-full-vocabulary",
        rule="vocab.map-present",
        base=full_vocabulary,
        change=lambda p: p.tensors.update(d2t=Tensor(np.zeros(96), "int64")),
    ),
    Case(name="mask-marks-other-tokens", rule="vocab.t2d-agrees", change=flip_mask, says=("contradicts",)),
    Case(name="mask-short", rule="vocab.map-length", change=lambda p: p.tensors.update(t2d=Tensor(p.tensors["t2d"].values[:-1], "bool"))),
    Case(
        name="identity-for-a-reduced-vocabulary",
        rule="vocab.identity-stated",
        change=both(
            d2t(np.zeros_like), lambda p: p.tensors.pop("t2d"), without("contract.tensors.t2d"), setting("contract.vocab.map", "identity")
        ),
        exit=3,
        says=("24 of 96", "nothing says that training had it so"),
    ),
    Case(
        name="identity-without-a-map-for-a-reduced-vocabulary",
        rule="vocab.identity-stated",
        change=both(
            lambda p: [p.tensors.pop(name) for name in ("d2t", "t2d")],
            without("contract.tensors.t2d"),
            without("contract.tensors.d2t"),
            setting("contract.vocab.map", "identity"),
            setting("contract.vocab.present", False),
        ),
        exit=3,
        says=("24 of 96", "nothing says that training had it so"),
    ),
    Case(
        name="identity-that-somebody-declared",
        rule="vocab.coverage",
        change=both(
            lambda p: [p.tensors.pop(name) for name in ("d2t", "t2d")],
            without("contract.tensors.t2d"),
            without("contract.tensors.d2t"),
            setting("contract.vocab.map", {"value": "identity", "evidence": "declared", "note": "trained on the first ids"}),
            setting("contract.vocab.present", False),
        ),
        exit=0,
        says=("24 of 96",),
    ),
    Case(
        name="another-family",
        rule="target.model-type",
        target=target(),
        change=setting("contract.target.model_type", "qwen3"),
        says=("llama", "qwen3"),
    ),
    Case(name="another-size", rule="target.layers", target=target(), change=setting("contract.target.layers", 9)),
    Case(name="another-width", rule="target.hidden-size", target=target(), change=setting("contract.target.hidden_size", 48)),
    Case(
        name="another-vocabulary",
        rule="target.vocab-size",
        target=target(),
        change=both(setting("contract.vocab.target_size", 90), setting("contract.vocab.target_padded_size", 90)),
    ),
    Case(
        name="padding-not-declared",
        rule="target.vocab-size",
        base=padded,
        target=target(vocab_size=128),
        change=setting("contract.vocab.target_padded_size", 96),
    ),
    Case(
        name="training-target-beyond-the-last-layer",
        rule="recipe.in-range",
        change=setting("contract.training.target_state.boundary", 9),
        says=("boundary 9",),
    ),
    Case(name="padded-below-its-size", rule="target.vocab-size", change=setting("contract.vocab.target_padded_size", 95), says=("below",)),
    Case(
        name="padding-that-the-target-has-not",
        rule="target.vocab-size",
        base=with_target_rows,
        target=target_folder,
        change=setting("contract.vocab.target_padded_size", 97),
        says=("96 rows", "97"),
    ),
    Case(
        name="another-tokenizer",
        rule="target.tokenizer",
        base=with_tokenizer,
        target=target_folder,
        change=setting("contract.target.tokenizer_sha256", "sha256:" + "2" * 64),
    ),
    Case(
        name="another-verifier",
        rule="target.verifier-name",
        base=named_verifier,
        change=setting("contract.target.id", "example/other"),
        exit=0,
    ),
    Case(name="target-config-is-a-list", rule="target.config-not-object", target=target(), broken_target=list_as_config, exit=2),
    Case(
        name="another-checkpoint-of-the-target",
        rule="target.fingerprint",
        base=with_target_rows,
        target=target_folder,
        change=setting("contract.target.fingerprint", "sha256:" + "4" * 64),
    ),
    Case(
        name="head-pruned-by-offset",
        rule="tensors.content",
        base=with_target_rows,
        target=target_folder,
        integrity=Integrity.VALUES,
        change=pruned_by_offset,
        says=("target_rows",),
    ),
    Case(
        name="random-embedding-exported",
        rule="tensors.content",
        base=with_target_rows,
        target=target_folder,
        integrity=Integrity.VALUES,
        change=random_embedding,
        says=("target_copy", "random"),
    ),
    Case(
        name="embedding-of-another-checkpoint",
        rule="tensors.content",
        base=with_target_rows,
        target=target_folder,
        integrity=Integrity.VALUES,
        change=stale_embedding,
        says=("stale",),
    ),
    Case(
        name="copy-called-independent",
        rule="tensors.content",
        base=with_target_rows,
        target=target_folder,
        integrity=Integrity.VALUES,
        change=lambda p: p.contract["tensors"]["embed_tokens.weight"].update(content="independent"),
        says=("independent",),
    ),
)
