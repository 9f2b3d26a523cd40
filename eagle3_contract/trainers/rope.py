"""The rotary embedding as a config declares it. What training made of the declaration is each adapter's own matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from contract.findings import Json
from eagle3_contract.trainers.decoder import number, whole
from eagle3_contract.trainers.statements import Statements

NOT_SCALING: Final = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})
EAGLE_BASE: Final = 10000.0
"""The base of EAGLE's LlamaRotaryEmbedding when none is passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRope:
    """What config.json says.

    Attributes:
        type: ``default`` where nothing else is said.
        theta: None where nothing is said.
        scaling: parameters of the type, without type and theta.
        key: where the type was read (``rope_parameters``, ``rope_scaling``), or what says there is none.
        theta_key: where theta was read.
        malformed: what is declared and is no rope or no base; the declaration then says nothing.
        standardised: ``rope_parameters`` is present, so transformers 5 or newer wrote the config.
    """

    type: str = "default"
    theta: float | None = None
    scaling: Mapping[str, Any] = field(default_factory=dict)
    key: str = "no rope_scaling"
    theta_key: str = "no rope_theta"
    malformed: str | None = None
    standardised: bool = False
    table_length: int | None = None


def declared_rope(decoder: Mapping[str, Json], *, where: str = "") -> DeclaredRope:
    """Read ``rope_parameters`` (transformers 5), else ``rope_scaling`` and ``rope_theta`` (transformers 4)."""
    holder_key = next((k for k in ("rope_parameters", "rope_scaling") if isinstance(decoder.get(k), Mapping)), None)
    holder: Mapping[str, Json] = decoder[holder_key] if holder_key else {}
    kind = holder.get("rope_type", holder.get("type", "default"))
    inner, outer = number(holder.get("rope_theta")), number(decoder.get("rope_theta"))
    return DeclaredRope(
        malformed=_malformed(decoder, holder, where),
        type=kind if isinstance(kind, str) else "default",
        theta=inner if inner is not None else outer,
        scaling={k: tuple(v) if isinstance(v, list) else v for k, v in holder.items() if k not in NOT_SCALING and v is not None},
        key=f"{where}{holder_key}" if holder_key else "no rope_scaling",
        theta_key=f"{where}{holder_key}.rope_theta"
        if inner is not None
        else f"{where}rope_theta"
        if outer is not None
        else "no rope_theta",
        standardised=isinstance(decoder.get("rope_parameters"), Mapping),
        table_length=whole(decoder.get("max_position_embeddings")),
    )


def _malformed(decoder: Mapping[str, Json], holder: Mapping[str, Json], where: str) -> str | None:
    for key in ("rope_parameters", "rope_scaling"):
        if not isinstance(decoder.get(key), Mapping | None):
            return f"{where}{key} is {decoder[key]!r:.40}, not a mapping"
    for place in (holder, decoder):
        if place.get("rope_theta") is not None and number(place["rope_theta"]) is None:
            return f"rope_theta is {place['rope_theta']!r:.40}, not a positive number"
    kinds = [
        h.get("rope_type", h.get("type", "default"))
        for k in ("rope_parameters", "rope_scaling")
        if isinstance(h := decoder.get(k), Mapping)
    ]
    if any(not isinstance(kind, str) for kind in kinds):
        return f"the rope type is {kinds[0]!r:.40}, not a name"
    return f"rope_parameters says {kinds[0]} and rope_scaling {kinds[1]}" if len(set(kinds)) > 1 else None


def state_declared(s: Statements, rope: DeclaredRope, *, source: str) -> None:
    """State the declaration as what training used. ``source`` says which code uses it so."""
    s.config("wiring.rope.type", rope.type, f"{rope.key}; {source}")
    s.config("wiring.rope.scaling", dict(rope.scaling), f"{rope.key}; {source}")
    if rope.malformed:
        s.unknown("wiring.rope.theta", rope.malformed)
    elif rope.theta is not None:
        s.config("wiring.rope.theta", rope.theta, f"{rope.theta_key}; {source}")
    else:
        s.rule("wiring.rope.theta", EAGLE_BASE, f"{rope.theta_key}: the default base; {source}")
    state_table(s, rope)


def state_table(s: Statements, rope: DeclaredRope) -> None:
    """State the table length, which only a declaration can say; and take back what a malformed one says of the type. Call it last."""
    if rope.malformed:
        s.unknown("wiring.rope.type", rope.malformed)
        s.unknown("wiring.rope.scaling", rope.malformed)
    if rope.table_length is not None:
        s.config("wiring.rope.table_length", rope.table_length, "max_position_embeddings")
    else:
        s.unknown("wiring.rope.table_length", "max_position_embeddings is not in config.json", likely=2048)
