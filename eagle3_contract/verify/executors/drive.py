"""The samples of a run through an executor: what a journal knows is taken from it, the rest is measured and written down."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import torch

from contract import __version__
from contract.errors import UserError
from contract.progress import progress
from eagle3_contract.verify.executors.base import Executor
from eagle3_contract.verify.executors.journal import Journal
from eagle3_contract.verify.executors.measure import file_digest
from eagle3_contract.verify.executors.result import Outcome, SampleResult


def drive(executor: Executor, root: Path, files: Sequence[Path], journal: Journal | None) -> Generator[tuple[Outcome, bool], None, None]:
    """Every outcome in the order of the files, and whether it was known from the journal. Holds no sample, and a few counts.

    Args:
        executor: who measures.
        root: the samples' folder; names are relative to it.
        journal: what is known and where the rest is written down; None for neither. A known sample counts only if its file has not changed.

    Raises:
        UserError: of the executor or of the journal.
    """
    begun: deque[tuple[str | None, SampleResult | None]] = deque()
    """Of the files that the executor has taken, and of known ones between them: the digest, and what is known."""

    def unknown() -> Iterator[str]:
        for file in files:
            digest = None if journal is None else _digest(file)
            line = None if journal is None else journal.known.get(file.relative_to(root).as_posix())
            known = line.result if line is not None and line.digest == digest else None
            begun.append((digest, known))
            if known is None:
                yield str(file)

    with ExitStack() as stack:
        tick = stack.enter_context(progress(len(files), "samples"))
        for outcome in stack.enter_context(closing(executor.outcomes(unknown()))):
            digest, known = begun.popleft()
            while known is not None:
                tick()
                yield known, True
                digest, known = begun.popleft()
            if journal is not None and digest is not None and isinstance(outcome, SampleResult):
                journal.add(digest, outcome)
            tick()
            yield outcome, False
        for _, known in begun:
            assert known is not None
            tick()
            yield known, True


def run_digest(parts: Mapping[str, str]) -> str:
    """The digest that names a run: of the digests of its inputs, and the versions that could count otherwise."""
    text = json.dumps({**parts, "tool": __version__, "torch": torch.__version__}, sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _digest(file: Path) -> str | None:
    try:
        return file_digest(file)
    except UserError:
        return None  # reading it will say why
