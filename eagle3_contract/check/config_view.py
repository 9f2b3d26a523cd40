"""config.json of a drafter in the three layouts of the field, and every place where it answers a question.

Flat (EAGLE, SpecForge, AngelSlim, TorchSpec): all keys at the top. Nested (ModelOpt, SpecForge with layer ids): the same, and EAGLE's keys
in ``eagle_config``. Speculators: the decoder's keys in ``transformer_layer_config``, EAGLE's at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contract.findings import Json

LAYER_CONFIG: Final = "transformer_layer_config"
EAGLE_CONFIG: Final = "eagle_config"


class Layout(StrEnum):
    FLAT = "flat"
    NESTED = "nested"
    SPECULATORS = "speculators"


@dataclass(frozen=True, slots=True)
class Setting:
    """One answer: a key as a path of text (``eagle_config.norm_before_fc``) and its value (null included)."""

    key: str
    value: Json


class ConfigView:
    """Looks keys up where a layout keeps them. Never interprets: what a missing key means is the reader's own matter."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        self.raw = config
        inner = config.get(LAYER_CONFIG)
        nested = config.get(EAGLE_CONFIG)
        self.layout = (
            Layout.SPECULATORS
            if "speculators_model_type" in config or isinstance(inner, Mapping)
            else Layout.NESTED
            if isinstance(nested, Mapping)
            else Layout.FLAT
        )
        self._inner: Mapping[str, Json] = inner if isinstance(inner, Mapping) else {}
        self._nested: Mapping[str, Json] = nested if isinstance(nested, Mapping) else {}

    @property
    def architectures(self) -> list[str]:
        """``architectures`` if it is a list of strings, else []."""
        given = self.raw.get("architectures")
        return [a for a in given if isinstance(a, str)] if isinstance(given, list) else []

    def decoder(self, *keys: str) -> list[Setting]:
        """Every answer under keys of the decoder (``hidden_size``, ``dtype`` ...), in the order of the keys."""
        if self.layout is Layout.SPECULATORS:
            found = [Setting(f"{LAYER_CONFIG}.{k}", self._inner[k]) for k in keys if k in self._inner]
            return found or [Setting(k, self.raw[k]) for k in keys if k in self.raw]
        return [Setting(k, self.raw[k]) for k in keys if k in self.raw]

    def eagle(self, *keys: str) -> list[Setting]:
        """Every answer under EAGLE's own keys: nested ones first (SGLang and vLLM 0.32.0 prefer them), then the top level."""
        nested = [Setting(f"{EAGLE_CONFIG}.{k}", self._nested[k]) for k in keys if k in self._nested]
        return nested + [Setting(k, self.raw[k]) for k in keys if k in self.raw]

    def top(self, key: str) -> list[Setting]:
        """The answer at the top level only."""
        return [Setting(key, self.raw[key])] if key in self.raw else []

    def rope(self, key: str) -> list[Setting]:
        """Every answer about the rotary embedding under ``rope_parameters`` (transformers 5), ``rope_scaling`` (4) and beside them."""
        found = []
        for holder in self.decoder("rope_parameters", "rope_scaling"):
            if isinstance(holder.value, Mapping) and key in holder.value:
                found.append(Setting(f"{holder.key}.{key}", holder.value[key]))
        return found + self.decoder(key)
