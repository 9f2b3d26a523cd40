"""``contract init``: collect, measure, write, read back, check; every finding is in the report.

The order matters: answers and the target come first, because the trainer's defaults depend on them; the samples are read once, and what
is measured on them replaces what was only declared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from contract import __version__
from contract.errors import UserError
from contract.files.paths import Folder
from contract.files.tensors import TensorRef
from contract.findings import Check, Json, Status, Where
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import Report
from contract.requests import InitRequest
from eagle3_contract.drafter.names import EMBEDDING
from eagle3_contract.init.answers import read_answers
from eagle3_contract.init.files import list_files
from eagle3_contract.init.golden import keep_golden, make_golden
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.init.questions import questions
from eagle3_contract.init.rules import ELSEWHERE, NOT_COMPARED, NOTE, TRAINING_STATE, WRITTEN
from eagle3_contract.init.run_files import read_run_files
from eagle3_contract.init.surroundings import state_config, state_dtype, state_rest
from eagle3_contract.init.target import OpenTarget, open_target, state_target, target_dtype
from eagle3_contract.init.tree import contract_tree, tensor_tree
from eagle3_contract.init.vocab import read_maps, state_vocab
from eagle3_contract.init.writing import write_contract
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.load_view import TRAINING_STATE as TRAINING_STATE_FILE
from eagle3_contract.model.load_view import LoadedView, open_view
from eagle3_contract.model.names import canonical
from eagle3_contract.model.wiring import Reading
from eagle3_contract.stamp.read import Stamp, read_stamp
from eagle3_contract.trainers.base import Trainer, choose
from eagle3_contract.trainers.reading import BOUNDARIES, TargetFacts, TrainingReading


def init(request: InitRequest, *, limits: Limits = DEFAULT_LIMITS) -> Report:
    """The body of ``contract init``.

    Raises:
        UserError: the drafter, the target, the samples or an answer cannot be used; nothing was written then.
    """
    run = _Init(request, limits)
    run.collect()
    run.measure()
    if run.rejected:
        return run.report()
    run.write()
    return run.report()


@dataclass(slots=True)
class _Measured:
    """What the samples gave: their scan, the stored states, and the indices of the recipe's states in a sample."""

    scan: Any = None
    stored: Any = None
    picked: tuple[int, ...] | None = None
    ground: Any = None


