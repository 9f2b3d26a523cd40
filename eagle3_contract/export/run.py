"""``contract export``: find the config that all engines read rightly, write it with the weights, read it back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from contract.errors import InputRejected, UserError
from contract.files.checkpoint import INDEX_FILE
from contract.files.tensors import TensorRef
from contract.findings import Check, Json, Status, check_from_error
from contract.limits import DEFAULT_LIMITS
from contract.reporting import Report
from contract.requests import ExportRequest
from contract.structs import SpecInvalid
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.engines import target_config
from eagle3_contract.check.open_drafter import OpenedDrafter, open_drafter
from eagle3_contract.check.open_target import read_target
from eagle3_contract.check.run import beside, check_spec
from eagle3_contract.export.candidates import candidates
from eagle3_contract.export.config import base_config
from eagle3_contract.export.explain import PERMUTE, not_expressible
from eagle3_contract.export.permute import (
    Permutation,
    ascending,
    changed_names,
    is_blocked,
    permuted_bytes,
    permuted_context,
)
from eagle3_contract.export.rules import EXPRESSIBLE, PERMUTED, READ_BACK, UNKNOWN
from eagle3_contract.export.trial import Trial, choose
from eagle3_contract.export.write import link, new_folder, write_json, write_weights
from eagle3_contract.model.load import LoadedContract, load_contract
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import Recipe, recipe_text
from eagle3_contract.readings.engines import parse_engine
from eagle3_contract.readings.load import view_of
from eagle3_contract.readings.view import DrafterView

CONFIG: Final = "config.json"
CONTRACT: Final = "contract.yaml"


def export(request: ExportRequest) -> Report:
    """Write the folder, or say why none can be written. Never raises a ``UserError``: what was unusable is in the report (exit 2)."""
    subject: dict[str, Json] = {"spec": request.spec, "target": request.target, "engines": list(request.engines), "out": request.out}
    try:
        checks = _Export(request).run()
    except SpecInvalid as error:
        checks = list(error.problems)
    except UserError as error:
        checks = [check_from_error(error, dimension="contract" if error.rule.startswith("contract.") else "files")]
    return Report(command="export", subject=subject, checks=checks)


class _Export:
    """One run. Raises UserError for whatever cannot be opened."""

    def __init__(self, request: ExportRequest) -> None:
        self.request = request
        self.engines = tuple(dict.fromkeys(str(parse_engine(e)) for e in request.engines))
        self.loaded = load_contract(request.spec)
        self.opened = _open(self.loaded)
        self.ctx = CheckContext(
            contract=self.loaded.contract,
            document=self.loaded.document,
            drafter=self.opened.view,
            target=None if request.target is None else read_target(request.target),
        )
        self.config: Mapping[str, Any] = target_config(self.ctx)
        self.view: DrafterView = view_of(self.opened.checkpoint, self.ctx.drafter.config or {}, name=Path(request.out).name)
        self.stored = [t.name for t in self.ctx.drafter.tensors]

    def run(self) -> list[Check]:
        stated = self.ctx.stated("hidden_states", "boundaries")
        base, missing = base_config(self.ctx)
        if not stated.known:
            missing.append(f"hidden_states.boundaries ({stated.reason})")
        if missing:
            return [UNKNOWN.failed("the contract does not say " + "; ".join(missing))]
        recipe: Recipe = tuple(stated.value)
        permutation = ascending(recipe)
        moved = permutation if self.request.permute_fc and permutation.changes else None
        ctx = permuted_context(self.ctx, moved) if moved is not None else self.ctx
        trial = self._choose(ctx, base, moved.recipe if moved is not None else recipe, self.engines)
        if trial.wrong:
            alone = {e: self._choose(ctx, base, moved.recipe if moved is not None else recipe, (e,)) for e in self.engines}
            return list(not_expressible(moved.recipe if moved is not None else recipe, trial, alone))
        return self._write(ctx.contract, trial, moved)

    def _choose(self, ctx: CheckContext, base: Mapping[str, Json], recipe: Recipe, engines: tuple[str, ...]) -> Trial:
        return choose(ctx, self.view, list(candidates(ctx, base, recipe, self.stored)), engines, self.config)

    def _write(self, contract: Contract, trial: Trial, moved: Permutation | None) -> list[Check]:
        request, config = self.request, trial.candidate.config
        names = changed_names(self.stored, trial.candidate.names, moved)
        told = ", ".join(f"{k} {config[k]}" for k in ("eagle_aux_hidden_state_layer_ids", "eagle_config") if k in config)
        checks = [
            EXPRESSIBLE.passed(
                f"one config.json is read rightly by {', '.join(self.engines)}: {told or 'no ids'}",
                evidence={"config": config, "renamed": names},
            )
        ]
        with new_folder(request.out) as working:
            write_json(working / CONFIG, config)
            rewritten = write_weights(self.opened.checkpoint, names, None if moved is None else _mover(moved), working)
            self._others(working, moved)
            self._contract(contract, config, working)
            checks += self._read_back(working, rewritten)
            checks += [
                READ_BACK.undecided(f"written, and not proved for {e}: {c.message}", evidence={"engine": e, "rule": c.rule})
                for e, found in trial.open.items()
                for c in found
            ]
            if moved is not None:
                checks.append(self._equal(working, moved))
            if any(c.status is Status.FAILED for c in checks):
                raise _Undone(checks)
        return checks

    def _others(self, out: Path, moved: Permutation | None) -> None:
        """Files of the folder that are neither config nor weights, and golden rows where they still hold."""
        weights = {s.name for s in (*self.opened.checkpoint.shards, *self.opened.checkpoint.extra)}
        folder, contract = self.loaded.drafter_folder, self.loaded.contract
        left = beside(self.loaded) | weights | {CONFIG, INDEX_FILE, CONTRACT}
        for name in sorted(self.ctx.drafter.files - left):
            link(folder / name, out / name)
        if contract.golden is not None and moved is None:
            link(self.loaded.folder / contract.golden.file, out / contract.golden.file)

    def _contract(self, contract: Contract, config: Mapping[str, Json], out: Path) -> None:
        """The contract of the exported folder: its files and their digests, and the architecture that was written."""
        from eagle3_contract.init.render import contract_text  # a renderer of the whole file, needed here only

        golden = contract.golden.file if contract.golden is not None else None
        digests = {str(p.relative_to(out)): _digest(p) for p in sorted(out.rglob("*")) if p.is_file() and str(p.relative_to(out)) != golden}
        drafter = msgspec.structs.replace(contract.drafter, path=".", files=digests)
        training = msgspec.structs.replace(contract.training, samples=msgspec.structs.replace(contract.training.samples, path=None))
        wiring = msgspec.structs.replace(contract.wiring, architecture=config["architectures"][0])
        made = msgspec.structs.replace(contract, drafter=drafter, training=training, wiring=wiring)
        head = [f"Exported from {self.request.spec} for {', '.join(self.engines)}."]
        (out / CONTRACT).write_text(contract_text(msgspec.to_builtins(made), head), encoding="utf-8")

    def _read_back(self, out: Path, rewritten: list[str]) -> list[Check]:
        report = check_spec(out / CONTRACT, target=self.request.target, engines=self.engines)
        wrong = [c for c in report.checks if c.status is Status.FAILED and c.rule.startswith(("reading.", "files.", "wiring."))]
        how = f"rewritten: {', '.join(rewritten)}" if rewritten else "weights linked, no byte changed"
        if wrong:
            return [READ_BACK.failed(f"{self.request.out}: {c.message}", evidence={"rule": c.rule}) for c in wrong]
        return [READ_BACK.passed(f"{self.request.out} is read rightly by {e} ({how})", evidence={"engine": e}) for e in self.engines]

    def _equal(self, out: Path, moved: Permutation) -> Check:
        from eagle3_contract.export.equal import TOLERANCE, logits_apart  # torch is needed only where columns move
        from eagle3_contract.model.resolve import resolve

        wiring = resolve(self.loaded.contract, rollout=False).wiring
        apart = logits_apart(self.loaded.drafter_folder, out, replace(wiring, states=len(moved.order)), moved.order)
        says = f"recipe {recipe_text(moved.recipe)}, fc's columns permuted by {PERMUTE}: three steps' logits differ by {apart:.0e}"
        check = PERMUTED.passed if apart <= TOLERANCE else PERMUTED.failed
        return check(says, expected=f"<= {TOLERANCE:.0e}", actual=apart, evidence={"order": list(moved.order)})


class _Undone(UserError):
    """What was written does not hold; the folder is not left behind."""

    def __init__(self, checks: list[Check]) -> None:
        failed = next(c for c in checks if c.status is Status.FAILED)
        super().__init__(failed.message, rule=failed.rule, fix=failed.fix or READ_BACK.remedy)


def _open(loaded: LoadedContract) -> OpenedDrafter:
    opened = open_drafter(loaded.drafter_folder, loaded.contract.drafter.files, other_files=beside(loaded), limits=DEFAULT_LIMITS)
    opened.checkpoint.raise_if_rejected()
    if opened.view.config is None:
        raise InputRejected(
            f"{loaded.drafter_folder} has no readable config.json", rule=UNKNOWN.id, fix="Give the drafter its config.json."
        )
    return opened


def _mover(moved: Permutation) -> Any:
    def rewrite(name: str, ref: TensorRef) -> bytes | None:
        return permuted_bytes(ref, moved) if is_blocked(name) else None

    return rewrite


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
