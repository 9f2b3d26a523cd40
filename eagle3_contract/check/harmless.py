"""Differences between an engine and training that change no number, each with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from eagle3_contract.check.compare import said
from eagle3_contract.check.context import CheckContext
from eagle3_contract.drafter.names import EMBEDDING, HEAD
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.readings.rules import Fate, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which an engine differs from training."""

    ctx: CheckContext
    reading: EngineReading
    stated: Any
    actual: Any


Reason = Callable[[Difference], str | None]
"""Why a difference is harmless, None if it is not."""


def no_reason(_: Difference) -> str | None:
    """The difference counts."""
    return None


def same_owner(name: str) -> Reason:
    """Own and target's are the same where the contract says that the own tensor is a copy of the target's."""

    def reason(d: Difference) -> str | None:
        spec = d.ctx.contract.tensors.get(name)
        copy = spec is not None and d.ctx.value("tensors", name, "content") == "target_copy"
        return f"the contract says that {name} is a copy of the target's" if copy and {d.stated, d.actual} == {"own", "target"} else None

    return reason


def same_map(d: Difference) -> str | None:
    """A map of zeros is the identity, however it is read."""
    zeros = d.ctx.drafter.d2t is not None and not d.ctx.drafter.d2t.any()
    return "every offset of d2t is zero" if zeros and {d.stated, d.actual} == {"offset", "identity"} else None


def long_enough(d: Difference) -> str | None:
    """A longer table holds the same rotations; not so where the base follows the length (type dynamic)."""
    if not isinstance(d.actual, int) or d.actual < d.stated or d.reading.value("rope.type") == "dynamic":
        return None
    return "a longer table holds the same rotations"


def within_window(d: Difference) -> str | None:
    """Windows that no served context outgrows see the same keys."""
    served = next((v for n in ("serve.context_length", "serve.max_model_len") if isinstance(v := d.reading.value(n), int)), None)
    if served is None or not all(w is None or (isinstance(w, int) and w >= served) for w in (d.stated, d.actual)):
        return None
    return f"no context outgrows the window: at most {served} tokens are served"


def moved_together(d: Difference) -> str | None:
    """Rotary attention depends on differences of positions."""
    if d.reading.value("rope.type") == "dynamic" or not isinstance(d.stated, int) or not isinstance(d.actual, int):
        return None
    return "rotary attention depends on differences of positions only (accepted length 1.607 with all of them one further, too)"


def nobody_asked(d: Difference) -> str | None:
    """float16 by an engine's default: rounding for most targets, an overflow for those with outliers."""
    field = d.reading.get("dtype")
    if field.origin is not Origin.DEFAULT:
        return None
    return "nobody asked for it; whether a state exceeds 65504 shows in a capture"


_WHOLE_STREAMS: Final = frozenset({"residual", "after_injected_vision"})


def same_stream(d: Difference) -> str | None:
    """Vision features are injected into the stream itself; into text nothing is."""
    if {d.stated, d.actual} == _WHOLE_STREAMS:
        return "the stream that enters a layer holds what was injected before it (sglang 0.5.23 models/qwen3_vl.py:1240-1272)"
    if d.ctx.value("training", "data", "modality") == "text" and "branch_only" not in (d.stated, d.actual):
        return "nothing is injected into text"
    return None


UNUSED_BY_ALL: Final = {"t2d": "no engine reads it"}
_ROUNDED: Final = "rounded to the engine's dtype"
_WHOLE: Final[dict[Fate, str]] = {
    Fate.CAST: _ROUNDED,
    Fate.PADDED: "rows of padding that no token names",
}


def fate_reason(ctx: CheckContext, name: str, fate: Fate) -> str | None:
    """Why it does not matter that a tensor (canonical name) does not arrive as it is stored; None if it does."""
    if name in UNUSED_BY_ALL and fate in (Fate.DROPPED, Fate.SHADOWED):
        return UNUSED_BY_ALL[name]
    if fate is Fate.CAST or (fate is Fate.PADDED and name in (EMBEDDING, HEAD)):
        return _WHOLE[fate]
    used = ctx.value("tensors", name, "used") if name in ctx.contract.tensors else None
    if used in ("not_used", "target", "tied_to_target") and fate in (Fate.DROPPED, Fate.SHADOWED):
        return f"training did not use it ({said(used)})"
    return None
