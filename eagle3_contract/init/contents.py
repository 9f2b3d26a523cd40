"""What the stored embedding and head hold, asked of the weights: the target's own rows, rows picked by offset, or something of their own.

Legend: V rows of the embedding, DV draft vocabulary, H width, R sampled rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contract.files.tensors import TensorRef
from contract.findings import Where
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, T2D
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.rules import HEAD_ROWS
from eagle3_contract.init.target import OpenTarget, rows_of
from eagle3_contract.model.names import canonical

SAMPLED: Final = 256
"""Rows that are compared, spread evenly."""
RANDOM_KURTOSIS: Final = 0.35
"""Fresh tables are normal or uniform: all rows have one size, within this relative spread of their norms."""
_NO_TARGET: Final = "the target's weights were not at hand to compare with"


def state_contents(
    ledger: Ledger, tensors: Mapping[str, TensorRef], target: OpenTarget | None, targets_D: NDArray[np.int64] | None
) -> None:
    """State ``tensors.<name>.content`` of every stored tensor.

    Args:
        targets_D: target ids of the draft vocabulary, from the map that training used.
    """
    stored = {canonical(name): ref for name, ref in tensors.items()}
    for name in stored:
        if name in (D2T, T2D):
            ledger.know(f"tensors.{name}.content", "map", "code_rule", "the vocab map")
        elif name not in (EMBEDDING, HEAD):
            ledger.know(f"tensors.{name}.content", "independent", "code_rule", "weights of the drafter's own")
    if EMBEDDING in stored:
        _embedding(ledger, stored[EMBEDDING], target)
    if HEAD in stored:
        _head(ledger, stored[HEAD], target, targets_D)


def _embedding(ledger: Ledger, mine: TensorRef, target: OpenTarget | None) -> None:
    path, theirs = f"tensors.{EMBEDDING}.content", None if target is None else target.embedding
    if theirs is None:
        ledger.forget(path, _NO_TARGET)
        return
    rows = min(mine.shape[0], theirs.shape[0])
    if mine.shape[1:] != theirs.shape[1:]:
        ledger.know(path, "independent", "measured", f"{list(mine.shape)} against the target's {list(theirs.shape)}")
        return
    ids = _spread(rows)
    equal = _equal(mine, ids, theirs, ids)
    if equal == len(ids) and mine.shape[0] <= theirs.shape[0]:
        ledger.know(path, "target_copy", "measured", f"{equal} of {equal} sampled rows are the target's")
        return
    look = "; its rows look like a fresh random table" if _looks_random(mine) else ""
    ledger.know(path, "independent", "measured", f"{equal} of {len(ids)} sampled rows are the target's{look}")
    if look:
        ledger.notes.append(f"the stored {EMBEDDING} is not the target's and looks random: engines disagree on which of the two they use")


def _head(ledger: Ledger, mine: TensorRef, target: OpenTarget | None, targets_D: NDArray[np.int64] | None) -> None:
    path, theirs = f"tensors.{HEAD}.content", None if target is None else target.head
    if theirs is None:
        ledger.forget(path, _NO_TARGET)
        return
    if mine.shape[1:] != theirs.shape[1:]:
        ledger.know(path, "independent", "measured", f"{list(mine.shape)} against the target's {list(theirs.shape)}")
        return
    if not mine.shape or 0 in mine.shape:
        ledger.forget(path, f"the head has the shape {list(mine.shape)}")
        return
    ids = _spread(mine.shape[0])
    if targets_D is None or len(targets_D) != mine.shape[0]:
        targets_D = np.arange(mine.shape[0])
    if int(targets_D.max()) >= theirs.shape[0]:
        ledger.forget(path, f"the vocab map reaches {int(targets_D.max())}, the target's head has {theirs.shape[0]} rows")
        return
    import torch

    from eagle3_contract.trainers.measure import HeadRows, head_rows  # torch

    offsets_D = torch.from_numpy(targets_D - np.arange(len(targets_D)))
    found = head_rows(rows_of(mine)(torch.tensor(ids)), torch.tensor(ids), offsets_D, rows_of(theirs))
    whole = mine.shape[0] == theirs.shape[0] and bool((offsets_D == 0).all())
    if found is HeadRows.TARGET_ROWS:
        kind = "target_copy" if whole else "target_rows"
        ledger.know(path, kind, "measured", f"{len(ids)} of {len(ids)} sampled rows are the target's, as the vocab map picks them")
    elif found is HeadRows.BY_OFFSET:
        ledger.forget(path, "rows of the target's head picked by offset instead of by id")
        ledger.checks.append(
            HEAD_ROWS.failed(
                f"the {len(ids)} sampled rows of {HEAD} are the target's rows of the offsets d2t[i], not of the tokens i + d2t[i]",
                expected="rows i + d2t[i] of the target's head",
                actual="rows d2t[i]",
                where=Where(tensor=HEAD),
            )
        )
    else:
        ledger.know(path, "independent", "measured", f"not every one of {len(ids)} sampled rows is the target's")


def _equal(mine: TensorRef, my_ids: list[int], theirs: TensorRef, their_ids: list[int]) -> int:
    """How many rows are equal within the rounding of a dtype of 8 bits of precision."""
    import torch

    a = rows_of(mine)(torch.tensor(my_ids)).float()
    b = rows_of(theirs)(torch.tensor(their_ids)).float()
    size = b.norm(dim=-1).clamp_min(1e-30)
    return int(((a - b).norm(dim=-1) <= 2**-7 * size).sum())


def _looks_random(table: TensorRef) -> bool:
    """Whether the rows' norms are as alike as those of a table that nobody trained."""
    import torch

    rows = _spread(table.shape[0])
    norms = rows_of(table)(torch.tensor(rows)).float().norm(dim=-1)
    expected = 1 / (2 * table.shape[1]) ** 0.5
    return float(norms.mean()) > 0 and float(norms.std() / norms.mean()) < expected * (1 + RANDOM_KURTOSIS)


def _spread(rows: int) -> list[int]:
    """Up to SAMPLED rows, evenly, the first and the last among them."""
    count = min(rows, SAMPLED)
    return sorted({round(i * (rows - 1) / max(1, count - 1)) for i in range(count)})
