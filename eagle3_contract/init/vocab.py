"""The vocab map from every place that holds one, held against each other, and what its values mean.

Legend: DV draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from contract.errors import InputRejected
from contract.files.tensors import TensorRef
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.rules import CONTRADICTION, NOT_COMPARED, VOCAB
from eagle3_contract.vocab.classify import MapKind, MapVerdict, classify_map
from eagle3_contract.vocab.load import VocabSource, checkpoint_map, disagreements, find_map_files, load_map

CHECKPOINT = "the checkpoint"


def read_maps(
    ledger: Ledger, tensors: Mapping[str, TensorRef], folders: Iterable[Path], *, allow_pickle: bool, limits: Limits = DEFAULT_LIMITS
) -> list[VocabSource]:
    """Every map: the checkpoint's, then the files of the folders. One that may not be read is said to have been left out; maps for
    another draft vocabulary (speculators names its files by size) are left out silently where the name says so."""
    found = [checkpoint_map(tensors, CHECKPOINT)]
    seen: set[Path] = set()
    for folder in folders:
        for path in find_map_files(folder):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            if path.suffix != ".npy" and not allow_pickle:
                ledger.checks.append(
                    NOT_COMPARED.failed(
                        f"{path} is a pickle-family file and was not compared", where=Where(file=str(path)), fix="Give --allow-pickle."
                    )
                )
                continue
            try:
                found.append(load_map(path, allow_pickle=allow_pickle, limits=limits))
            except InputRejected as error:
                if error.rule != "vocab.no-map":
                    raise
    return found


def state_vocab(ledger: Ledger, sources: Sequence[VocabSource]) -> MapVerdict | None:
    """State ``vocab.map``; violations where places disagree. Returns the verdict on the map that training used."""
    stored, files = sources[0], [s for s in sources[1:] if _of_this_size(s, ledger)]
    compared = [stored, *files]
    for text in disagreements(compared):
        ledger.checks.append(VOCAB.failed(text, where=Where(tensor=text.partition(":")[0])))
    holders = [s for s in compared if s.d2t is not None]
    if len(holders) > 1 and not disagreements([VocabSource(s.place, d2t=s.d2t) for s in holders]):
        ledger.checks.append(VOCAB.passed(f"d2t is the same in {' and '.join(s.place for s in holders)}"))
    draft, target = ledger.value("vocab.draft_size"), ledger.value("vocab.target_size")
    if not holders:
        return None
    if stored.d2t is None:
        ledger.checks.append(
            VOCAB.failed(
                f"training used the map of {holders[0].place}, the checkpoint carries none: vLLM then drafts the first {draft} target ids",
                expected="d2t in the checkpoint",
                actual="missing",
                where=Where(tensor="d2t"),
                fix="Export the drafter with its d2t.",
            )
        )
    if draft is None or target is None:
        ledger.forget("vocab.map", "the sizes of the vocabularies are not known, so that the values of d2t mean nothing yet")
        return None
    t2d = next((s.t2d for s in compared if s.t2d is not None), None)
    verdict = classify_map(holders[0].d2t, draft, target, t2d)
    _state_map(ledger, verdict, holders[0], draft, target)
    return verdict


def _state_map(ledger: Ledger, verdict: MapVerdict, source: VocabSource, draft: int, target: int) -> None:
    because = "; ".join((*verdict.reasons, *verdict.notes))
    if verdict.t2d_problems:
        ledger.checks.append(VOCAB.failed("; ".join(verdict.t2d_problems), where=Where(tensor="t2d")))
    if verdict.kind is MapKind.IDENTITY and draft < target:
        ledger.forget(
            "vocab.map", f"d2t of {source.place} is all zeros although the vocabulary is reduced: a buffer that was never written"
        )
        ledger.checks.append(
            CONTRADICTION.failed(
                f"vocab.map: d2t of {source.place} is all zeros, and the head has {draft} rows for {target} target ids",
                expected=f"a map into {target} ids",
                actual="zeros",
                where=Where(tensor="d2t"),
            )
        )
    elif verdict.kind is MapKind.IDENTITY:
        ledger.know("vocab.map", "identity", "measured", f"d2t of {source.place}: {because}")
    elif verdict.map is not None:
        if verdict.kind is MapKind.ABSOLUTE:
            ledger.notes.append(f"d2t of {source.place} holds target ids; no trainer read writes that, and every engine adds the draft id")
        ledger.measure("vocab.map", verdict.map.value, f"values of d2t in {source.place}: {because}", where=Where(tensor="d2t"))
    else:
        ledger.forget("vocab.map", f"d2t of {source.place} is {verdict.kind.value}: {because}")
        if verdict.kind is MapKind.INVALID:
            ledger.checks.append(VOCAB.failed(f"d2t of {source.place} is no map: {because}", where=Where(tensor="d2t")))


def _of_this_size(source: VocabSource, ledger: Ledger) -> bool:
    """Whether a file is meant for this drafter: speculators keeps maps of several sizes side by side and names them by size."""
    draft, name = ledger.value("vocab.draft_size"), Path(source.place).stem
    size = name.rpartition("-")[2]
    return not (size.isdecimal() and draft is not None and int(size) != draft)
