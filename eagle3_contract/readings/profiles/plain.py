"""The frame of profiles that are known from public sources only: a Llama drafter with what most engines share, and a row for every
field in which one of them differs. Nothing here was run."""

from __future__ import annotations

from collections.abc import Mapping

from eagle3_contract.readings.conditions import Not, equal, every, present, truthy, unlike
from eagle3_contract.readings.profiles.common import (
    attention_params,
    hard_coded,
    layer_params,
    norms_list,
    rope_rules,
    sizes,
)
from eagle3_contract.readings.rules import (
    Architectures,
    BadIds,
    Capture,
    Choice,
    DraftClass,
    Family,
    Fate,
    Guard,
    Hit,
    Key,
    Load,
    Name,
    NameOp,
    Order,
    Param,
    Phase,
    Rule,
    Turn,
    Unknown,
    default,
    fixed,
    not_known,
)

TOP = "cfg:eagle_aux_hidden_state_layer_ids"
NESTED = "cfg:eagle_config.eagle_aux_hidden_state_layer_ids"
SKIPPED = fixed(False, "fc is skipped: the width fed equals the drafter's own", when=equal("=FED*TG", "=H"))
PRE_OR_POST = (Key(path="cfg:norm_output", turn=Turn.POST_IF_TRUE), default("pre_norm"))
FROM_FILE = (Name(op=NameOp.DROP, text="t2d"), Name(op=NameOp.REPLACE_START, text="model.", new=""))
UNSETTLED = not_known("not settled by public sources")


def fields(source: str, changed: Mapping[str, tuple[Choice, ...]]) -> tuple[Rule, ...]:
    """The fields of a plain Llama drafter in the order they depend on each other; ``changed`` replaces the choices of some."""
    usual: dict[str, tuple[Choice, ...]] = {
        "attention": (fixed("gqa"),),
        "qk_norm": (fixed(False),),
        "kv_heads": (Key(path="cfg:num_key_value_heads", hit=Hit.NOT_NULL), default("@heads")),
        "head_dim": (Key(path="cfg:head_dim", hit=Hit.NOT_NULL), default("=HC//NHC")),
        "target_hidden_size": (Key(path="cfg:target_hidden_size", hit=Hit.NOT_NULL), default("@hidden_size")),
        "fc.count": (fixed(3),),
        "fc.applied": (SKIPPED, fixed(True)),
        "fc.bias": (fixed(False),),
        "norms.input_norm": (fixed(False),),
        "norms.fc_norm": (fixed(False),),
        "wiring.norm_before_residual": (fixed(False),),
        "wiring.feedback": (fixed("pre_norm"),),
        "wiring.later_layer_norm": (fixed("none", "one layer only"),),
        "wiring.positions_start": (fixed(0),),
        "attention.qkv_bias": (fixed(False),),
        "attention.o_bias": (fixed(False),),
        "mlp_bias": (fixed(False),),
        "rope.table_length": (Key(path="cfg:max_position_embeddings"), UNSETTLED),
        "rope.rotary_dim": (fixed("@head_dim"),),
        "window": (UNSETTLED,),
        "vocab.draft_size": (Key(path="cfg:draft_vocab_size", hit=Hit.NOT_NULL), default("@vocab.size")),
    }
    head = {k: changed.get(k, v) for k, v in usual.items()}
    rules = [Rule(field=f, choices=c, source=source) for f, c in head.items()]
    rules += [Rule(field=f, choices=changed[f], source=source) for f in ("vocab.present", "vocab.map", "embedding.used", "lm_head.used")]
    rope = [r if r.field not in changed else Rule(field=r.field, choices=changed[r.field], source=source) for r in rope_rules(source)]
    constants = hard_coded(
        source,
        {"wiring.double_norm": False, "wiring.hidden_norm": True, "wiring.final_norm": True, "wiring.concat_order": "embedding_first"},
    )
    return (*sizes(source), *constants, *rules[:10], norms_list(source), *rules[10:], *rope, DTYPE)


DTYPE = Rule(field="dtype", choices=(Key(path="flag:dtype"), UNSETTLED), source="-")


