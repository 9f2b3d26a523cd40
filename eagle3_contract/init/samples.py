"""One pass over the training samples: which there are, with digests, what they store, what the draft vocabulary covers of them. A few
are held for what is measured on them; the others are read and let go.

Legend: T tokens, K states, G target hidden size, DV draft vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contract.errors import UserError
from contract.files.paths import open_path
from contract.findings import Check, Where, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.rules import COVERAGE, NOT_COMPARED, SAMPLES
from eagle3_contract.trainers.sample import TrainingSample
from eagle3_contract.trainers.samples import SampleReader, find_samples
from eagle3_contract.vocab.coverage import Coverage, coverage

HELD_SAMPLES: Final = 16
HELD_TOKENS: Final = 16_384
HELD_BYTES: Final = 1 << 30
"""Of how many samples the states are kept for measurements: enough for an interval, little enough for any machine."""
MANIFEST_LIMIT: Final = 1500
"""Samples that a contract lists one by one: a contract file is limited to 256 KiB, and a listed sample takes up to 150 bytes."""
FAULTS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a sample stores: container, number of states, their width and dtype, whether a last state is stored apart."""

    format: str
    states: int
    width: int
    dtype: str
    last: bool

    def __str__(self) -> str:
        last = "with" if self.last else "without"
        return f"{self.states} states of width {self.width} in {self.dtype} ({self.format}), {last} a last state"


@dataclass(slots=True, kw_only=True)
class Scan:
    """What the pass found."""

    root: Path
    single: bool
    layout: Layout | None = None
    held: list[TrainingSample] = field(default_factory=list)
    manifest: dict[str, str] = field(default_factory=dict)
    rejected: list[Check] = field(default_factory=list)
    tokens: int = 0


def scan_samples(
    ledger: Ledger, path: str, *, targets: NDArray[np.int64] | None, allow_pickle: bool, limits: Limits = DEFAULT_LIMITS
) -> Scan:
    """Read every sample once.

    Args:
        path: a folder or one file.
        targets: [DV] target ids of the draft vocabulary, for the coverage; None if they are not known.

    Raises:
        InputRejected: there is nothing at the path, or it holds pickles that may not be read.
    """
    place = Path(path)
    files = find_samples(place, limits=limits)
    scan = Scan(root=place if place.is_dir() else place.parent, single=place.is_file())
    covered, odd = Coverage(), 0
    for sample in _read(scan, files, allow_pickle, limits):
        layout = _layout(sample)
        if scan.layout is None:
            scan.layout = layout
        elif layout != scan.layout:
            odd += 1
            if odd <= FAULTS_SHOWN:
                text = f"{sample.name} stores {layout}, the first sample {scan.layout}"
                ledger.checks.append(SAMPLES.failed(text, expected=str(scan.layout), actual=str(layout), where=Where(sample=sample.name)))
            continue
        scan.tokens += sample.tokens
        if targets is not None:
            mask = None if sample.loss_mask_T is None else sample.loss_mask_T.numpy()
            covered += coverage(sample.input_ids_T.numpy(), targets, mask)
        if _room(scan, sample):
            scan.held.append(sample)
    _say(ledger, scan, len(files), covered)
    return scan


def state_samples(ledger: Ledger, scan: Scan | None, contract_folder: Path) -> None:
    """State ``training.samples`` but for the states, and what the samples say of dtype."""
    if scan is None or scan.layout is None:
        ledger.know("training.samples.count", 0, "declared", "no samples were given")
        ledger.know("training.samples.path", None, "declared", "no samples were given")
        ledger.know("training.samples.manifest", {}, "declared", "no samples were given")
        ledger.leave_open("training.samples.states", "no samples were given")
        return
    listed = scan.manifest if len(scan.manifest) <= MANIFEST_LIMIT else {}
    inside = scan.root.resolve().is_relative_to(contract_folder.resolve()) and not scan.single
    relative = os.path.relpath(scan.root.resolve(), contract_folder.resolve()) if inside else None
    ledger.know("training.samples.path", relative, "measured", "beside the contract" if inside else "kept elsewhere")
    ledger.know("training.samples.count", len(listed), "measured", "samples listed")
    ledger.know("training.samples.manifest", listed, "measured", "digests of the files")
    if not listed:
        text = f"{len(scan.manifest)} samples are more than the {MANIFEST_LIMIT} that a contract lists one by one: none is listed"
        ledger.checks.append(NOT_COMPARED.failed(text, fix="Keep a smaller set of samples with the contract."))


def _read(scan: Scan, files: list[Path], allow_pickle: bool, limits: Limits) -> Iterator[TrainingSample]:
    with SampleReader(allow_pickle=allow_pickle, root=scan.root, limits=limits) as reader:
        for file in files:
            try:
                sample = reader.load(file)
                with open_path(file) as opened:
                    digest = f"sha256:{opened.sha256()}"
            except UserError as error:
                if error.rule == "files.pickle-refused":
                    raise
                if len(scan.rejected) < FAULTS_SHOWN:
                    scan.rejected.append(check_from_error(error, dimension="pairing"))
                continue
            scan.manifest[file.relative_to(scan.root).as_posix()] = digest
            yield sample


def _layout(sample: TrainingSample) -> Layout:
    first = sample.states_THk[0]
    return Layout(
        format=sample.format,
        states=len(sample.states_THk),
        width=first.shape[1],
        dtype=str(first.dtype).removeprefix("torch."),
        last=sample.last_TG is not None,
    )


def _room(scan: Scan, sample: TrainingSample) -> bool:
    held = sum(s.tokens for s in scan.held)
    layout = scan.layout
    size = 0 if layout is None else (layout.states + 1) * layout.width * 4
    fits = held + sample.tokens <= HELD_TOKENS and (held + sample.tokens) * size <= HELD_BYTES
    return not scan.held or (len(scan.held) < HELD_SAMPLES and fits)


def _say(ledger: Ledger, scan: Scan, files: int, covered: Coverage) -> None:
    if scan.layout is not None and not any(c.rule == SAMPLES.id for c in ledger.checks):
        ledger.checks.append(SAMPLES.passed(f"{len(scan.manifest)} of {files} samples, {scan.tokens} tokens, store {scan.layout}"))
    if covered.fraction is not None:
        ledger.checks.append(
            COVERAGE.passed(
                f"the draft vocabulary covers {covered.fraction:.1%} of {covered.total} counted tokens: a ceiling for accuracy",
                actual=covered.fraction,
                evidence={"covered": covered.covered, "total": covered.total},
            )
        )
