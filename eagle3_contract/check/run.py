"""``contract check``: read everything once, ask every rule, report all of it. An unusable input costs its own checks, not the others'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from contract.errors import UserError
from contract.findings import Check, Json, check_from_error
from contract.limits import DEFAULT_LIMITS, Limits
from contract.reporting import Report, within_findings
from contract.requests import CheckRequest
from contract.statement import fact
from contract.structs import SpecInvalid
from contract.waivers import waivers_path
from eagle3_contract.check.config_numerics import check_config_numerics
from eagle3_contract.check.config_sizes import check_config_sizes
from eagle3_contract.check.content import check_content
from eagle3_contract.check.context import CheckContext, DrafterView, Integrity, TargetFacts
from eagle3_contract.check.digests import check_digests
from eagle3_contract.check.dtypes import check_dtypes
from eagle3_contract.check.files_accounted import check_files
from eagle3_contract.check.flags import check_flags
from eagle3_contract.check.golden_digest import check_golden_digest
from eagle3_contract.check.kind_of_drafter import check_kind
from eagle3_contract.check.open_drafter import OpenedDrafter, open_drafter
from eagle3_contract.check.open_target import read_target
from eagle3_contract.check.owners import check_owners
from eagle3_contract.check.pairing import check_pairing
from eagle3_contract.check.recipe import check_recipe
from eagle3_contract.check.recipe_keys import check_recipe_keys
from eagle3_contract.check.rope import check_rope
from eagle3_contract.check.statements import check_statements
from eagle3_contract.check.target import check_target
from eagle3_contract.check.tensors import check_tensors
from eagle3_contract.check.training_state import check_training_state
from eagle3_contract.check.unread_keys import check_unread_keys
from eagle3_contract.check.vocab_map import check_vocab_map
from eagle3_contract.check.weights import check_weights
from eagle3_contract.check.wiring_tensors import check_wiring_tensors
from eagle3_contract.model.flow import drafter_flow
from eagle3_contract.model.load import LoadedContract, load_contract

RuleSet = Callable[[CheckContext], Iterable[Check]]

HARD_LINK: Final = "files.hard-link"
WITHOUT_DRAFTER: Final[tuple[RuleSet, ...]] = (check_recipe, check_owners, check_target, check_statements)
"""Rules that have something to say although the drafter's folder could not be opened."""
ALL: Final[tuple[RuleSet, ...]] = (
    check_kind,
    check_files,
    check_digests,
    check_recipe,
    check_recipe_keys,
    check_wiring_tensors,
    check_tensors,
    check_owners,
    check_vocab_map,
    check_config_sizes,
    check_config_numerics,
    check_rope,
    check_flags,
    check_unread_keys,
    check_dtypes,
    check_weights,
    check_content,
    check_target,
    check_pairing,
    check_training_state,
    check_statements,
)


def check(request: CheckRequest) -> Report:
    """The body of ``contract check``. Never raises a ``UserError``: what was unusable is in the report (exit 2)."""
    flags, rejected = _flags(request) if request.serve_args else ({}, [])
    report = check_spec(
        request.spec,
        target=request.target,
        integrity=Integrity[request.integrity.upper()],
        engines=request.engines,
        allow_pickle=request.allow_pickle,
        flags=flags,
        samples=request.samples,
        limits=request.limits,
    )
    return replace(report, checks=[*report.checks, *rejected]) if rejected else report


def _flags(request: CheckRequest) -> tuple[dict[str, Mapping[str, Any]], list[Check]]:
    """The serving flags by engine reference, and a check for everything that could not be read."""
    from eagle3_contract.readings.serve_asked import flags_for, refuse_unmatched  # only where flags are given

    flags: dict[str, Mapping[str, Any]] = {}
    rejected: list[Check] = []
    try:
        refuse_unmatched(request.engines, request.serve_args)
    except UserError as error:
        rejected.append(check_from_error(error, dimension="flags"))
    for engine in request.engines:
        try:
            flags[engine] = flags_for(engine, request.serve_args)
        except UserError as error:
            rejected.append(check_from_error(error, dimension="flags"))
    return flags, rejected


