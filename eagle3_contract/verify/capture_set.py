"""A capture bundle as `verify` uses it: whether it belongs to the contract, and which request repeats which sample.

Legend: T tokens, G target hidden size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from torch import Tensor

from contract.files.bundle import Bundle, BundleRequest
from contract.files.bundle_manifest import FINAL_NORM as FINAL_NORM_TENSOR
from contract.files.bundle_manifest import GREEDY, INPUT_IDS, POSITION_IDS, Manifest
from contract.files.torch_tensors import load_tensor
from contract.findings import Check, Depth, Where
from contract.statement import fact
from contract.words import first_few
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.model.states import FINAL_NORM, State, recipe_text
from eagle3_contract.verify import rules
from eagle3_contract.verify.engine_runs.rows import PLAIN, RowLedger, full_tokens, is_compared, repeats, rows_in_common
from eagle3_contract.verify.inference import recipe_fed

COUNT_BOUNDARIES: Final = ("sglang", "vllm")
"""Engines whose live ids, as our hooks record them, are boundary numbers (SGLang's ``layers_to_capture``, vLLM's
``aux_hidden_state_layers``), whatever numbering their configs use."""
_NUMBERED: Final = re.compile(r"(slot|boundary)\.(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """One request: what was fed, slot by slot, and every state that was recorded."""

    request: BundleRequest
    slots: tuple[str, ...]
    states: Mapping[State, str]
    rows: int
    """Rows that are looked at, from the first on: all of the request's, or those that it has in common with its sample."""

    @classmethod
    def of(cls, request: BundleRequest) -> Captured:
        slots = sorted((int(m[2]), name) for name in request.tensors if (m := _NUMBERED.fullmatch(name)) and m[1] == "slot")
        states: dict[State, str] = {int(m[2]): name for name in request.tensors if (m := _NUMBERED.fullmatch(name)) and m[1] == "boundary"}
        if FINAL_NORM_TENSOR in request.tensors:
            states[FINAL_NORM] = FINAL_NORM_TENSOR
        return cls(request, tuple(name for _, name in slots), states, request.tokens)

    def first(self, rows: int) -> Captured:
        """The same request, looked at up to a row."""
        return replace(self, rows=rows)

    @property
    def input_ids(self) -> Tensor:
        """The token ids [T]."""
        return self.load(INPUT_IDS)

    @property
    def positions(self) -> Tensor:
        """The tokens' positions [T]."""
        return self.load(POSITION_IDS)

    def load(self, name: str) -> Tensor:
        """A recorded tensor, its first ``rows`` rows."""
        return load_tensor(self.request.tensors[name])[: self.rows]

    @property
    def greedy(self) -> Tensor | None:
        """The target's argmax after each token [T], if it was recorded."""
        return self.load(GREEDY) if GREEDY in self.request.tensors else None


def belongs(bundle: Bundle, loaded: LoadedContract) -> Iterator[Check]:
    """Whether the bundle's target and drafter are the contract's, as far as both sides say."""
    contract, manifest = loaded.contract, bundle.manifest
    compared, differs = 0, False
    if manifest.kind != contract.kind:
        yield rules.CAPTURE_DRAFTER.failed(
            f"the capture was taken for a drafter of the kind {manifest.kind}, the contract is for {contract.kind}",
            expected=contract.kind,
            actual=manifest.kind,
        )
    yield from _ids_set(manifest)
    layers = fact(contract.target.layers)
    if layers.known:
        compared += 1
        if layers.value != manifest.layers:
            differs = True
            yield rules.CAPTURE_TARGET.failed(
                f"the captured target has {manifest.layers} layers, the contract's {layers.value}",
                expected=layers.value,
                actual=manifest.layers,
                where=loaded.document.where("target.layers"),
            )
    model_type = fact(contract.target.model_type)
    if model_type.known and manifest.target.model_type is not None:
        compared += 1
        if model_type.value != manifest.target.model_type:
            differs = True
            yield rules.CAPTURE_TARGET.failed(
                f"the captured target is a {manifest.target.model_type}, the contract's a {model_type.value}",
                expected=model_type.value,
                actual=manifest.target.model_type,
                where=loaded.document.where("target.model_type"),
            )
    tokenizer = fact(contract.target.tokenizer_sha256)
    if tokenizer.known and "tokenizer.json" in manifest.target.files:
        compared += 1
        if tokenizer.value != manifest.target.files["tokenizer.json"]:
            differs = True
            yield rules.CAPTURE_TARGET.failed(
                "the captured target has another tokenizer than the contract's",
                expected=tokenizer.value,
                actual=manifest.target.files["tokenizer.json"],
                where=loaded.document.where("target.tokenizer_sha256"),
            )
    if compared and not differs:
        yield rules.CAPTURE_TARGET.passed(
            f"{compared} facts of the captured target were compared with the contract", evidence={"compared": compared}
        )
    if manifest.drafter is None:
        yield rules.CAPTURE_DRAFTER.undecided("the capture does not say which drafter it was taken for", required=False)
        return
    stated = {name: fact(digest) for name, digest in contract.drafter.files.items()}
    known = {name: f.value for name, f in stated.items() if f.known and name in manifest.drafter.files}
    wrong = [name for name, digest in known.items() if manifest.drafter.files[name] != digest]
    for name in wrong:
        yield rules.CAPTURE_DRAFTER.failed(
            f"the capture was taken for another {name}",
            expected=known[name],
            actual=manifest.drafter.files[name],
            where=loaded.document.where(("drafter", "files", name)),
        )
    if known and not wrong:
        yield rules.CAPTURE_DRAFTER.passed(f"{len(known)} files of the drafter have the digests that the capture was taken for")


