"""One pass over a weight file that gives its digest and counts what is not finite, so that every byte is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from contract.files.checkpoint import Checkpoint

if TYPE_CHECKING:
    from contract.files.tensors import Piece

EXPONENT: Final = {"BF16": ("<u2", 0x7F80), "F16": ("<u2", 0x7C00), "F32": ("<u4", 0x7F800000), "F64": ("<u8", 0x7FF0000000000000)}
"""Word and exponent mask of the float dtypes: a value is NaN or infinite exactly if all exponent bits are set."""


@dataclass(frozen=True, slots=True)
class FileScan:
    """What one pass found: the digest as contracts write it, and non-finite values by tensor (every float tensor is a key)."""

    digest: str
    not_finite: Mapping[str, int]


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
            scan, counts = self.checkpoint.scan(file), Counter[str]()
            for piece in scan:
                if piece.ref.dtype in EXPONENT:
                    counts[piece.ref.name] += _not_finite(piece)
            self._done[file] = FileScan(digest=f"sha256:{scan.sha256}", not_finite=counts)
        return self._done[file]


def _not_finite(piece: Piece) -> int:
    import numpy as np

    word, mask = EXPONENT[piece.ref.dtype]
    bits = np.frombuffer(piece.data, dtype=word)
    return int(((bits & mask) == mask).sum())
