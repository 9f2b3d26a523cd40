"""A drafter's checkpoint as the readers see it: config, tensor headers, file names. No file access, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contract.findings import Json
from eagle3_contract.model.names import canonical


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Dtype (safetensors spelling: ``BF16``, ``I64``, ``BOOL``) and shape of a stored tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterView:
    """What a reading of a checkpoint rests on, short of values.

    Attributes:
        config: the parsed config.json (``{}`` if there is none).
        tensors: stored name to header, as spelled in the file.
        files: names of the folder's entries, sorted.
        metadata: ``__metadata__`` of the weight files.
    """

    config: Mapping[str, Json]
    tensors: Mapping[str, TensorHeader]
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> TensorHeader | None:
        """The header of the tensor with this canonical name (``layers.0.self_attn.q_proj.weight``), in whatever dialect it is stored."""
        return next((header for stored, header in self.tensors.items() if canonical(stored) == name), None)

    def has(self, name: str) -> bool:
        """Whether a tensor with this canonical name is stored."""
        return self.find(name) is not None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of the tensor with this canonical name."""
        header = self.find(name)
        return header.shape if header else None

    def section(self, key: str) -> Mapping[str, Json]:
        """A mapping inside the config (``eagle_config``, ``transformer_layer_config``); ``{}`` if it is not one."""
        value = self.config.get(key)
        return value if isinstance(value, Mapping) else {}

    @property
    def layers(self) -> int:
        """How many decoder layers the stored names show."""
        numbers = [name.split(".")[1] for name in map(canonical, self.tensors) if name.startswith("layers.")]
        return 1 + max((int(n) for n in numbers if n.isdecimal()), default=-1)

    @property
    def architecture(self) -> str | None:
        """``architectures[0]``, if it is a name."""
        names = self.config.get("architectures")
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
