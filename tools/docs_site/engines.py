"""A page per engine: what it reads of a checkpoint, in the order in which it looks, with the source of every line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3_contract.readings.conditions import UNKNOWN
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.rules import Choice, Family, Hit, IdTest, Key, Profile, Rule, Turn
from eagle3_contract.readings.versions import Ranged
from tools.docs_site.conditions import path, value, words
from tools.docs_site.markdown import code, source, table, text

INTRO = """\
What each engine makes of an EAGLE-3 checkpoint, release by release. Nothing is written by hand here: it is the profile that
`contract read DRAFTER --engine {name}` executes. *Boundary n* is the residual stream entering layer n of the target; N is its number of
layers."""
WIDE = "---\nhide: [toc]\n---\n"


def pages() -> Iterator[tuple[str, str]]:
    """Path and markdown of every page."""
    profiles = sorted(PROFILES.values(), key=lambda p: p.engine)
    lines = ["# Engines", "", INTRO.format(name="ENGINE")]
    lines += table(["engine", "releases", "runners"], ([f"[{p.engine}]({p.engine}.md)", _spans(p), ", ".join(p.runners)] for p in profiles))
    yield "engines/index.md", "\n".join(lines) + "\n"
    for profile in profiles:
        yield f"engines/{profile.engine}.md", WIDE + "\n".join(_page(profile)) + "\n"


def _spans(profile: Profile) -> str:
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in profile.spans)


def _page(profile: Profile) -> Iterator[str]:
    yield f"# {profile.engine}"
    yield ""
    yield INTRO.format(name=profile.engine)
    facts = [_spans(profile), ", ".join(profile.runners) or "one", source(profile.source or "see each line")]
    yield from table(["releases read", "runners", "source"], [facts])
    yield "## Which states are fed"
    capture = profile.capture
    yield ""
    yield f"Order: {capture.order.value}." + (f" Exactly {capture.exactly} are needed." if capture.exactly else "")
    yield from _rules([capture.enabled, *capture.ids])
    yield "Ids mean, by the target's class:"
    yield from table(["target", "an id k is boundary", "without ids", "highest", "notes", "source"], (_family(f) for f in capture.families))
    if profile.rules:
        yield "## Fields of every drafter class"
        yield from _rules(profile.rules)
    for drafter in profile.classes:
        yield f"## Class {text(drafter.name)}"
        yield ""
        later = {**dict.fromkeys(drafter.architectures, ""), **(drafter.later or {})}
        yield "Answers to " + ", ".join(code(name) + (f" (from {since} on)" if since else "") for name, since in later.items()) + "."
        yield ""
        yield f"Source: {source(drafter.source)}. {_holds(drafter)}"
        yield from _rules(drafter.rules)
        yield "Parameters, and what becomes of one that the file has not:"
        yield from table(
            ["parameter", "shape", "missing", "shape differs", "when"],
            (
                [_both(code(p.name), _holds(p)), code(" x ".join(p.shape)), code(p.missing.value), code(p.load.value), words(p.when)]
                for p in drafter.params
            ),
        )
    guards = [*profile.guards, *(g for drafter in profile.classes for g in drafter.guards)]
    if guards:
        yield "## When it refuses"
        yield from table(
            ["when", "error", "at", "source"],
            ([_both(words(g.when), _holds(g)), text(g.error), g.phase.name.lower().replace("_", " "), source(g.source)] for g in guards),
        )
    if profile.serve:
        yield "## What serving flags become"
        yield from _rules(profile.serve)


def _rules(rules: Sequence[Rule]) -> Iterator[str]:
    return table(
        ["field", "value: the first that applies", "source"],
        (
            [_both(code(r.field), _holds(r)), "<br>".join(_choice(c) for c in r.choices), _both(source(r.source), text(r.text))]
            for r in rules
        ),
    )


def _both(first: str, second: str) -> str:
    return "<br>".join(part for part in (first, second) if part)


def _choice(choice: Choice) -> str:
    if isinstance(choice, Key):
        said = path(choice.path)
        said += "" if choice.turn is Turn.SAME else f", {choice.turn.value}"
        said += "" if choice.hit is Hit.PRESENT else f" (if {choice.hit.value})"
        note = choice.source
    else:
        said = "unknown" if choice.value is UNKNOWN else value(choice.value)
        said += f" ({choice.origin.value.replace('_', ' ')})"
        note = "; ".join(part for part in (choice.rule, choice.source) if part)
    when = f" when {words(choice.when)}" if choice.when is not None else ""
    return said + when + (f": {text(note)}" if note else "") + (f" ({_holds(choice)})" if _holds(choice) else "")


def _family(family: Family) -> list[str]:
    shifts = "; ".join(
        ("k" if s.by == 0 else f"k{s.by:+d}") + ("" if s.when is IdTest.ALWAYS else f" if {s.when.value}") for s in family.shifts
    )
    notes = [
        "not supported" if not family.supported else "",
        text(family.error),
        f"boundary 0: {text(family.embedding_error)}" if family.embedding_error else "",
        f"counted: {text(family.short_error)}" if family.short_error else "",
        "" if family.stream == "residual" else f"stream: {text(family.stream)}",
        f"an id outside {family.beyond.value}",
        f"id {family.final_norm_id} is the final norm" if family.final_norm_id is not None else "",
    ]
    targets = ", ".join(code(t) for t in family.targets) or "every target"
    default = "[" + ", ".join(family.default) + "]"
    said = "<br>".join(n for n in notes if n)
    return [
        _both(f"{text(family.name)}: {targets}", _holds(family)),
        shifts,
        code(default),
        code(family.highest),
        said,
        source(family.source),
    ]


def _holds(ranged: Ranged) -> str:
    parts = [f"from {ranged.since}" if ranged.since else "", f"before {ranged.until}" if ranged.until else ""]
    parts += [f"runner {', '.join(ranged.runners)}"] if ranged.runners else []
    return ", ".join(p for p in parts if p)
