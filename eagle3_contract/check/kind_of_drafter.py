"""Is this an EAGLE-3 drafter at all? Other kinds are recognised and refused by name, never kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contract.findings import Check, Rule, Severity
from eagle3_contract.check.compare import agree
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import D2T

KIND: Final = Rule(
    id="drafter.kind",
    title="The checkpoint is an EAGLE-3 drafter",
    severity=Severity.ERROR,
    dimension="architecture",
    why="DFlash, DSpark, Domino, P-EAGLE, MTP, Medusa and EAGLE-1 drafters share keys and tensor names with EAGLE-3 and are fed, wired "
    "and unrolled otherwise; vLLM 0.32.0 even takes dflash_config ids for an EAGLE-3 drafter, and an EAGLE-1 config stops EAGLE-3 code "
    "(EAGLE#214).",
    remedy="Verify this drafter with a tool for its kind, or point to the EAGLE-3 drafter.",
)
ARCHITECTURE: Final = Rule(
    id="config.architecture",
    title="architectures of config.json is that of the contract",
    severity=Severity.ERROR,
    dimension="architecture",
    why="The string selects the class that runs. SGLang 0.5.23 knows LlamaForCausalLMEagle3 and Eagle3DeepseekV2ForCausalLM only, vLLM "
    "0.32.0 a dozen; the trainers write others (SGLang llama_eagle3.py:387). A plain target class loads the drafter as a language model "
    "(AngelSlim#39).",
    remedy="Write the architecture that the serving engine registers for this drafter, and the same in the contract.",
)
RULES: Final = (KIND, ARCHITECTURE)


@dataclass(frozen=True, slots=True)
class _Sign:
    """What gives a kind away: a pattern over architecture strings, keys of config.json, tensor names."""

    kind: str
    architectures: str = r"(?!)"
    keys: tuple[str, ...] = ()
    tensors: str = r"(?!)"


_SIGNS: Final = (
    _Sign("DFlash", r"dflash", ("dflash_config", "block_size")),
    _Sign("DSpark", r"dspark", ("dspark_config", "dspark_target_layer_ids")),
    _Sign("Domino", r"domino", ("domino_config",)),
    _Sign(
        "P-EAGLE",
        r"p-?eagle",
        ("ptd_token_id", "pard_token", "parallel_drafting"),
        r"(^|\.)(mask_(hidden|embedding)|parallel_draft_heads\b)",
    ),
    _Sign("Medusa", r"medusa", ("medusa_num_heads", "medusa_num_layers"), r"(^|\.)medusa_heads?\."),
    _Sign("EAGLE-1", r"^Eagle(?!3)\w*ForCausalLM$|ForCausalLMEagle$"),
    _Sign("MTP", r"(mtp|nextn)", (), r"(^|\.)(eh_proj|enorm|hnorm|mtp)\b"),
)


def check_kind(ctx: CheckContext) -> Iterator[Check]:
    """The kind by architecture, keys and tensors; then the architecture string."""
    found = recognise(ctx)
    if found is None:
        yield KIND.passed("an EAGLE-3 drafter: fc over captured states and a first layer that takes the embedding beside the state")
    else:
        kind, reason = found
        yield KIND.failed(
            f"this is {kind}, not an EAGLE-3 drafter: {reason}",
            expected="EAGLE-3",
            actual=kind,
            where=ctx.config_place("architectures"),
        )
    if ctx.drafter.config is None:
        return
    given = ctx.config.architectures
    if not given:
        yield ARCHITECTURE.failed(
            "config.json has no list of architectures",
            expected=ctx.value("wiring", "architecture"),
            where=ctx.config_place("architectures"),
        )
        return
    yield agree(
        ctx,
        ARCHITECTURE,
        ("wiring", "architecture"),
        given[0],
        found_in="config.json (architectures[0])",
        where=ctx.config_place("architectures"),
    )


def recognise(ctx: CheckContext) -> tuple[str, str] | None:
    """The other kind that this checkpoint is, and what gives it away; None for an EAGLE-3 drafter."""
    raw = ctx.config.raw
    named = [*ctx.config.architectures, *(str(raw[k]) for k in ("model_type", "speculators_model_type") if isinstance(raw.get(k), str))]
    for sign in _SIGNS:
        if by_name := next((n for n in named if re.search(sign.architectures, n, re.IGNORECASE)), None):
            return sign.kind, f"config.json names {by_name}"
        if by_key := next((k for k in sign.keys if raw.get(k) not in (None, False)), None):
            return sign.kind, f"config.json has the key {by_key}"
        if by_tensor := next((t.name for t in ctx.drafter.tensors if re.search(sign.tensors, t.name)), None):
            return sign.kind, f"it stores {by_tensor}"
    for setting in ctx.config.eagle("parallel_draft_step"):  # ModelOpt 0.47 writes 1 for a plain drafter
        if isinstance(setting.value, int) and setting.value > 1:
            return "P-EAGLE", f"{setting.key} of config.json is {setting.value}"
    if raw.get("speculators_model_type") not in (None, "eagle3"):
        return f"a speculators {raw['speculators_model_type']} drafter", "speculators_model_type says so"
    return _by_structure(ctx)


def _by_structure(ctx: CheckContext) -> tuple[str, str] | None:
    stored = ctx.by_name
    if ctx.target is not None and os.path.realpath(ctx.target.source) == os.path.realpath(ctx.drafter.folder):
        return "the target itself", "--target names the drafter's folder"
    if not stored or not ctx.drafter.complete:
        return None
    fc, query = stored.get("fc.weight"), stored.get("layers.0.self_attn.q_proj.weight") or stored.get("layers.0.self_attn.q_a_proj.weight")
    hidden = fc.shape[0] if fc is not None and len(fc.shape) == 2 else None
    wide = query is not None and len(query.shape) == 2 and hidden is not None and query.shape[1] == 2 * hidden
    recipe = ctx.value("hidden_states", "boundaries")
    one_state_straight_in = ctx.value("wiring", "fc_applied") is False and (recipe is None or len(recipe) == 1)
    if fc is None and not one_state_straight_in:
        layers = len({n.split(".")[1] for n in stored if n.startswith("layers.")})
        if layers and layers == ctx.value("target", "layers"):
            return "the target itself", f"it has the target's {layers} layers and no fc"
        if query is not None and "layers.0.hidden_norm.weight" not in stored:
            return "a plain language model", "it has no fc and no hidden_norm"
        return "a drafter without fc", f"fc.weight is not stored, and nothing else joins {len(recipe) if recipe else 'several'} states"
    if hidden is not None and fc is not None and fc.shape[1] == 2 * hidden and not wide and D2T not in stored and query is not None:
        return "EAGLE-1", f"fc takes embedding and state ({fc.shape[1]} = 2 x {hidden}), the layer is a plain one and there is no d2t"
    return None