def params(missing: Fate, *, norms: Fate | None = None, untied: bool = False) -> tuple[Param, ...]:
    """Parameters of a plain one-layer Llama drafter, with what a missing one becomes."""
    ones = norms or missing
    tied = Not(truthy("cfg:tie_word_embeddings")) if untied else None
    layer = (*attention_params("midlayer"), *layer_params("midlayer"))
    return (
        Param(name="embed_tokens.weight", shape=("V", "H"), missing=missing),
        Param(name="lm_head.weight", shape=("DV", "H"), missing=missing, when=tied),
        Param(name="norm.weight", shape=("H",), missing=ones),
        Param(name="fc.weight", shape=("H", "G*K"), missing=missing),
        Param(name="fc.bias", shape=("H",), missing=missing, when=equal("field:fc.bias", True)),
        Param(name="input_norm.weight", shape=("G*K",), missing=ones, when=equal("field:norms.input_norm", True)),
        Param(name="fc_norm.{k}.weight", shape=("G",), missing=ones, when=equal("field:norms.fc_norm", True)),
        Param(name="d2t", shape=("DV",), load=Load.ANY, missing=Fate.DROPPED),
        *(
            Param(name=p.name, shape=p.shape, missing=ones if "norm" in p.name else missing)  # every shape is exact here
            for p in layer
        ),
    )


def llama(
    name: str,
    architectures: tuple[str, ...],
    source: str,
    changed: Mapping[str, tuple[Choice, ...]],
    *,
    unknown: Unknown,
    missing: Fate,
    norms: Fate | None = None,
    names: tuple[Name, ...] = (*FROM_FILE, Name(op=NameOp.REPLACE_START, text="layers.0.", new="midlayer.")),
    guards: tuple[Guard, ...] = (),
    untied: bool = False,
    later: dict[str, str] | None = None,
) -> DraftClass:
    """A class that runs a plain Llama drafter."""
    return DraftClass(
        name=name,
        architectures=architectures,
        source=source,
        rules=fields(source, changed),
        params=params(missing, norms=norms, untied=untied),
        names=names,
        unknown=(unknown,),
        guards=guards,
        later=later,
    )


ALWAYS = Rule(field="capture.enabled", choices=(fixed(True),), source="-")
D2T = (fixed(True, when=present("tensor:d2t")), default(False, "the file has no d2t"))
OFFSET = fixed("offset", when=equal("field:vocab.present", True))
IDENTITY = (OFFSET, default("identity", "draft ids are taken as target ids"))
OWN_EMBEDDING = (fixed("own", "the file has its own", when=present("tensor:embed_tokens.weight")), default("target", "the file has none"))
OWN_HEAD = (fixed("own", "the file has its own", when=present("tensor:lm_head.weight")), default("target", "the file has none"))
OTHER_WIDTH = every(present("cfg:target_hidden_size"), unlike("cfg:target_hidden_size", None), unlike("cfg:target_hidden_size", "=H"))
TARGETS_EMBEDDING = (fixed("own", "target_hidden_size differs from hidden_size", when=OTHER_WIDTH), fixed("target", "the target's"))
SILENT = Unknown(fate=Fate.DROPPED)
FROM_CONFIG = Key(path=TOP, hit=Hit.TRUTHY)
TOO_NARROW = Guard(
    when=every(equal("field:fc.applied", True), unlike("=FED*TG", "=K*G")),
    phase=Phase.FIRST_REQUEST,
    error="the states fed are not as wide as fc",
    source="-",
)


def capture(
    source: str,
    ids: tuple[Rule, ...],
    families: tuple[Family, ...],
    *,
    enabled: Rule = ALWAYS,
    order: Order = Order.ASCENDING,
    exactly: int | None = None,
) -> Capture:
    """A capture whose odd ids are taken as Python would take them."""
    return Capture(
        enabled=Rule(field=enabled.field, choices=enabled.choices, source=source),
        ids=ids,
        families=families,
        not_a_list=BadIds.ERROR,
        not_numbers=BadIds.ERROR,
        order=order,
        exactly=exactly,
    )


def found(source: str, error: str = "no class of this engine answers to {names}") -> tuple[Architectures, ...]:
    return (Architectures(absent_error="the config names no architecture", unknown_error=error, source=source),)
