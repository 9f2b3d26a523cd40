"""The fingerprint of a target: is it this very model, without hashing hundreds of gigabytes?

``sha256`` over, in this order, 64 rows of the embedding, 64 rows of the head (of the embedding where the head is tied) and the final
norm. The rows are ``i * (V - 1) // 63`` for i = 0 ... 63, V the stored rows, so that the first and the last are among them. Before each
part goes a line ``{part} {dtype} {shape}\\n`` in ASCII, with the safetensors dtype, then the stored bytes. Sharding and names do not
matter; another dtype or quantisation gives another fingerprint, and so does
another revision unless it left the embedding, the head and the final norm alone (a merged LoRA, a tune with both frozen): that one shows in
the states, or in the digests of the target's files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from contract.files.tensors import TensorRef
from eagle3_contract.model.target_names import TARGET_EMBEDDING_NAMES, TARGET_FINAL_NORM_NAMES, TARGET_HEAD_NAMES, first_of

ROWS: Final = 64


def fingerprint(tensors: Mapping[str, TensorRef]) -> str | None:
    """``sha256:...`` of a target's tensors; None where it has no embedding or no final norm under a known name.

    Raises:
        InputRejected: a file changed or cannot be read.
    """
    embedding, norm = first_of(TARGET_EMBEDDING_NAMES, tensors), first_of(TARGET_FINAL_NORM_NAMES, tensors)
    head = first_of(TARGET_HEAD_NAMES, tensors) or embedding
    if embedding is None or head is None or norm is None:
        return None
    digest = hashlib.sha256()
    for part, name in (("embedding", embedding), ("head", head)):
        ref = tensors[name]
        if len(ref.shape) != 2 or not ref.nbytes:
            return None
        digest.update(_line(part, ref))
        digest.update(ref.read_rows(fingerprint_rows(ref.shape[0])))
    digest.update(_line("final_norm", tensors[norm]))
    digest.update(tensors[norm].read_bytes())
    return f"sha256:{digest.hexdigest()}"


def fingerprint_rows(rows: int) -> list[int]:
    """Which of so many rows are hashed: ascending, a row of a small table more than once."""
    return [i * (rows - 1) // (ROWS - 1) for i in range(ROWS)]


def _line(part: str, ref: TensorRef) -> bytes:
    return f"{part} {ref.dtype} {list(ref.shape)}\n".encode("ascii")
