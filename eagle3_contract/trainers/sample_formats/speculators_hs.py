"""speculators from 0.5 on: ``hs_{i}.safetensors`` with ``hidden_states`` [T, K+1, G] and ``token_ids`` [T] (0.9.0 train/data.py:324-333).

The loss mask is in row i of the data set's arrow files, in the folder above ``hidden_states/``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from contract.files.tensors import TensorRef
from contract.files.torch_tensors import load_tensors
from eagle3_contract.trainers.sample import TrainingSample, mask_row, rejected, require_states, state_rows, token_row
from eagle3_contract.trainers.sample_formats.arrow_rows import ArrowRows, open_rows

KEYS: Final = frozenset({"hidden_states", "token_ids"})
_INDEX: Final = re.compile(r"hs_(\d{1,9})\.safetensors")
_NO_MASK: Final = "the loss mask is in the training data set (its *.arrow files), which is not in the folder of hidden_states or above it"


def read_states(tensors: Mapping[str, TensorRef], *, name: str, path: Path) -> TrainingSample:
    """The sample in one file.

    Raises:
        SampleRejected: shapes, dtypes or values are wrong, or the data set's tokens are others (``samples.tokens-disagree``).
        InputRejected: the data set is malformed.
    """
    file = str(path)
    held = load_tensors(tensors)
    ids = token_row(held["token_ids"], "token_ids", file)
    stored = held["hidden_states"]
    if stored.ndim != 3 or stored.shape[1] < 2 or stored.shape[2] == 0:
        raise rejected("shape", f"hidden_states has shape {list(stored.shape)}; [tokens, states, width] is due", file)
    require_states(stored.shape[1], "hidden_states", file)
    rows = state_rows(stored.flatten(1), "hidden_states", len(ids), file)
    *states, last = torch.split(rows, stored.shape[2], dim=-1)
    mask = _mask(path, ids)
    return TrainingSample(
        name=name,
        file=file,
        format="speculators.hs",
        input_ids_T=ids,
        loss_mask_T=mask,
        states_THk=tuple(states),
        last_TG=last,
        notes=() if mask is not None else (_NO_MASK,),
    )


def _mask(path: Path, ids_T: Tensor) -> Tensor | None:
    """The loss mask of the data set's row; None if the data set is not at hand."""
    index, data = _INDEX.fullmatch(path.name), _data_set(path)
    if index is None or data is None:
        return None
    row = data.row(int(index.group(1)))
    if row["input_ids"] != ids_T.tolist():
        raise rejected(
            "tokens-disagree",
            f"token_ids are not the input_ids of row {index.group(1)} of the data set {data.folder}",
            str(path),
            "Use the data set that the states were dumped from.",
        )
    return mask_row(torch.tensor(row["loss_mask"]), "loss_mask", len(ids_T), str(path))


def _data_set(path: Path) -> ArrowRows | None:
    for folder in (path.parent, path.parent.parent):
        if any(folder.glob("*.arrow")):
            return open_rows(folder)
    return None
