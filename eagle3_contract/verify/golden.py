"""Golden rows: inputs and logits of a forward that somebody trusted, small enough to be committed beside the drafter.

File ``golden.safetensors``, format version 1 (docs/golden-format.md), with ``__metadata__``
{"format": "eagle3-contract-golden", "format_version": "1"}:

=====================  ==========================  =========================================================================
tensor                 shape, dtype                what
=====================  ==========================  =========================================================================
input_ids              [T] int64                   unshifted; row t belongs to token t
hidden_states          [T, K*G] float              what reaches fc, in concatenation order
position_ids           [T] int64, optional         rotary position of each token's state
document_ids           [T] int64, optional         packed documents; -1 = padding
logits_step{s}         [T-1, DV] float32           s = 0, 1, ...; NaN where a row has no token to be fed
fc_out                 [T-1, H] float32, optional  the hidden stream behind fc, before the first step
state_step{s}          [T-1, H] float32, optional  what step s hands to the next one; NaN as for the logits
embedding_ids          [L] int64, optional         the token ids whose embedding rows follow
embedding_rows         [L, H] float, optional      rows of the embedding that the drafter does not store itself
=====================  ==========================  =========================================================================

Legend: T tokens, K states, G target hidden size, H drafter hidden size, DV draft vocabulary, L rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from contract.errors import InputRejected
from contract.files.bundle_tensors import entries
from contract.files.checkpoint import Checkpoint
from contract.files.paths import Folder
from contract.files.torch_tensors import load_tensor
from contract.files.writing import write_safetensors
from contract.findings import Where
from eagle3_contract.drafter.names import TARGET_EMBEDDING_NAMES

FORMAT: Final = "eagle3-contract-golden"
FORMAT_VERSION: Final = "1"
_INPUTS: Final = ("input_ids", "hidden_states")
_OPTIONAL: Final = ("position_ids", "document_ids", "embedding_ids", "embedding_rows")
_STEP: Final = re.compile(r"logits_step(0|[1-9][0-9]?)")
FC_OUT: Final = "fc_out"
STATE: Final = "state_step"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRows:
    """The content of a golden file; see the module docstring for shapes."""

    path: Path
    input_ids_T: Tensor
    hidden_states_TC: Tensor
    position_ids_T: Tensor | None
    document_ids_T: Tensor | None
    logits_steps: tuple[Tensor, ...]
    embedding: Mapping[int, Tensor] | None
    fc_out_RH: Tensor | None = None
    state_steps: Mapping[int, Tensor] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.logits_steps)


class EmbeddingRows:
    """A weight source that holds only the embedding rows of a golden file (the protocol of drafter.weights.WeightSource)."""

    row_by_row: Final = True

    def __init__(self, golden: GoldenRows, vocab_size: int) -> None:
        self._rows = dict(golden.embedding or {})
        self._size = vocab_size
        self.label = str(golden.path)

    def names(self) -> Collection[str]:
        return TARGET_EMBEDDING_NAMES[:1]

    def shape(self, name: str) -> tuple[int, ...]:
        return (self._size, next(iter(self._rows.values())).shape[0])

    def tensor(self, name: str) -> Tensor:
        raise _malformed(self.label, f"{name} is there only row by row")

    def rows(self, name: str, ids_L: Tensor) -> Tensor:
        wanted = ids_L.tolist()
        lacking = sorted(i for i in set(wanted) if i not in self._rows)
        if lacking:
            raise _malformed(self.label, f"embedding rows of the tokens {lacking[:8]} are missing")
        if not wanted:  # the tail of a short text has no token to be fed
            return next(iter(self._rows.values()))[None][:0]
        return torch.stack([self._rows[i] for i in wanted])


def read_golden(folder: Path, name: str) -> GoldenRows:
    """Read a golden file strictly.

    Args:
        folder: the contract's folder.
        name: the file's name in it, as the contract gives it; it may not leave the folder.

    Raises:
        InputRejected: ``golden.malformed`` or a ``files.*`` rule.
    """
    path = folder / name
    with Folder(folder) as opened, opened.open(name):
        pass  # contained, regular, no link out of the folder
    checkpoint = Checkpoint.open(path)
    checkpoint.raise_if_rejected()
    metadata = checkpoint.shards[0].header.metadata or {}
    if metadata.get("format") != FORMAT or metadata.get("format_version") != FORMAT_VERSION:
        raise _malformed(str(path), f"its metadata names {metadata.get('format')!r} version {metadata.get('format_version')!r}")
    tensors = {name: load_tensor(ref) for name, ref in checkpoint.tensors.items()}
    steps = sorted(int(m.group(1)) for name in tensors if (m := _STEP.fullmatch(name)))
    known = {*_INPUTS, *_OPTIONAL, FC_OUT, *(f"{kind}{s}" for s in steps for kind in ("logits_step", STATE))}
    if unknown := sorted(tensors.keys() - known):
        raise _malformed(str(path), f"unknown tensors {unknown[:5]}")
    if missing := [n for n in _INPUTS if n not in tensors]:
        raise _malformed(str(path), f"{', '.join(missing)} missing")
    if not steps or steps != list(range(len(steps))):
        raise _malformed(str(path), f"logits of the steps {steps}; expected 0, 1, ... without a gap")
    golden = GoldenRows(
        path=path,
        input_ids_T=tensors["input_ids"],
        hidden_states_TC=tensors["hidden_states"],
        position_ids_T=tensors.get("position_ids"),
        document_ids_T=tensors.get("document_ids"),
        logits_steps=tuple(tensors[f"logits_step{s}"] for s in steps),
        embedding=_embedding(path, tensors),
        fc_out_RH=tensors.get(FC_OUT),
        state_steps={s: tensors[f"{STATE}{s}"] for s in steps if f"{STATE}{s}" in tensors},
    )
    _check_shapes(golden)
    return golden


def write_golden(
    path: Path,
    *,
    input_ids_T: Tensor,
    hidden_states_TC: Tensor,
    logits_steps: Sequence[Tensor],
    embedding_ids_L: Tensor | None = None,
    embedding_rows_LH: Tensor | None = None,
    position_ids_T: Tensor | None = None,
    document_ids_T: Tensor | None = None,
    fc_out_RH: Tensor | None = None,
    state_steps: Mapping[int, Tensor] | None = None,
) -> None:
    """Write a golden file atomically; shapes and dtypes as in the module docstring. Raises InputRejected if the place is unusable."""
    tensors: dict[str, Tensor | None] = {
        "input_ids": input_ids_T,
        "hidden_states": hidden_states_TC,
        "position_ids": position_ids_T,
        "document_ids": document_ids_T,
        "embedding_ids": embedding_ids_L,
        "embedding_rows": embedding_rows_LH,
        **{f"logits_step{step}": logits.to(torch.float32) for step, logits in enumerate(logits_steps)},
        FC_OUT: fc_out_RH,
        **{f"{STATE}{step}": state.to(torch.float32) for step, state in (state_steps or {}).items()},
    }
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    write_safetensors(path, entries(given), {"format": FORMAT, "format_version": FORMAT_VERSION})


def _embedding(path: Path, tensors: Mapping[str, Tensor]) -> dict[int, Tensor] | None:
    ids_L, rows_LH = tensors.get("embedding_ids"), tensors.get("embedding_rows")
    if ids_L is None and rows_LH is None:
        return None
    if ids_L is None or rows_LH is None or ids_L.ndim != 1 or rows_LH.ndim != 2 or len(ids_L) != len(rows_LH) or not len(ids_L):
        raise _malformed(str(path), "embedding_ids and embedding_rows do not belong together")
    return dict(zip(ids_L.tolist(), rows_LH, strict=True))


def _check_shapes(golden: GoldenRows) -> None:
    tokens = golden.input_ids_T.shape[0] if golden.input_ids_T.ndim == 1 else -1
    problems = [
        "input_ids is not [T] int64 with T >= 3" if tokens < 3 or golden.input_ids_T.dtype != torch.int64 else "",
        "hidden_states is not [T, K*G]" if golden.hidden_states_TC.ndim != 2 or len(golden.hidden_states_TC) != tokens else "",
        *(
            f"{name} is not [T] int64" if extra is not None and (extra.shape != (tokens,) or extra.dtype != torch.int64) else ""
            for name, extra in (("position_ids", golden.position_ids_T), ("document_ids", golden.document_ids_T))
        ),
        *(
            f"logits_step{s} is not [T-1, DV] float32" if z.ndim != 2 or len(z) != tokens - 1 or z.dtype != torch.float32 else ""
            for s, z in enumerate(golden.logits_steps)
        ),
        *(
            f"{name} is not [T-1, H] float32" if x.ndim != 2 or len(x) != tokens - 1 or x.dtype != torch.float32 else ""
            for name, x in intermediate(golden).items()
        ),
    ]
    if found := [p for p in problems if p]:
        raise _malformed(str(golden.path), "; ".join(found))


def _malformed(file: str, what: str) -> InputRejected:
    return InputRejected(
        f"{file} is no golden file: {what}",
        rule="golden.malformed",
        fix="Write it with the trainer's stamp, in the format of docs/golden-format.md.",
        where=Where(file=file),
    )


def intermediate(golden: GoldenRows) -> dict[str, Tensor]:
    """The intermediate states that the file holds, by their names in it, in the order of computation."""
    found = {} if golden.fc_out_RH is None else {FC_OUT: golden.fc_out_RH}
    return found | {f"{STATE}{step}": x for step, x in sorted(golden.state_steps.items())}