def check_spec(
    spec: str | Path,
    *,
    target: str | Path | None = None,
    integrity: Integrity = Integrity.HEADERS,
    engines: Sequence[str] = (),
    flags: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    samples: str | Path | None = None,
    allow_pickle: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Every static check of one contract, and of the named engines' readings.

    Args:
        flags: serving flags by engine reference, as the engine's Python API names them.
        samples: training samples that are run under every engine's reading (needs torch).

    Never raises a ``UserError``: what was unusable is in the report.
    """
    subject: dict[str, Json] = {
        "spec": str(spec),
        "target": None if target is None else str(target),
        "engines": list(engines),
        "integrity": integrity.name.lower(),
    }
    try:
        loaded = load_contract(spec, limits=limits)
    except SpecInvalid as error:
        return Report(command="check", subject=subject, checks=list(within_findings(error.problems, limits)))
    except UserError as error:
        return Report(command="check", subject=subject, checks=[check_from_error(error, dimension="contract")])
    subject["drafter"] = str(loaded.drafter_folder)
    checks: list[Check] = []
    complete = True
    try:
        for made in check_loaded(
            loaded,
            target=target,
            integrity=integrity,
            engines=engines,
            flags=flags,
            samples=samples,
            allow_pickle=allow_pickle,
            limits=limits,
        ):
            checks.append(made)
    except KeyboardInterrupt:
        complete = False  # what was found so far is still said, and the exit code is 2
    flow = drafter_flow(loaded.contract).as_json()
    return Report(command="check", subject=subject, checks=checks, measurements={"flow": flow}, complete=complete)


def check_loaded(
    loaded: LoadedContract,
    *,
    target: str | Path | None = None,
    integrity: Integrity = Integrity.HEADERS,
    engines: Sequence[str] = (),
    flags: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    samples: str | Path | None = None,
    allow_pickle: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Check]:
    """The checks of a contract that is already loaded, up to the limit ``findings``."""
    made = _checks(
        loaded,
        target=target,
        integrity=integrity,
        engines=engines,
        flags=flags,
        samples=samples,
        allow_pickle=allow_pickle,
        limits=limits,
    )
    return within_findings(made, limits)


def _checks(
    loaded: LoadedContract,
    *,
    target: str | Path | None,
    integrity: Integrity,
    engines: Sequence[str],
    flags: Mapping[str, Mapping[str, Any]],
    samples: str | Path | None,
    allow_pickle: bool,
    limits: Limits,
) -> Iterator[Check]:
    facts: TargetFacts | None = None
    if target is not None:
        try:
            facts = read_target(target, limits=limits)
            yield from facts.problems
        except UserError as error:
            yield check_from_error(error, dimension="pairing")
    ours = beside(loaded)
    opened: OpenedDrafter | None = None
    try:
        opened = open_drafter(
            loaded.drafter_folder, loaded.contract.drafter.files, other_files=ours, allow_pickle=allow_pickle, limits=limits
        )
        yield from (found for found in opened.problems if not _pinned(found, loaded))
        if integrity >= Integrity.VALUES:
            yield from (found.as_check() for found in opened.checkpoint.cross_check())
    except UserError as error:
        yield check_from_error(error)
    missing = DrafterView(folder=str(loaded.drafter_folder), config=None, tensors=(), files=frozenset(), complete=False)
    context = CheckContext(
        contract=loaded.contract,
        document=loaded.document,
        drafter=missing if opened is None else opened.view,
        target=facts,
        integrity=integrity,
        accounted_for=ours,
    )
    for rule_set in WITHOUT_DRAFTER if opened is None else ALL:
        yield from rule_set(context)
    yield from check_golden_digest(loaded, integrity)
    if engines and opened is not None:
        from eagle3_contract.check.engines import check_engines, target_config  # the profiles are needed only here

        yield from check_engines(context, opened.checkpoint, engines, flags)
        if samples is not None:
            from eagle3_contract.verify.cost import cost_checks  # torch is needed only here

            config = target_config(context)
            yield from cost_checks(
                loaded, samples, engines, target=target, config=config, flags=flags, allow_pickle=allow_pickle, limits=limits
            )


def _pinned(found: Check, loaded: LoadedContract) -> bool:
    """A second name of a file is no news where the contract pins the file's digest: `contract export` links weights."""
    stated = (
        loaded.contract.drafter.files.get(found.where.file if found.where is not None and found.where.file is not None else "")
        if found.rule == HARD_LINK
        else None
    )
    return stated is not None and fact(stated).known


def beside(loaded: LoadedContract) -> frozenset[str]:
    """Names in the drafter's folder that the contract itself accounts for: its own file, its waivers, golden rows, samples."""
    contract = loaded.contract
    samples = contract.training.samples
    names = [loaded.path.name, waivers_path(loaded.path).name, *(f"{samples.path or '.'}/{name}" for name in samples.manifest)]
    if contract.golden is not None:
        names.append(contract.golden.file)
    if samples.path is not None:  # the folder is the contract's own where its samples are too many to be listed, too
        names.append(samples.path)
    home, drafter = loaded.folder.resolve(), loaded.drafter_folder.resolve()
    inside: set[str] = set()
    for name in names:
        place = home / name
        if place != drafter and place.is_relative_to(drafter):
            relative = place.relative_to(drafter)
            inside |= {str(relative), relative.parts[0]}
    return frozenset(inside)