@dataclass(slots=True)
class _Init:
    """One run."""

    request: InitRequest
    limits: Limits
    ledger: Ledger = field(default_factory=Ledger)
    target: OpenTarget | None = None
    stamp: Stamp | None = None
    loaded: LoadedView = field(init=False)
    trainer: Trainer = field(init=False)
    reading: TrainingReading = field(init=False)
    targets: Any = None
    measured: _Measured = field(default_factory=_Measured)
    rejected: list[Check] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def drafter(self) -> Path:
        place = Path(self.request.drafter)
        return place if place.is_dir() else place.parent

    @property
    def out(self) -> Path:
        return Path(self.request.out)

    @property
    def home(self) -> Path:
        """The folder that the contract's paths start from: its own, or the drafter's where that lies elsewhere. A contract names nothing
        outside of its folder, so such a one is to be put beside the drafter."""
        inside = self.drafter.resolve().is_relative_to(self.out.parent.resolve())
        return self.out.parent if inside else self.drafter

    def collect(self) -> None:
        """Everything that files say without samples being read."""
        request, ledger = self.request, self.ledger
        answers = read_answers(request.settings)
        self._stamped()
        ledger.facts |= answers
        self.loaded = open_view(request.drafter, allow_pickle=request.allow_pickle, limits=self.limits)
        if request.target is not None:
            self.target = open_target(request.target, limits=self.limits)
            answered = {p: f for p, f in ledger.facts.items() if f.known}
            state_target(ledger, self.target)
            self._held_against(answered)
        self.trainer, recognition = choose(self.loaded.view, request.trainer)
        self.reading = self.trainer.wiring(self.loaded.view, self._target_facts())
        ledger.take(self.reading.facts, self.reading.likely)
        ledger.notes += self.reading.notes
        ledger.notes.append(f"trainer {self.trainer.name}: {'; '.join(recognition.reasons)}")
        state_config(ledger, self.loaded.view)
        read_run_files(ledger, self._folders(), self.trainer, skip=self.out, limits=self.limits)
        sources = read_maps(ledger, self.loaded.tensors, self._folders(), allow_pickle=request.allow_pickle, limits=self.limits)
        verdict = state_vocab(ledger, sources)
        self.targets = None if verdict is None else verdict.targets

    def _stamped(self) -> None:
        """What the trainer itself declared when it saved the drafter; an answer of the user replaces it."""
        self.stamp = read_stamp(self.drafter, limits=self.limits)
        if self.stamp is not None:
            self.ledger.facts |= self.stamp.facts
            self.ledger.checks += self.stamp.checks

    def _held_against(self, answered: dict[str, Any]) -> None:
        """Answers about the target against the target itself."""
        for path, fact in answered.items():
            now = self.ledger.facts[path]
            if now.known and now.value != fact.value:
                self.ledger.contradict(path, fact, now.value, now.note or "")

    def _target_facts(self) -> TargetFacts:
        value = self.ledger.value
        return TargetFacts(
            layers=value("target.layers"),
            hidden_size=value("target.hidden_size"),
            vocab_size=value("vocab.target_size"),
            model_type=value("target.model_type"),
        )

    def _folders(self) -> list[Path]:
        """The drafter's folder and the samples', and what lies right above dumps and training states."""
        found = [self.drafter]
        if (self.drafter / TRAINING_STATE_FILE).is_file() or (self.drafter / "val_metrics.json").is_file():
            found.append(self.drafter.parent)
        if self.request.samples is not None:
            place = Path(self.request.samples)
            found += [place, place.parent] if place.is_dir() else [place.parent, place.parent.parent]
        return [p for p in found if p.is_dir()]

    def measure(self) -> None:
        """Everything that the samples and the weights say."""
        ledger, request = self.ledger, self.request
        scan = None
        if request.samples is not None:
            from eagle3_contract.init.samples import scan_samples  # torch from here on

            scan = scan_samples(ledger, request.samples, targets=self.targets, allow_pickle=request.allow_pickle, limits=self.limits)
            self.rejected += scan.rejected
            self.measured.scan = scan
            if scan.held and not self.rejected:
                self._measure_states()
        state_dtype(ledger, scan, self.target, ran=self.measured.stored is not None and self.measured.stored.ran)
        self._contents()
        state_rest(ledger, self.loaded.view)

    def _measure_states(self) -> None:
        from eagle3_contract.drafter.checkpoint_source import CheckpointSource
        from eagle3_contract.init.hypotheses import Ground, compare_recipes, decide_rope, names_layer_ids
        from eagle3_contract.init.recipe import Measurement, state_last, state_recipe, state_stored
        from eagle3_contract.init.stored_states import measure_states
        from eagle3_contract.init.target import rows_of
        from eagle3_contract.init.target_says import target_says

        ledger, held = self.ledger, self.measured.scan.held
        own = next((ref for name, ref in self.loaded.tensors.items() if canonical(name) == EMBEDDING), None)
        stored = measure_states(ledger, held, self.target, None if own is None else rows_of(own))
        self.measured.stored = stored
        found = Measurement(stored, held)
        target = None if self.target is None or self.target.checkpoint is None else CheckpointSource(self.target.checkpoint)
        says = target_says(self.target, stored.last, ledger.value("target.layers"))
        ground = Ground(self.reading, held, _Tensors(self.loaded.tensors, self.request.drafter), target, says)
        self.measured.ground = ground
        state_stored(ledger, found)
        state_recipe(
            ledger,
            found,
            self.reading.candidates,
            partial(compare_recipes, ground, ledger),
            declared=names_layer_ids(self.loaded.view),
        )
        state_last(ledger, found)
        self.measured.picked = self._picked(len(stored.slots))
        if self.measured.picked is not None:
            decide_rope(ground, ledger, self.loaded.view, self.measured.picked)

    def _picked(self, count: int) -> tuple[int, ...] | None:
        """Which of a sample's states are fed, in order: all of them, or those that the recipe names among the stored."""
        fed, recipe, stored = (self.ledger.value(p) for p in ("states", BOUNDARIES, "training.samples.states"))
        if fed == count and (recipe is None or stored is None or recipe == stored):
            return tuple(range(count))
        if recipe is None or stored is None or not all(s in stored for s in recipe):
            return None
        return tuple(stored.index(s) for s in recipe)

    def _contents(self) -> None:
        from eagle3_contract.init.contents import state_contents

        state_contents(self.ledger, self.loaded.tensors, self.target, self.targets)

    def write(self) -> None:
        """Golden rows where they can be made, the contract, and the static check of what was written."""
        reading = self._resolved()
        stamped = None if self.stamp is None else keep_golden(self.home, self.drafter, self.stamp)
        golden = stamped or self._golden(reading)
        self._files(golden)
        tensors = tensor_tree(self.ledger, self.loaded.tensors, reading, None if self.target is None else target_dtype(self.target))
        produced = None if golden is None else self._produced(golden, stamped=stamped is not None)
        self.checks += write_contract(self.out, self.ledger, partial(contract_tree, golden=produced, tensors=tensors), self._head())
        self.checks += self.ledger.checks
        # After writing: what no field could hold has become unknown by now.
        self.checks += questions(self.ledger, () if self.ledger.is_known(BOUNDARIES) else self.reading.candidates, self.trainer.name)
        self.checks += [NOTE.failed(note) for note in dict.fromkeys(self.ledger.notes)]
        self.checks += self._checked()

    def _resolved(self) -> Reading | None:
        """The wiring, if all of it is known."""
        paths = set(self.reading.facts)
        facts = {path: fact for path, fact in self.ledger.facts.items() if path in paths}
        try:
            return replace(self.reading, facts=facts).resolve(recipe=False)
        except UserError:
            return None

    def _golden(self, reading: Reading | None) -> str | None:
        """Golden rows of the tool, where everything that a forward needs is known."""
        known, measured = self.ledger.is_known(BOUNDARIES) and self.ledger.is_known("training.rollout"), self.measured
        if reading is None or not known or measured.picked is None or measured.ground is None:
            return None
        try:
            return make_golden(self.out, self.home, self.drafter, reading, measured.ground, measured.picked)
        except UserError as error:
            self.checks.append(NOT_COMPARED.failed(f"no golden rows were made: {error.message}", fix=error.fix))
            return None

    def _produced(self, golden: str, *, stamped: bool) -> dict[str, Json]:
        """The section ``golden``. The tool's rows were written below the contract, which may have to be moved beside the drafter."""
        with Folder(self.home if stamped else self.out.parent) as folder, folder.open(golden) as rows:
            digest = f"sha256:{rows.sha256()}"
        return {"file": golden, "produced_by": "trainer" if stamped else "tool", "sha256": digest}

    def _files(self, golden: str | None) -> None:
        from eagle3_contract.init.samples import state_samples

        ledger = self.ledger
        state_samples(ledger, self.measured.scan, self.home)
        relative = os.path.relpath(self.drafter.resolve(), self.home.resolve())
        ledger.know("drafter.path", relative, "measured", "where the drafter lies")
        accounted = {self.out.resolve()} | ({(self.home / golden).resolve()} if golden else set())
        scan = self.measured.scan
        if scan is not None:
            accounted |= {(scan.root / name).resolve() for name in ledger.value("training.samples.manifest") or ()}
        ledger.know("drafter.files", list_files(self.drafter, accounted, limits=self.limits), "measured", "digests of the files")

    def _head(self) -> list[str]:
        recipe = self.ledger.value(BOUNDARIES)
        return [
            f"What training did for the drafter {Path(self.request.drafter).resolve().name}, written by `contract init` {__version__}.",
            "Each statement is a value, {value, evidence, note} or {unknown: why}. Evidence: config (read), code_rule (the trainer's code",
            "does it whatever the config says), measured (on tensors or samples), declared (answered), assumed.",
            *([] if recipe is not None else ["The recipe is not known: see hidden_states.boundaries."]),
        ]

    def _checked(self) -> Iterator[Check]:
        """The static check of the written contract. What it cannot decide follows from the open questions."""
        if (self.drafter / TRAINING_STATE_FILE).is_file():
            yield TRAINING_STATE.failed(f"{self.drafter} is a training state, which no engine loads", where=Where(file=str(self.drafter)))
            return
        from eagle3_contract.check.run import check_loaded

        loaded = load_contract(self.out, limits=self.limits)
        if self.home != self.out.parent:
            text = f"the contract names its drafter as its own folder: put {self.out} beside the drafter in {self.drafter}"
            yield ELSEWHERE.failed(text, where=Where(file=str(self.out)), fix=f"Write it there: -o {self.drafter}/contract.yaml.")
            loaded = replace(loaded, path=self.home / self.out.name)
        found = check_loaded(loaded, target=self.request.target, allow_pickle=self.request.allow_pickle, limits=self.limits)
        told = {"contract.arithmetic-known", "contract.unknown-statements", "recipe.known"}
        for check in found:
            undecided = check.status is Status.UNKNOWN and not check.rejected
            if not (undecided and check.rule in told):
                yield replace(check, required=False) if undecided else check

    def report(self) -> Report:
        """What was found, and where the contract is."""
        subject: dict[str, Json] = {"drafter": self.request.drafter, "contract": self.request.out, "trainer": self.trainer.name}
        subject |= {k: v for k in ("samples", "target") if (v := getattr(self.request, k)) is not None}
        if self.rejected:
            nothing = WRITTEN.skipped("no contract was written: not every sample could be read")
            return Report(command="init", subject=subject, checks=[*self.ledger.checks, *self.rejected, nothing])
        return Report(command="init", subject=subject, checks=self.checks, provenance=_provenance(self.ledger))


class _Tensors:
    """The drafter's tensors as a ``WeightSource``, whatever container they came in."""

    def __init__(self, tensors: Any, label: str) -> None:
        self._tensors: dict[str, TensorRef] = dict(tensors)
        self.label = label

    def names(self) -> Sequence[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def tensor(self, name: str) -> Any:
        from contract.files.torch_tensors import load_tensor

        return load_tensor(self._tensors[name])

    def rows(self, name: str, ids_L: Any) -> Any:
        from contract.files.torch_tensors import load_rows

        return load_rows(self._tensors[name], ids_L.tolist())


def _provenance(ledger: Ledger) -> dict[str, Json]:
    evidence: dict[str, int] = {}
    for fact in ledger.facts.values():
        kind = fact.evidence or "unknown" if fact.known else "unknown"
        evidence[kind] = evidence.get(kind, 0) + 1
    return {"tool": __version__, "statements": dict(sorted(evidence.items()))}
