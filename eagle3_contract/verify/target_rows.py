"""Is ``--target`` the target of the samples: boundary 0 of a sample is the target's embedding of its tokens, times the family's scale.

Where the contract states the target's fingerprint, that decides (check/target). Where it does not, another target of the same shapes would
pass unseen; the samples know better.

Legend: L rows looked at, G target hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from contract.errors import UserError
from contract.files.bundle import Bundle
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, Depth, Where
from contract.limits import MIB
from contract.statement import fact
from contract.words import first_few
from eagle3_contract.drafter.names import TARGET_EMBEDDING_NAMES
from eagle3_contract.drafter.weights import WeightSource
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.verify import rules
from eagle3_contract.verify.sample_set import SampleSet
from eagle3_contract.verify.target_tokens import RMS_FAMILIES

ROWS: Final = 64
"""Tokens of the first sample that are looked up."""
SCALED: Final = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text"})
"""Families that multiply the embedding by sqrt(hidden size) (transformers, modeling_gemma.py: ``normalizer``)."""
SAME_ROW: Final = 2.0**-6
"""Rows are the same within this share of their largest value: a cast to bfloat16 costs 2^-9, the rounded scale of a family another 2^-9."""
HASHED_BYTES: Final = 64 * MIB
"""Files of the target up to this size are hashed to be held against a capture; weights are the fingerprint's business."""


def check_embedding_rows(loaded: LoadedContract, samples: SampleSet, target: WeightSource) -> Iterator[Check]:
    """One check where the fingerprint is unknown and the samples hold boundary 0; none where either is not so."""
    if fact(loaded.contract.target.fingerprint).known:
        return
    sample = next((s for s in samples.read() if isinstance(s, TrainingSample)), None)
    states = None if sample is None else (sample.boundaries or samples.stored)
    if sample is None or states is None or 0 not in states:
        return
    named = next((n for n in TARGET_EMBEDDING_NAMES if n in target.names()), None)
    if named is None:
        return
    family = fact(loaded.contract.target.model_type)
    where = Where(sample=sample.name)
    if not family.known or family.value not in (*RMS_FAMILIES, *SCALED):
        text = f"what the family {family.value if family.known else '(unknown)'} does to its embedding before the first layer is not known"
        yield rules.EMBEDDING_ROWS.undecided(text, at=Depth.VERIFY, required=False, where=where)
        return
    ids_L = sample.input_ids_T[:ROWS]
    stored_LG = sample.states_THk[states.index(0)][:ROWS].float()
    try:
        rows_LG = target.rows(named, ids_L).float()
    except UserError as error:
        yield rules.EMBEDDING_ROWS.failed(f"the target has no embedding of the sample's tokens: {error.message}", where=where)
        return
    if rows_LG.shape != stored_LG.shape:
        yield rules.EMBEDDING_ROWS.failed(
            f"the target's embedding is {rows_LG.shape[1]} wide, boundary 0 of the sample {stored_LG.shape[1]}", where=where
        )
        return
    if family.value in SCALED:
        rows_LG = rows_LG * rows_LG.shape[1] ** 0.5
    off_L = (stored_LG - rows_LG).abs().amax(1) > SAME_ROW * rows_LG.abs().amax(1)
    off_L |= ~torch.isfinite(stored_LG).all(1)
    count = int(off_L.sum())
    if not count:
        yield rules.EMBEDDING_ROWS.passed(f"boundary 0 of {len(ids_L)} tokens is the target's embedding of them", where=where)
        return
    row = int(off_L.nonzero()[0])
    yield rules.EMBEDDING_ROWS.failed(
        f"boundary 0 of {count} of {len(ids_L)} tokens is not the target's embedding of them (first: token {int(ids_L[row])})",
        expected=0,
        actual=count,
        where=Where(sample=sample.name, row=row),
    )


def check_captured_target(bundle: Bundle, target: Checkpoint) -> Iterator[Check]:
    """The digests of the target's files in a capture against those of ``--target``; no check without a file that both have."""
    stated: Mapping[str, Any] = bundle.manifest.target.files
    sizes = {info.name: info.size for info in target.files if info.usable}
    both = [name for name in stated if sizes.get(name, HASHED_BYTES + 1) <= HASHED_BYTES]
    if not both:
        return
    other = [name for name in both if f"sha256:{target.sha256(name)}" != stated[name]]
    if other:
        yield rules.CAPTURE_TARGET_FILES.failed(
            f"{first_few(other)} of --target {'is' if len(other) == 1 else 'are'} not what the capture was taken from",
            expected={name: stated[name] for name in other},
            where=Where(file=other[0]),
        )
    else:
        yield rules.CAPTURE_TARGET_FILES.passed(f"{len(both)} files of --target are those that the capture was taken from")
