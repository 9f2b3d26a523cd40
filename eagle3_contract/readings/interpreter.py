"""The one interpreter: executes any profile on any drafter. It knows no engine.

Order: serving flags, the config as the engine holds it, the class, the fields in their order (with the capture of the target's states in
between), the tensors, the guards. The earliest fault decides the outcome; what can be said beside it is still said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eagle3_contract.readings.capture import count, read_boundaries
from eagle3_contract.readings.conditions import MISSING, UNKNOWN, holds
from eagle3_contract.readings.config_classes import MODEL_NAMES, has_class
from eagle3_contract.readings.draft_config import INERT_KEYS, DraftConfig, build_config
from eagle3_contract.readings.reading import BOUNDARIES, CONFIG_CLASS, FIELDS, EngineReading, Field, Outcome
from eagle3_contract.readings.rules import Architectures, DraftClass, Guard, Origin, Phase, Profile
from eagle3_contract.readings.scope import Fault, State, unknown_field
from eagle3_contract.readings.tensors import fates, place
from eagle3_contract.readings.versions import in_force
from eagle3_contract.readings.view import DrafterView, Target

WHOLE = (
    "hidden_size",
    "target_hidden_size",
    "layers",
    "heads",
    "kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab.size",
    "vocab.draft_size",
    "fc.count",
    "window",
    "rope.table_length",
)
"""Fields that every engine needs as whole numbers."""
NONE_IS_AN_ANSWER = ("window", "rope.table_length")
REAL = ("rms_norm_eps", "rope.theta", "logit_scale")
_SERVE = "serve."
_INNER = "capture."
_VERSION = re.compile(r"\(\d+\.\d+")


def execute(
    profile: Profile,
    version: str,
    parsed: tuple[int, ...],
    runner: str | None,
    view: DrafterView,
    target: Target | None,
    flags: Mapping[str, Any],
) -> EngineReading:
    """Read a drafter as the engine of this profile does.

    Args:
        profile: the engine.
        version: its version as asked for, for the report; ``parsed`` is what rules are chosen by.
        runner: one of the profile's runners, or None if it has none.
        view: the drafter.
        target: the target's config, or None.
        flags: serving flags by name (nested mappings for structured ones); an absent flag was not given.
    """
    config = _config(profile, parsed, runner, view, flags)
    state = State(config, target, flags, parsed, runner, profile.symbols, _facts(view))
    for rule in state.in_force(profile.serve):
        state.apply(rule)
    cls, architecture = _class(profile, state)
    state.fields["architecture"] = architecture
    for rule in state.in_force(profile.rules):
        state.apply(rule)
    tensors = _run_class(profile, cls, view, state) if cls is not None else ()
    if cls is None:
        state.fields[BOUNDARIES] = read_boundaries(profile.capture, state)
    for guard in (*profile.guards, *(cls.guards if cls else ())):
        _guard(guard, state)
    return _reading(profile, version, runner, state, tensors, view)


def _config(profile: Profile, parsed: tuple[int, ...], runner: str | None, view: DrafterView, flags: Mapping[str, Any]) -> DraftConfig:
    overrides = flags.get(profile.override_flag) if profile.override_flag else None
    return build_config(
        view.config,
        speculators=profile.speculators,
        copies=in_force(profile.speculators.copies, parsed, runner) if profile.speculators else (),
        overrides=overrides if isinstance(overrides, Mapping) else {},
        class_defaults=profile.class_defaults,
        rope_parameters=not profile.rope_parameters_since or parsed >= _parse(profile.rope_parameters_since),
        rotary_keys=profile.rotary_keys,
    )


def _parse(text: str) -> tuple[int, ...]:
    return tuple(int(p) for p in text.split("."))


def _facts(view: DrafterView) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": view.name.lower(), "missing": list(view.missing_files)}
    if "speculators_model_type" in view.config:
        facts["algorithm"] = view.config["speculators_model_type"]
        facts["tokens"] = _proposed(view.config)
    facts |= _quantised(view)
    maps = [h.shape[0] for tensors in view.files.values() for n, h in tensors.items() if "d2t" in n and len(h.shape) == 1]
    if maps:
        facts["d2t.rows"] = maps[-1]
        facts["d2t.lowest"], facts["d2t.highest"] = view.d2t_span or (UNKNOWN, UNKNOWN)
    return facts


def _quantised(view: DrafterView) -> dict[str, Any]:
    """What hf_quant_config.json names (ModelOpt's layout, or its keys at the top), and the top level of a speculators config."""
    facts: dict[str, Any] = {}
    outer = view.config.get("quantization_config")
    if "speculators_model_type" in view.config and isinstance(outer, Mapping) and outer.get("quant_method"):
        facts["quantization_config.quant_method"] = outer["quant_method"]
    nested = None if view.hf_quant is None else view.hf_quant.get("quantization", view.hf_quant)
    if view.hf_quant is None or not isinstance(nested, Mapping):
        return facts
    if nested.get("quant_algo"):
        facts["hf_quant_config.json quant_algo"] = nested["quant_algo"]
    producer = view.hf_quant.get("producer")
    facts["hf_quant_config.json producer"] = producer.get("name") if isinstance(producer, Mapping) else None
    return facts


def _proposed(config: Mapping[str, Any]) -> Any:
    """The token count that a speculators config proposes; MISSING if its structure is another one."""
    outer = config.get("speculators_config")
    methods = outer.get("proposal_methods") if isinstance(outer, Mapping) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    return first.get("speculative_tokens", MISSING) if isinstance(first, Mapping) else MISSING


def _class(profile: Profile, state: State) -> tuple[DraftClass | None, Field]:
    """The class that runs the drafter, and the architecture as a field."""
    way: Architectures = next(a for a in state.in_force(profile.architectures) if a.when is None or holds(a.when, state) is True)
    classes = state.in_force(profile.classes)
    names = state.config.values.get("architectures")
    key = state.config.key("architectures")
    listed = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
    if not listed and way.from_model_type:
        stand_in = MODEL_NAMES.get(str(state.config.values.get("model_type")))
        listed = [stand_in] if stand_in else []
    rewritten = (way.from_model_type or {}).get(str(state.config.values.get("model_type")))
    if rewritten:
        listed = [rewritten]
    if not listed:
        state.faults.append(Fault(Phase.ARCHITECTURE, way.absent_error, way.source))
        return None, unknown_field("architecture", "the config names no architecture", way.source, [key])
    called = [_prefixed(way, n) for n in (listed[:1] if way.first_only else listed)]
    by_name = {a: c for c in classes for a in c.architectures if state.version >= _parse((c.later or {}).get(a, "0"))}
    known = next((n for n in called if n in by_name), None)
    if known is None:
        state.faults.append(Fault(Phase.ARCHITECTURE, way.unknown_error.format(names=called), way.source))
        return None, Field("architecture", called[0], True, Origin.KEY, key, (key,), "no class of this engine answers to it", way.source)
    return by_name[known], Field(
        "architecture",
        by_name[known].name,
        True,
        Origin.KEY,
        key,
        (key,),
        f"{known} is run by {by_name[known].name}",
        by_name[known].source,
    )


def _prefixed(way: Architectures, name: str) -> str:
    kept = name.startswith(way.kept_starts) or name.endswith(way.kept_ends)
    return name if kept or not way.prefix else way.prefix + name


def _run_class(profile: Profile, cls: DraftClass, view: DrafterView, state: State) -> tuple[Any, ...]:
    rules = state.in_force(cls.rules)
    before = [r for r in rules if not _needs_tensors(r.field)]
    for rule in before:
        state.apply(rule)
        if rule.field == "fc.count":
            state.fields[BOUNDARIES] = read_boundaries(profile.capture, state)
            state.facts["fed"] = count(state)
    _typed(cls, state)
    placed = place(cls, view, state)
    state.tensors = {p.parameter for p in placed if p.parameter is not None and not p.shadowed}
    for rule in rules:
        if _needs_tensors(rule.field):
            state.apply(rule)
    return fates(profile, cls, placed, view, state)


def _typed(cls: DraftClass, state: State) -> None:
    """A size that is no number stops every engine: transformers' validation, or torch when the module is built."""
    for names, kinds in ((WHOLE, (int,)), (REAL, (int, float))):
        for name in names:
            found = state.fields.get(name)
            if found is None or not found.known or (found.value is None and name in NONE_IS_AN_ANSWER):
                continue
            if not isinstance(found.value, kinds):
                state.faults.append(Fault(Phase.BUILD, f"TypeError: {name} is {found.value!r:.60}, no number", cls.source))


def _needs_tensors(name: str) -> bool:
    """Whose weights are used depends on which tensors the file has; everything else is decided before the loader runs."""
    return name in ("embedding.used", "lm_head.used", "vocab.map", "vocab.present")


def _guard(guard: Guard, state: State) -> None:
    if state.in_force((guard,)) and holds(guard.when, state) is True:
        state.faults.append(Fault(guard.phase, guard.error, guard.source))


def _reading(
    profile: Profile, version: str, runner: str | None, state: State, tensors: tuple[Any, ...], view: DrafterView
) -> EngineReading:
    if profile.class_defaults and not has_class(view.config):
        state.fields[CONFIG_CLASS] = unknown_field(CONFIG_CLASS, _foreign(view.config["model_type"]), profile.source, ["model_type"])
    for name in FIELDS:
        if name not in state.fields:
            state.fields[name] = unknown_field(name, "the engine does not get that far", profile.source)
    for name, item in state.fields.items():
        state.fields[name] = replace(item, source=_sourced(profile, item.source))
    first = min(state.faults, key=lambda f: f.phase, default=None)
    outcome = (
        Outcome.OK if first is None else Outcome.ERROR_AT_FIRST_REQUEST if first.phase is Phase.FIRST_REQUEST else Outcome.ERROR_AT_LOAD
    )
    shown = [f for n, f in state.fields.items() if not n.startswith((_SERVE, _INNER))]
    order = {name: i for i, name in enumerate(FIELDS)}
    architecture = None if state.target is None else state.target.get("architecture")
    return EngineReading(
        engine=profile.engine,
        runner=runner,
        version=version,
        target=None if architecture in (None, MISSING) else str(architecture),
        outcome=outcome,
        error=first.error if first else None,
        error_source=_sourced(profile, first.source) if first else None,
        fields=tuple(sorted(shown, key=lambda f: order.get(f.field, len(order)))),
        tensors=tuple(tensors),
        ignored_keys=tuple(_ignored(view.config, state.config)),
        asked=dict(state.flags),
        effective=tuple(f for n, f in state.fields.items() if n.startswith(_SERVE)),
    )


def _foreign(model_type: Any) -> str:
    return (
        f"model_type {model_type!r:.60} picks a config class whose defaults (window, rope, biases, sizes) are not in the table, or one "
        "that transformers does not have"
    )


def _sourced(profile: Profile, source: str) -> str:
    """The source with the engine and version it was read in; a row that names another version in parentheses keeps that."""
    if not source or source.startswith(profile.engine):
        return source
    return f"{profile.engine if _VERSION.search(source) else profile.source} {source}"


def _ignored(raw: Mapping[str, Any], config: DraftConfig) -> list[str]:
    """Keys of the file that nobody read, one level into mappings."""
    ignored: list[str] = []
    rope_used = any(r == "rope_parameters" or r.startswith("rope_parameters") for r in config.read)
    consumed = {config.keys[k] for k in config.keys if k.startswith("rope_parameters")} if rope_used else set()
    read = config.read | consumed
    for key, value in raw.items():
        if key in INERT_KEYS:
            continue
        if isinstance(value, Mapping) and value:
            ignored += [
                f"{key}.{k}" for k in value if f"{key}.{k}" not in read and k not in INERT_KEYS and not (rope_used and _rope_key(key))
            ]
        elif key not in read:
            ignored.append(key)
    return ignored


def _rope_key(key: str) -> bool:
    return key in ("rope_scaling", "rope_parameters")
