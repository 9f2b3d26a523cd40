"""What the server shows of target, drafter and drafting, against the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contract.files.names import shown
from contract.findings import Check
from contract.statement import fact
from eagle3_contract.model.load import LoadedContract
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import ServerFacts

COUNTS: Final = ("steps", "topk", "draft_tokens")


def shown_checks(loaded: LoadedContract, facts: ServerFacts) -> Iterator[Check]:
    """Target, drafter, numbers, and what bends greedy decoding."""
    yield _model(loaded, facts)
    yield _drafter(loaded, facts)
    yield from _serving(loaded, facts)
    for note in facts.notes:
        yield rules.DECODING.failed(f"{facts.name}: {note}")


def _model(loaded: LoadedContract, facts: ServerFacts) -> Check:
    id_, type_ = fact(loaded.contract.target.id), fact(loaded.contract.target.model_type)
    where = loaded.document.where("target.id")
    if facts.model_type is not None and type_.known and facts.model_type != type_.value:
        says = f"{facts.name} runs a model of type {shown(facts.model_type)}, the contract's target is a {type_.value}"
        where = loaded.document.where("target.model_type")
        return rules.MODEL.failed(says, expected=type_.value, actual=facts.model_type, where=where)
    path = facts.model_path or facts.model
    if path is None or not id_.known:
        why = f"target.id is unknown ({id_.reason})" if path is not None else "it does not show its model"
        return rules.MODEL.undecided(f"whether {facts.name} runs the contract's target does not show: {why}", required=False)
    if _last(path) == _last(id_.value):
        return rules.MODEL.passed(f"{facts.name} runs {shown(path)}", expected=id_.value, actual=path)
    # A folder may have any name, so that another name proves nothing.
    return rules.MODEL.undecided(
        f"{facts.name} runs {shown(path)}, the contract's target is {shown(str(id_.value))}: compare by hand",
        required=False,
        expected=id_.value,
        actual=path,
        where=where,
        fix=rules.MODEL.remedy,
    )


def _drafter(loaded: LoadedContract, facts: ServerFacts) -> Check:
    if facts.drafter is None:
        return rules.DRAFTER.skipped(f"{facts.name} does not show where its drafter is from")
    ours = loaded.drafter_folder.resolve()
    try:
        same = Path(facts.drafter).is_absolute() and Path(facts.drafter).resolve() == ours
    except (OSError, ValueError):
        same = False
    if same or _last(facts.drafter) == ours.name.casefold():
        return rules.DRAFTER.passed(f"{facts.name} runs the drafter {shown(facts.drafter)}", actual=facts.drafter)
    says = f"{facts.name} runs the drafter {shown(facts.drafter)}, the contract's is {shown(str(ours))}: compare by hand"
    return rules.DRAFTER.failed(says, expected=str(ours), actual=facts.drafter)


def _serving(loaded: LoadedContract, facts: ServerFacts) -> Iterator[Check]:
    agreed = []
    for name in COUNTS:
        stated, runs = fact(getattr(loaded.contract.serving, name)), getattr(facts, name)
        where = loaded.document.where(f"serving.{name}")
        if facts.speculates is False or (name == "draft_tokens" and facts.engine == "vllm"):
            continue  # a server that drafts nothing has a finding of its own; vLLM's chain has no number beside its steps
        if runs is None:
            yield rules.SERVING.undecided(f"{facts.name} does not show its {name}", required=False, where=where)
        elif not stated.known:
            says = f"the contract does not say serving.{name} ({stated.reason}); the server runs {runs}"
            yield rules.SERVING.undecided(says, required=False, where=where)
        elif stated.value == runs:
            agreed.append(f"{name} {runs}")
        else:
            says = f"{facts.name} runs with {name} {runs}; the contract says {stated.value}"
            yield rules.SERVING.failed(says, expected=stated.value, actual=runs, where=where)
    if agreed:
        yield rules.SERVING.passed(f"{facts.name} runs with {', '.join(agreed)}, as the contract says")


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()
