"""What every rule of the static depth looks at: the contract and where it says things, the drafter's files, facts of the target.

A rule never opens a file: the context holds what was read, and why something could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from contract.findings import Check, Json, Where
from contract.source import Document
from contract.statement import Fact, fact
from eagle3_contract.check.config_view import ConfigView
from eagle3_contract.model.names import canonical
from eagle3_contract.model.spec import Contract

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Integrity(IntEnum):
    """How much of the drafter is read: headers and the vocab map; sampled weights too; a digest of every file too."""

    HEADERS = 1
    VALUES = 2
    DIGESTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """One tensor of the drafter. ``dtype`` is spelt as torch spells it, ``file`` is relative to the drafter's folder."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterView:
    """The drafter as it lies on disk.

    Attributes:
        folder: the folder, as messages call it.
        config: config.json; None if it is missing or could not be read.
        tensors: every tensor of every weight file, under its stored name (a name in two files is there twice).
        files: every file of the folder, by its relative name; ``complete`` is False if something could not be listed or read, so that
            absence proves nothing.
        d2t, t2d: values of the map and the mask; None if not stored or not read.
        rows: ``rows(tensor, indices)`` reads rows of a matrix as they are asked for, or None if it cannot; only used from ``values`` on.
        sample: ``sample(tensor)`` reads some rows of a float tensor as float32, or None if it cannot; only used from ``values`` on.
        digest: ``digest(file)`` is ``sha256:...`` of a file; only used at ``digests``.
        not_finite: ``not_finite(tensor)`` counts NaN and infinite values of the whole tensor, None if it cannot; only at ``digests``.
        constant: ``constant(tensor)`` is True if every value of the whole tensor is the same; only at ``digests``.
    """

    folder: str
    config: Mapping[str, Json] | None
    tensors: Sequence[StoredTensor]
    files: frozenset[str]
    complete: bool = True
    d2t: NDArray[Any] | None = None
    t2d: NDArray[Any] | None = None
    rows: Callable[[StoredTensor, Sequence[int]], NDArray[Any] | None] | None = None
    sample: Callable[[StoredTensor], NDArray[Any] | None] | None = None
    digest: Callable[[str], str] | None = None
    not_finite: Callable[[StoredTensor], int | None] | None = None
    constant: Callable[[StoredTensor], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What ``--target`` told. None means that it does not say.

    Attributes:
        source: the path, as messages call it.
        config: its config.json.
        embedding_rows, fingerprint: of its weights, where they are there.
        rows: ``rows(canonical name, indices)`` reads rows of its embedding or head; None if its weights are not there.
        problems: what is wrong with its weight files.
    """

    source: str
    config: Mapping[str, Json]
    model_type: str | None
    layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    tokenizer_sha256: str | None = None
    embedding_rows: int | None = None
    fingerprint: str | None = None
    rows: Callable[[str, Sequence[int]], NDArray[Any] | None] | None = None
    problems: Sequence[Check] = ()


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Everything the rules see.

    Attributes:
        contract: the contract.
        document: its text, for places.
        accounted_for: files of the drafter's folder that need no digest here: the contract itself, its waivers, and files that have
            their digest elsewhere.
    """

    contract: Contract
    document: Document
    drafter: DrafterView
    target: TargetFacts | None = None
    integrity: Integrity = Integrity.HEADERS
    accounted_for: frozenset[str] = frozenset()

    def stated(self, *path: str) -> Fact:
        """What the contract states at a path such as ``("wiring", "head_dim")`` or ``("tensors", "fc.weight", "shape")``."""
        at: Any = self.contract
        for part in path:
            at = at[part] if isinstance(at, Mapping) else getattr(at, part)
        return fact(at)

    def value(self, *path: str) -> Any:
        """The stated value, or None if it is unknown."""
        return self.stated(*path).value

    def place(self, *path: str) -> Where:
        """Where the contract says it."""
        return self.document.where(path)

    @cached_property
    def config(self) -> ConfigView:
        """config.json by layout; an empty one if it could not be read."""
        return ConfigView(self.drafter.config or {})

    def config_place(self, key: str) -> Where:
        """The place of a key of config.json."""
        return Where(file="config.json", key=key)

    @cached_property
    def by_name(self) -> Mapping[str, StoredTensor]:
        """Stored tensors by canonical name; of two with the same name the first."""
        found: dict[str, StoredTensor] = {}
        for tensor in self.drafter.tensors:
            found.setdefault(canonical(tensor.name), tensor)
        return found
