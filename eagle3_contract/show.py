"""``contract show``: what a contract says, in words, with the data flow drawn, and what it does not know or takes for granted."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from contract.statement import fact
from eagle3_contract.check.compare import said
from eagle3_contract.check.statements import group_name, grouped
from eagle3_contract.diagram import diagram
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import recipe_text

WIDTH: Final = 110
UNKNOWN: Final = "?"


def show(contract: Contract, *, title: str = "contract") -> str:
    """The contract in words. ``title`` names it in the first line (its path). Ends without a line break."""
    lines = [f"{title}: an EAGLE-3 drafter for {_said(contract.target.id)}", ""]
    for heading, body in (
        ("Target", _target(contract)),
        ("Data flow of one step", diagram(contract)),
        ("Recipe", _recipe(contract)),
        ("Vocabulary", _vocabulary(contract)),
        ("Positions and steps", _steps(contract)),
        ("Tensors", _tensors(contract)),
        ("Training", _training(contract)),
        ("Serving", _serving(contract)),
        ("Assumed, not known", list(_assumed(contract))),
        ("Unknown", list(_unknown(contract))),
    ):
        if body:
            lines += [heading, *(f"  {line}".rstrip() for line in body), ""]
    return "\n".join(lines).rstrip()


def _said(stated: Any) -> str:
    """The value; a question mark if it is unknown, and a word if it is assumed."""
    known = fact(stated)
    if not known.known:
        return UNKNOWN
    return f"{said(known.value)} (assumed)" if known.evidence == "assumed" else said(known.value)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _target(contract: Contract) -> list[str]:
    t = contract.target
    return [
        f"{_said(t.id)} at {_said(t.revision)}, model_type {_said(t.model_type)}",
        f"{_said(t.layers)} layers, hidden size {_said(t.hidden_size)}, ran in {_said(t.dtype)}, quantisation {_said(t.quantization)}",
    ]


def _recipe(contract: Contract) -> list[str]:
    known = fact(contract.hidden_states.boundaries)
    if not known.known:
        return _wrapped(f"Which states training fed is unknown: {known.reason}")
    mark = " (assumed)" if known.evidence == "assumed" else ""
    return _wrapped(
        f"fc takes {recipe_text(known.value)}{mark}, concatenated in this order, of the stream {_said(contract.hidden_states.point)}. "
        "Boundary n is the input of target layer n."
    )


def _vocabulary(contract: Contract) -> list[str]:
    v = contract.vocab
    draft, target = fact(v.draft_size).value, fact(v.target_size).value
    share = f" ({draft / target:.1%})" if draft and target else ""
    stored = {True: "d2t is stored", False: "no d2t is stored", None: "whether d2t is stored is unknown"}[fact(v.present).value]
    return _wrapped(
        f"{_said(v.draft_size)} of {_said(v.target_size)} target tokens{share} can be drafted; the target's table has "
        f"{_said(v.target_padded_size)} rows; {stored}; map: {_said(v.map)}."
    )


def _steps(contract: Contract) -> list[str]:
    a, w = contract.alignment, contract.wiring
    shift = _said(a.token_shift)
    return _wrapped(
        f"Row t pairs the state g[t] with the token x[t+{shift}]. Positions start at {_said(a.positions_start)}; later steps: "
        f"{_said(a.step_positions)}. Later steps were fed {_said(contract.training.rollout)} tokens and the {_said(w.feedback)} state. "
        f"Norms use epsilon {_said(w.rms_norm_eps)}."
    )


def _tensors(contract: Contract) -> list[str]:
    stored = [spec for spec in contract.tensors.values() if spec.stored]
    dtypes = Counter(_said(spec.dtype) for spec in stored)
    lines = [f"{len(stored)} stored: " + ", ".join(f"{n} {dtype}" for dtype, n in sorted(dtypes.items()))]
    for name, spec in contract.tensors.items():
        used, content = fact(spec.used).value, fact(spec.content).value
        if not spec.stored or used != "own" or content in ("target_copy", "target_rows"):
            there = "stored" if spec.stored else "not stored"
            lines.append(f"{name}: {there}, used: {_said(spec.used)}, content: {_said(spec.content)}")
    return lines


def _training(contract: Contract) -> list[str]:
    t = contract.training
    s, m, d = t.target_state, t.metrics, t.data
    final = {True: "after", False: "before", None: "before or after (unknown)"}[fact(s.normed).value]
    return [
        f"{_said(t.trainer)} {_said(t.version)}, commit {_said(t.commit)}, up to {_said(t.max_length)} tokens",
        f"target logits from boundary {_said(s.boundary)}, stored {final} the final norm; normed by the trainer: "
        f"{_said(s.norm_applied_by_trainer)}",
        f"data: {_said(d.modality)}, thinking {_said(d.thinking)}, packed {_said(d.packed)}, loss {_said(d.loss_mask_rule)}",
        f"samples: {t.samples.count}, each with the states {_said(t.samples.states)}",
        f"claimed accuracy {_said(m.accuracy)} by {_said(m.definition)}",
    ]


def _serving(contract: Contract) -> list[str]:
    s, a = contract.serving, contract.acceptance
    lines = [
        f"{_said(s.steps)} steps, topk {_said(s.topk)}, {_said(s.draft_tokens)} draft tokens",
        f"accepted length: floor {_said(a.floor)} at k {_said(a.k)}, temperature {_said(a.temperature)}",
        f"counted: aggregation {_said(a.aggregation)}, bonus {_said(a.counts_bonus)}, prefill {_said(a.counts_prefill)}",
    ]
    return lines + [f"seen on {b.engine}: {b.value} ({b.source})" for b in a.baselines]


def _assumed(contract: Contract) -> Iterator[str]:
    for paths, known in grouped(contract):
        if known.evidence == "assumed":
            yield from _wrapped(f"{group_name(paths)} = {said(known.value)}" + (f": {known.note}" if known.note else ""))


def _unknown(contract: Contract) -> Iterator[str]:
    for paths, known in grouped(contract):
        if not known.known:
            yield from _wrapped(f"{group_name(paths)}: {known.reason}" + (f" ({known.note})" if known.note else ""))