def _ids_set(manifest: Manifest) -> Iterator[Check]:
    """Whether the ids that the running engine had set are the states that the manifest says it fed, where they count boundaries."""
    ids = manifest.engine.layer_ids
    if not ids or manifest.engine.name not in COUNT_BOUNDARIES or FINAL_NORM in manifest.recipe_fed:
        return
    held, fed = sorted({i for i in ids if 0 <= i <= manifest.layers}), sorted(s for s in manifest.recipe_fed if not isinstance(s, str))
    text = f"{manifest.engine.name} had the layer ids {ids} set, and the manifest says that {recipe_text(recipe_fed(manifest))} was fed"
    rule = rules.CAPTURE_RECIPE
    yield rule.passed(text) if held == fed else rule.failed(text, expected=fed, actual=held)


class Requests:
    """The requests of a bundle's plain run, found by the sample they repeat; each is used once, and what is left over is known.

    Requests of further runs, and those whose first rows came from a cache, are no samples' requests (``engine_runs.rows``).
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._open = [Captured.of(r) for r in bundle.requests if is_compared(r)]
        self._ids = {c.request.id: c.input_ids for c in self._open}
        self.ledger = RowLedger(bundle)
        self._absent: dict[str, list[str]] = {}

    def take(self, sample: str, input_ids_T: Tensor) -> tuple[Captured | None, list[Check]]:
        """The request for a sample, looked at up to the last row in common: the one that names it, else the one that runs most of its
        tokens. An engine that was given the sample's prompt goes on with its own text."""
        found = self._find(sample, input_ids_T)
        if found is None:
            self._absent.setdefault(" and ".join(self._runs_of(sample, input_ids_T)), []).append(sample)
            return None, []
        self._open.remove(found)
        request, ids_T = found.request, self._ids[found.request.id]
        row = rows_in_common(ids_T, input_ids_T)
        if not repeats(request, ids_T, input_ids_T):
            self.ledger.refused.add(request.id)
            return None, [
                rules.CAPTURE_PROMPT.failed(
                    f"request {request.id} has other tokens than sample {sample}: {len(ids_T)} against {len(input_ids_T)}, "
                    f"the first difference in row {row}",
                    expected=input_ids_T[row : row + 8].tolist(),
                    actual=ids_T[row : row + 8].tolist(),
                    where=Where(sample=sample, row=row),
                )
            ]
        whole = row == len(ids_T) == len(input_ids_T)
        how = "the tokens" if whole else f"the first {row} of {len(input_ids_T)} tokens"
        generated = f"; of its {len(ids_T)} rows {len(ids_T) - row} are others" if row < len(ids_T) else ""
        return found.first(row), [
            rules.CAPTURE_PROMPT.passed(
                f"request {request.id} has {how} of sample {sample}{generated}",
                where=Where(sample=sample),
                evidence={"rows": len(input_ids_T), "in_common": row, "request_rows": len(ids_T), "prompt": request.info.prompt_tokens},
            )
        ]

    def absences(self) -> Iterator[Check]:
        """One check for the samples that ``take`` found nowhere, and one for those that only the same further runs have."""
        for runs, samples in self._absent.items():
            named, where = first_few(samples), Where(sample=samples[0])
            what = "sample" if len(samples) == 1 else f"{len(samples)} samples:"
            if runs:
                yield rules.CAPTURE_SAMPLES.undecided(
                    f"the capture has {what} {named} in {runs} only: nothing of it can be compared with training",
                    at=Depth.VERIFY, where=where, evidence={"samples": samples},
                    fix="Capture the plain run, too: `contract capture` makes it whichever runs are asked for.",
                )  # fmt: skip
            else:
                yield rules.CAPTURE_SAMPLES.failed(
                    f"the capture has no request for {what} {named}", where=where, evidence={"samples": samples}
                )

    def _find(self, sample: str, input_ids_T: Tensor) -> Captured | None:
        named = next((c for c in self._open if c.request.sample == sample), None)
        if named is not None:
            return named
        fitting = [c for c in self._open if c.request.sample is None and repeats(c.request, self._ids[c.request.id], input_ids_T)]
        return max(fitting, key=lambda c: rows_in_common(self._ids[c.request.id], input_ids_T), default=None)

    def _runs_of(self, sample: str, input_ids_T: Tensor) -> list[str]:
        """Further runs, and cached prefixes, in which a sample was run."""
        others = [r for r in self._bundle.requests if not is_compared(r)]
        fitting = [r for r in others if r.info.sample == sample or (r.info.sample is None and repeats(r, full_tokens(r), input_ids_T))]
        return list(dict.fromkeys("requests behind a cached prefix" if r.info.run == PLAIN else f"run {r.info.run}" for r in fitting))

    def rest(self) -> list[Captured]:
        """Requests that repeat no sample."""
        return list(self._open)
