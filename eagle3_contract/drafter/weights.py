"""Where a drafter's tensors come from, and the few of them that are held.

Everything is read once, on demand, in the compute dtype; of the embedding only the rows that occur are ever read.
Legend: H hidden size, V rows of the embedding, DV rows of the head, L rows asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

import torch
from torch import Tensor

from contract.errors import InputRejected, UsageError
from eagle3_contract.drafter.names import EMBEDDING, HEAD, TARGET_EMBEDDING_NAMES, TARGET_HEAD_NAMES, name_table
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.model.wiring import Owner, Wiring

FLOAT_DTYPES: Final = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})


class WeightSource(Protocol):
    """A checkpoint seen by tensor name. ``label`` names it in messages."""

    @property
    def label(self) -> str: ...

    def names(self) -> Collection[str]:
        """Every tensor name, as the file spells it."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; nothing but the header is read."""

    def tensor(self, name: str) -> Tensor:
        """The whole tensor, on the CPU, in its stored dtype."""

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        """Rows ``ids_L`` (int64, CPU, in range) of a tensor's first dimension, on the CPU; only these are read."""


class MemorySource:
    """Tensors already in memory."""

    def __init__(self, tensors: Mapping[str, Tensor], label: str = "memory") -> None:
        self._tensors = dict(tensors)
        self.label = label

    def names(self) -> Collection[str]:
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        return self._tensors[name][ids_L]


WHOLE_TABLE_BYTES: Final = 64 * 1024 * 1024
"""An embedding of at most so many bytes in the compute dtype is read once and kept; of a larger one only rows that occur are read."""


