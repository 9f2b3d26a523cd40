"""One pass over a weight file for its digest, what is not finite and what is one value throughout: every byte is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from contract.files.checkpoint import Checkpoint

if TYPE_CHECKING:
    from contract.files.tensors import Piece

EXPONENT: Final = {"BF16": ("<u2", 0x7F80), "F16": ("<u2", 0x7C00), "F32": ("<u4", 0x7F800000), "F64": ("<u8", 0x7FF0000000000000)}
"""Word and exponent mask of the float dtypes: a value is NaN or infinite exactly if all exponent bits are set."""


@dataclass(frozen=True, slots=True)
class FileScan:
    """What one pass found: the digest as contracts write it, non-finite values by tensor (every float tensor is a key), and the float
    tensors all of whose values are the same bits."""

    digest: str
    not_finite: Mapping[str, int]
    constant: frozenset[str]


@dataclass(slots=True)
class Scanner:
    """Scans each weight file of a checkpoint at most once."""

    checkpoint: Checkpoint
    _done: dict[str, FileScan] = field(default_factory=dict)

    def digest(self, file: str) -> str:
        """``sha256:...`` of any file of the folder. Raises InputRejected if it changed or cannot be read."""
        scanned = self.weights(file)
        return scanned.digest if scanned is not None else f"sha256:{self.checkpoint.sha256(file)}"

    def weights(self, file: str) -> FileScan | None:
        """The scan of a weight file; None if it is none. Raises like ``digest``."""
        if file not in self._done:
            if file not in {shard.name for shard in (*self.checkpoint.shards, *self.checkpoint.extra)}:
                return None
            scan, counts, first, varied = self.checkpoint.scan(file), Counter[str](), dict[str, int](), set[str]()
            for piece in scan:
                if piece.ref.dtype in EXPONENT:
                    bits, name = _bits(piece), piece.ref.name
                    counts[name] += _not_finite(piece, bits)
                    if name not in varied and bool((bits != first.setdefault(name, bits[0])).any()):
                        varied.add(name)
            self._done[file] = FileScan(digest=f"sha256:{scan.sha256}", not_finite=counts, constant=frozenset(first.keys() - varied))
        return self._done[file]


def _bits(piece: Piece) -> Any:
    import numpy as np

    return np.frombuffer(piece.data, dtype=EXPONENT[piece.ref.dtype][0])


def _not_finite(piece: Piece, bits: Any) -> int:
    mask = EXPONENT[piece.ref.dtype][1]
    return int(((bits & mask) == mask).sum())
