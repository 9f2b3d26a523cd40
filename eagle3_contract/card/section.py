"""The section as Markdown. Every value comes from a file, so that none may act as markup: values are escaped, commands are indented."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from contract import __version__
from contract.report.escape import visible
from contract.report.markdown import escape
from contract.statement import fact
from eagle3_contract.card.serving import DRAFTER, OnEngine
from eagle3_contract.check.compare import said
from eagle3_contract.check.statements import group_name, grouped
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import recipe_text

SHOWN_DIFFERENCES: Final = 5
_MEANINGS: Final = {
    "offset": "target id = draft id + d2t[draft id]",
    "absolute": "target id = d2t[draft id]",
    "identity": "draft ids are target ids",
}


def section(contract: Contract, engines: Sequence[OnEngine], *, spec: str) -> str:
    """The whole section, without a line break at its end. ``spec`` is the contract's file name."""
    return "\n".join(
        [
            "## EAGLE-3 drafter",
            "",
            escape(
                f"Written by contract card (eagle3-contract {__version__}) from {spec}, the training-inference contract beside the weights."
            ),
            "",
            *_recipe(contract),
            *_wiring(contract),
            *_vocab(contract),
            *_serving(engines, spec),
            *_measured(contract),
            *_open(contract),
        ]
    ).rstrip()


def _said(stated: Any) -> str:
    known = fact(stated)
    if not known.known:
        return escape(f"unknown: {known.reason}")
    return escape(f"{said(known.value)} (assumed)" if known.evidence == "assumed" else said(known.value))


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells that are Markdown already."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _recipe(contract: Contract) -> Iterator[str]:
    target, states = contract.target, fact(contract.hidden_states.boundaries)
    yield "### Target and states"
    yield ""
    yield f"Drafts for {_said(target.id)} at revision {_said(target.revision)}:"
    yield f"{_said(target.layers)} layers, hidden size {_said(target.hidden_size)}, {_said(target.dtype)}, quantisation"
    yield f"{_said(target.quantization)}."
    yield ""
    if states.known:
        mark = " (assumed)" if states.evidence == "assumed" else ""
        yield escape(f"fc is fed the boundaries {recipe_text(states.value)}{mark}, concatenated in this order.")
    else:
        yield escape(f"Which states fc was fed is not known: {states.reason}.")
    yield escape("Boundary n is the residual stream entering target layer n; engines number layers in their own ways, see below.")
    yield ""


def _wiring(contract: Contract) -> Iterator[str]:
    yield "### Wiring"
    yield ""
    rows = [*_fields("", contract.wiring), *_fields("alignment ", contract.alignment)]
    yield from _table(("field", "value"), rows)


def _fields(prefix: str, part: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for name in part.__struct_fields__:
        value = getattr(part, name)
        known = fact(value)
        if isinstance(known.value, msgspec.Struct):
            yield from _fields(f"{prefix}{name} ", known.value)
        else:
            yield escape(f"{prefix}{name}".replace("_", " ")), _said(value)


def _vocab(contract: Contract) -> Iterator[str]:
    vocab, kind = contract.vocab, fact(contract.vocab.map).value
    yield "### Vocabulary map"
    yield ""
    yield f"{_said(vocab.draft_size)} draft tokens of {_said(vocab.target_size)} target tokens; map: {_said(vocab.map)}"
    yield escape(f"({_MEANINGS[kind]})." if kind in _MEANINGS else ".")
    yield ""


def _serving(engines: Sequence[OnEngine], spec: str) -> Iterator[str]:
    yield "### Serving"
    yield ""
    yield from _table(("engine", "serves it as trained", "what differs"), [_engine_row(engine) for engine in engines])
    commands = dict.fromkeys(e.command for e in engines if e.command is not None and e.as_trained is not False)
    if commands:
        yield escape(f"{DRAFTER} is the folder of this repository. Let the guard verify it before the server starts:")
        yield ""
    for command in commands:
        engine = next(e.reader for e in engines if e.command == command and e.as_trained is not False)
        yield visible(f"    contract guard {shlex.quote(f'{DRAFTER}/{spec}')} --engine '{engine}' -- {command}")
        yield ""


def _engine_row(engine: OnEngine) -> tuple[str, str, str]:
    verdict = {True: "yes", False: "**no**", None: "not known"}[engine.as_trained]
    notes = [*engine.differs, *engine.open]
    more = f" and {len(notes) - SHOWN_DIFFERENCES} more" if len(notes) > SHOWN_DIFFERENCES else ""
    return escape(engine.reader), verdict, escape("; ".join(notes[:SHOWN_DIFFERENCES]) + more)


def _measured(contract: Contract) -> Iterator[str]:
    metrics, acceptance = contract.training.metrics, contract.acceptance
    yield "### Measured"
    yield ""
    yield f"* training accuracy by step: {_said(metrics.accuracy)} (definition: {_said(metrics.definition)})"
    yield f"* accepted length at k {_said(acceptance.k)}, temperature {_said(acceptance.temperature)}: worth serving from"
    yield f"  {_said(acceptance.floor)}"
    for baseline in acceptance.baselines:
        yield "* " + escape(f"accepted length {baseline.value} on {baseline.engine}: {baseline.source}")
    yield ""


def _open(contract: Contract) -> Iterator[str]:
    unknown = [(paths, known) for paths, known in grouped(contract) if not known.known]
    if not unknown:
        return
    yield "### Not known"
    yield ""
    for paths, known in unknown:
        yield "* " + escape(f"{group_name(paths)}: {known.reason}")
    yield ""