class Embedding:
    """Rows of an embedding table, read when they are asked for. ``size`` is its number of rows V."""

    def __init__(self, source: WeightSource, name: str, hidden_size: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = source.shape(name)
        if len(shape) != 2 or shape[1] != hidden_size:
            raise shape_mismatch(source, name, shape, f"[V, {hidden_size}]")
        self._source, self._name, self._device, self._dtype = source, name, device, dtype
        self.size = shape[0]
        # Golden rows hold the rows that occur and no table.
        whole = not getattr(source, "row_by_row", False)
        self._is_small = whole and shape[0] * shape[1] * dtype.itemsize <= WHOLE_TABLE_BYTES
        self._table: Tensor | None = None

    def rows(self, ids_L: Tensor) -> Tensor:
        """Embeddings [L, H] of token ids [L] on the compute device. A row that occurs twice is read once.

        Raises:
            InputRejected: ``drafter.token-out-of-range``.
        """
        if self._is_small:
            self.check(ids_L)
            if self._table is None:
                table_VH = _checked(self._source, self._name, self._source.tensor(self._name))
                self._table = table_VH.to(device=self._device, dtype=self._dtype)
            return self._table[ids_L.to(self._device)]
        unique_U, inverse_L = torch.unique(ids_L, return_inverse=True)
        unique_U = unique_U.to("cpu")
        self.check(unique_U)
        rows_UH = _checked(self._source, self._name, self._source.rows(self._name, unique_U))
        return rows_UH.to(device=self._device, dtype=self._dtype)[inverse_L]

    def check(self, ids_L: Tensor) -> None:
        """Raise InputRejected ``drafter.token-out-of-range`` if a token id has no row."""
        lowest, highest = (int(ids_L.min()), int(ids_L.max())) if ids_L.numel() else (0, -1)
        if lowest < 0 or highest >= self.size:
            worst = lowest if lowest < 0 else highest
            raise InputRejected(
                f"token id {worst} has no row in {self._name!r} of {self._source.label}, which has {self.size} rows",
                rule="drafter.token-out-of-range",
                fix="Check that the tokens belong to this target, and that the vocab map is read as it was written (offset or absolute).",
            )


class Weights:
    """The tensors that one wiring uses, by canonical name, on one device and in one dtype.

    Raises:
        InputRejected: ``drafter.missing-tensor``, ``drafter.tensor-shape``, ``drafter.tensor-dtype``, ``drafter.two-names-one-tensor``.
        UsageError: ``drafter.target-needed`` if the wiring takes the target's embedding or head and there is no ``target_source``.
    """

    def __init__(
        self, wiring: Wiring, source: WeightSource, target_source: WeightSource | None, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._source, self._target, self._device, self._dtype = source, target_source, device, dtype
        self.table = name_table(source.names())
        self._held: dict[str, Tensor] = {}
        shapes = tensor_shapes(wiring)
        lacking = sorted(shapes.keys() - self.table.stored.keys())
        if lacking:
            raise InputRejected(
                f"{source.label} lacks {', '.join(lacking)}, which the wiring uses",
                rule="drafter.missing-tensor",
                fix="Export the drafter again with these tensors, or correct the wiring if training ran without them.",
            )
        for name, shape in shapes.items():
            if name != EMBEDDING:
                self._held[name] = self._own(name, shape)
        self.embedding = self._embedding(wiring, wiring.embedding, what="embedding")
        if wiring.lm_head is not Owner.OWN:
            self._held[HEAD] = self._borrowed_head(wiring)

    def __getitem__(self, name: str) -> Tensor:
        return self._held[name]

    def get(self, name: str) -> Tensor | None:
        """The tensor, or None if the wiring does not use it."""
        return self._held.get(name)

    def integers(self, name: str) -> Tensor | None:
        """An integer tensor of the checkpoint (d2t) as int64 on the compute device, or None if it has none of this name."""
        stored = self.table.stored.get(name)
        if stored is None:
            return None
        values = self._source.tensor(stored)
        if values.is_floating_point() or values.is_complex() or values.dtype is torch.bool:
            raise _wrong_dtype(self._source, stored, values.dtype, "integers")
        return values.to(device=self._device, dtype=torch.int64)

    def _own(self, name: str, shape: tuple[int, ...]) -> Tensor:
        stored = self.table.stored[name]
        found = self._source.shape(stored)
        if found != shape:
            raise shape_mismatch(self._source, stored, found, str(list(shape)))
        return _checked(self._source, stored, self._source.tensor(stored)).to(device=self._device, dtype=self._dtype)

    def _target_needed(self, what: str) -> WeightSource:
        if self._target is None:
            raise UsageError(
                f"this wiring takes the target's {what}, and no target was given",
                rule="drafter.target-needed",
                fix="Give the folder of the target model (--target DIR).",
            )
        return self._target

    def _target_name(self, source: WeightSource, candidates: tuple[str, ...]) -> str | None:
        names = source.names()
        found = [name for name in candidates if name in names]
        if len(found) > 1:
            raise InputRejected(
                f"{source.label} has several tensors that may be the one wanted: {', '.join(found)}",
                rule="drafter.two-names-one-tensor",
                fix="Give a target folder with one language model in it.",
            )
        return found[0] if found else None

    def _embedding(self, wiring: Wiring, owner: Owner, what: str) -> Embedding:
        if owner in (Owner.OWN, Owner.TIED_TO_OWN):
            source, name = self._source, self.table.stored.get(EMBEDDING)
        else:
            source = self._target_needed(what)
            name = self._target_name(source, TARGET_EMBEDDING_NAMES)
        if name is None:
            raise InputRejected(
                f"{source.label} has no token embedding",
                rule="drafter.missing-tensor",
                fix=f"Give a checkpoint that holds one of {', '.join(TARGET_EMBEDDING_NAMES)}.",
            )
        return Embedding(source, name, wiring.hidden_size, self._device, self._dtype)

    def _borrowed_head(self, wiring: Wiring) -> Tensor:
        """The first DV rows of a head that is not the drafter's own: engines that share a longer one use just these."""
        owner, name = wiring.lm_head, None
        if owner is Owner.TARGET:
            source = self._target_needed("lm_head")
            name = self._target_name(source, TARGET_HEAD_NAMES) or self._target_name(source, TARGET_EMBEDDING_NAMES)
        elif owner is Owner.TIED_TO_TARGET:
            source = self._target_needed("embedding as its head")
            name = self._target_name(source, TARGET_EMBEDDING_NAMES)
        else:
            source, name = self._source, self.table.stored[EMBEDDING]
        if name is None:
            raise InputRejected(
                f"{source.label} has neither a head nor an embedding",
                rule="drafter.missing-tensor",
                fix=f"Give a checkpoint that holds one of {', '.join(TARGET_HEAD_NAMES)}.",
            )
        shape = source.shape(name)
        if len(shape) != 2 or shape[1] != wiring.hidden_size or shape[0] < wiring.draft_vocab_size:
            raise shape_mismatch(source, name, shape, f"[at least {wiring.draft_vocab_size}, {wiring.hidden_size}]")
        if shape[0] == wiring.draft_vocab_size:
            head_DVH = source.tensor(name)
        else:
            head_DVH = source.rows(name, torch.arange(wiring.draft_vocab_size, device="cpu"))
        return _checked(source, name, head_DVH).to(device=self._device, dtype=self._dtype)


def shape_mismatch(source: WeightSource, name: str, found: tuple[int, ...], wanted: str) -> InputRejected:
    """The error for a tensor of another shape than the wiring's sizes ask for."""
    return InputRejected(
        f"{name!r} of {source.label} has shape {list(found)}; the wiring's sizes ask for {wanted}",
        rule="drafter.tensor-shape",
        fix="Correct the sizes in the configuration or the contract, or export the drafter again.",
    )


def _wrong_dtype(source: WeightSource, name: str, dtype: torch.dtype, wanted: str) -> InputRejected:
    return InputRejected(
        f"{name!r} of {source.label} is {dtype}, not {wanted}",
        rule="drafter.tensor-dtype",
        fix="Give a checkpoint whose weights are stored as float32, float16 or bfloat16 and whose vocab map is int64.",
    )


def _checked(source: WeightSource, name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in FLOAT_DTYPES:
        raise _wrong_dtype(source, name, tensor.dtype, "a float that a forward can run in")
    return tensor
