"""Rotary embedding: frequencies of every type in the field, and the rotation itself, in float32.

Legend: L rows, N heads, D head dim, F = rotated dimensions / 2.
References: transformers 5.24 modeling_rope_utils.py (the types), YaRN https://arxiv.org/abs/2309.00071, SGLang 0.5.23 and vLLM 0.32.0
layers/rotary_embedding (mrope: on text the three sections carry one position, so it is ``default``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch import Tensor

from contract.errors import InputRejected
from eagle3_contract.model.wiring import Rope

Number: TypeAlias = float | int
Frequencies: TypeAlias = tuple[Tensor, float]
"""Inverse frequencies [F] float32, and the factor on cosine and sine."""


def mscale(factor: float, weight: float = 1.0) -> float:
    """YaRN's attention temperature, ``0.1 * weight * ln(factor) + 1`` for a factor above 1 (arXiv 2309.00071, section 3.4)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


SENSIBLE: Final = 2.0**100
"""No parameter of a rope is larger, nor smaller than its inverse; frequencies are computed in float32."""


class RotaryEmbedding:
    """Cosines and sines of one ``Rope`` for ``rotary_dim`` dimensions, computed on demand on one device.

    Raises:
        InputRejected: ``drafter.rope-unsupported`` for an unknown type; ``drafter.rope-parameters`` for a missing, unknown or senseless
            parameter.
    """

    def __init__(self, rope: Rope, rotary_dim: int, device: torch.device) -> None:
        if rope.type not in _TYPES:
            raise InputRejected(
                f"rope type {rope.type!r} is not one of {', '.join(sorted(_TYPES))}",
                rule="drafter.rope-unsupported",
                fix="Correct the rope type in the configuration or the contract.",
            )
        if rotary_dim < 2 or rotary_dim % 2 or (rope.type == "dynamic" and rotary_dim == 2):
            raise _bad(f"{rotary_dim} rotated dimensions cannot be paired, or not by rope type {rope.type!r}")
        if not math.isfinite(rope.theta) or rope.theta <= 1:
            raise _bad(f"rope theta is {rope.theta}, not a number above 1")
        needed, allowed, self._frequencies = _TYPES[rope.type]
        lacking = [key for key in needed if key not in rope.scaling]
        strange = [key for key in rope.scaling if key not in needed and key not in allowed]
        if lacking or strange:
            complaint = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"does not know {', '.join(strange)}"] * bool(strange)
            raise _bad(f"rope type {rope.type!r} {' and '.join(complaint)}")
        for key in (*needed, *allowed):
            value = rope.scaling.get(key)
            if key in _POSITIVE and value is not None and not _is_positive(value):
                raise _bad(f"rope parameter {key} is {value!r}, not a positive number from 2^-100 to 2^100")
        self._rope, self.rotary_dim, self._device = rope, rotary_dim, device
        if not math.isfinite(self._made(1, torch.device("cpu"))[1]):
            raise _bad(f"the parameters of rope type {rope.type!r} scale cosines and sines by no finite number")

    def at(self, positions_L: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [L, F] float32 of positions [L] int64."""
        length = int(positions_L.max()) + 1 if positions_L.numel() else 0
        inverse_F, factor = self._made(length, self._device)
        angle_LF = positions_L.to(torch.float32)[:, None] * inverse_F
        return angle_LF.cos() * factor, angle_LF.sin() * factor

    def _made(self, length: int, device: torch.device) -> Frequencies:
        try:
            return self._frequencies(self._rope, self.rotary_dim, length, device)
        except (ArithmeticError, ValueError) as error:  # each parameter is a number, together they are none
            raise _bad(f"the parameters of rope type {self._rope.type!r} give no frequencies: {error}") from error

    def rotate(self, x_LND: Tensor, cos_LF: Tensor, sin_LF: Tensor) -> Tensor:
        """``x`` with its first ``rotary_dim`` dimensions rotated, in its own dtype; the arithmetic is float32."""
        turned, rest = x_LND[..., : self.rotary_dim], x_LND[..., self.rotary_dim :]
        wide = turned.to(torch.float32)
        a, b = (wide[..., 0::2], wide[..., 1::2]) if self._rope.interleaved else wide.chunk(2, dim=-1)
        cos, sin = cos_LF[:, None, :], sin_LF[:, None, :]
        pair = (a * cos - b * sin, b * cos + a * sin)
        out = torch.stack(pair, dim=-1).flatten(-2) if self._rope.interleaved else torch.cat(pair, dim=-1)
        return torch.cat((out.to(x_LND.dtype), rest), dim=-1)


def _inverse(theta: float, dim: int, device: torch.device) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim)


def _default(rope: Rope, dim: int, length: int, device: torch.device) -> Frequencies:
    del length
    return _inverse(rope.theta, dim, device), 1.0


def _linear(rope: Rope, dim: int, length: int, device: torch.device) -> Frequencies:
    del length
    return _inverse(rope.theta, dim, device) / _number(rope, "factor"), 1.0


def _dynamic(rope: Rope, dim: int, length: int, device: torch.device) -> Frequencies:
    """NTK-aware: a larger base for longer sequences; see ``Rope`` for the two ways to choose the length."""
    factor = _number(rope, "factor")
    if "original_max_position_embeddings" not in rope.scaling and rope.table_length is None:
        raise _bad("rope type 'dynamic' does not say below which length nothing is scaled")
    original = _number(rope, "original_max_position_embeddings", rope.table_length)
    reached = factor * original if rope.scaling.get("static") is True else max(length, original)
    base = rope.theta * (factor * reached / original - (factor - 1)) ** (dim / (dim - 2))
    return _inverse(base, dim, device), 1.0


def _llama3(rope: Rope, dim: int, length: int, device: torch.device) -> Frequencies:
    """Long wavelengths divided by the factor, short ones kept, a linear blend between the two thresholds."""
    del length
    factor, low, high = (_number(rope, key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    turns_F = _number(rope, "original_max_position_embeddings") * _inverse(rope.theta, dim, device) / (2 * math.pi)
    kept_F = ((turns_F - low) / (high - low)).clamp(0.0, 1.0) if high != low else (turns_F >= low).to(torch.float32)
    inverse_F = _inverse(rope.theta, dim, device)
    return inverse_F * (kept_F + (1.0 - kept_F) / factor), 1.0


def _yarn(rope: Rope, dim: int, length: int, device: torch.device) -> Frequencies:
    """Interpolated below beta_slow turns over the original length, kept above beta_fast, blended between; cos and sin scaled."""
    del length
    factor = _number(rope, "factor")
    original = _number(rope, "original_max_position_embeddings")
    fast, slow = _number(rope, "beta_fast", 32.0), _number(rope, "beta_slow", 1.0)
    low, high = (dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope.theta)) for turns in (fast, slow))
    if rope.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp_F = ((torch.arange(dim // 2, dtype=torch.float32, device=device) - low) / (high - low)).clamp(0.0, 1.0)
    inverse_F = _inverse(rope.theta, dim, device)
    return inverse_F * (1.0 - ramp_F) + inverse_F / factor * ramp_F, _yarn_attention_factor(rope, factor)


def _yarn_attention_factor(rope: Rope, factor: float) -> float:
    """On cosine and sine: as given, else the quotient of the two mscales, else the mscale of the factor."""
    if "attention_factor" in rope.scaling:
        return _number(rope, "attention_factor")
    weight, weight_all = _number(rope, "mscale", 0.0), _number(rope, "mscale_all_dim", 0.0)
    if weight and weight_all:
        return mscale(factor, weight) / mscale(factor, weight_all)
    return mscale(factor)


def latent_scale(rope: Rope) -> float:
    """The factor that YaRN puts on an MLA layer's softmax scale: mscale(factor, mscale_all_dim) squared, else 1.

    DeepSeek-V2/V3: transformers deepseek_v3 ``yarn_apply_mscale``; SGLang 0.5.23 srt/models/deepseek_v2.py; vLLM deepseek_v2.py.
    """
    weight = _number(rope, "mscale_all_dim", 0.0)
    if rope.type != "yarn" or not weight:
        return 1.0
    try:
        return mscale(_number(rope, "factor"), weight) ** 2
    except OverflowError as error:
        raise _bad(f"mscale_all_dim {weight:g} gives no scale: {error}") from error


def _is_positive(value: object) -> bool:
    """A number whose inverse, and whose product with a handful of others, is one in float32's range of exponents, too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 / SENSIBLE <= value <= SENSIBLE


def _number(rope: Rope, key: str, default: float | None = None) -> float:
    value = rope.scaling.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _bad(f"rope parameter {key} is {value!r}, not a number")
    return float(value)


def _bad(message: str) -> InputRejected:
    return InputRejected(message, rule="drafter.rope-parameters", fix="Correct the rope parameters in the configuration or the contract.")


_POSITIVE: Final = frozenset(
    {
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
        "beta_fast",
        "beta_slow",
        "attention_factor",
    }
)
_TYPES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Rope, int, int, torch.device], Frequencies]]]] = {
    # type: (parameters it must have, parameters it may have, how its frequencies are made)
    "default": ((), (), _default),
    "mrope": ((), ("mrope_section", "mrope_interleaved"), _default),
    "linear": (("factor",), (), _linear),
    "dynamic": (("factor",), ("original_max_position_embeddings", "static"), _dynamic),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"), (), _llama3),
    "yarn": (
        ("factor", "original_max_position_embeddings"),
        ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"),
        _yarn,
    ),
}
