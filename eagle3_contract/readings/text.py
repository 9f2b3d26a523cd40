"""``contract read`` as text: a table per engine, with every default taken, every key nobody reads, every tensor that does not arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.reading import EngineReading, Field, Outcome, TensorFate
from eagle3_contract.readings.rules import Fate, Origin
from eagle3_contract.readings.serve_asked import asked

QUIET = frozenset({Fate.LOADED})
HARMLESS = {"t2d": "no engine reads it"}
MARK = "!"
"""In front of a row that deserves a look: a default taken, a value not known, a key ignored, a tensor that does not arrive."""
WIDEST = 48


def reading_text(reading: EngineReading) -> str:
    """One reading as plain text, rows of fixed columns, ``!`` before what deserves a look."""
    parts = [_head(reading), _table(("", "field", "value", "from", "source"), [_field(f) for f in reading.fields])]
    notes = [(f.field, f.rule) for f in (*reading.fields, *reading.effective) if f.rule]
    if notes:
        parts.append("what the engine does there" + _rows(notes))
    flags = [_flag(reading, f) for f in reading.effective]
    if flags:
        parts.append("serving flags, as they take effect\n" + _table(("", "flag", "asked", "effective", "from", "source"), flags))
    odd = [t for t in reading.tensors if t.fate not in QUIET]
    parts.append(f"tensors: {len(reading.tensors) - len(odd)} loaded as they are" + _rows(_tensor(t) for t in odd))
    parts.append("keys that this engine does not read:" + (_rows((MARK, k) for k in reading.ignored_keys) or " none"))
    return "\n\n".join(parts) + "\n"


def readings_text(readings: Sequence[EngineReading]) -> str:
    """Several readings, and, for several of them, the fields in which they differ."""
    texts = [reading_text(r) for r in readings]
    if len(readings) > 1:
        texts.append(differences_text(readings))
    return "\n".join(texts)


def differences_text(readings: Sequence[EngineReading]) -> str:
    """Fields, outcomes and fates of tensors that differ between readings, one column each; for two versions of an engine: what the
    upgrade changes for this drafter."""
    names = list(dict.fromkeys(f.field for r in readings for f in r.fields))
    tensors = list(dict.fromkeys(t.name for r in readings for t in r.tensors))
    fates = [r.fates() for r in readings]
    shown = [
        ("outcome", *(r.outcome.value for r in readings)),
        *((name, *(_shown(r, name) for r in readings)) for name in names),
        *((name, *(_fate(known.get(name)) for known in fates)) for name in tensors),
    ]
    rows = [row for row in shown if len({*row[1:]}) > 1]
    upgrade = len({r.engine for r in readings}) == 1 and len({r.version for r in readings}) > 1
    if not rows:
        return ("the upgrade changes nothing for this drafter" if upgrade else "the readings agree in every field") + "\n"
    title = "what the upgrade changes for this drafter" if upgrade else "where the readings differ"
    return f"{title}\n" + _table(("field", *(r.reader for r in readings)), rows) + "\n"


def _fate(fate: Fate | None) -> str:
    return "-" if fate is None else fate.value


def _head(reading: EngineReading) -> str:
    line = f"{reading.reader} with target {reading.target or 'not given'}: {reading.outcome.value}"
    if reading.outcome is Outcome.OK:
        return line
    return f"{line}\n{MARK} {reading.error}\n  {reading.error_source}"


def _field(field: Field) -> tuple[str, ...]:
    mark = MARK if field.origin is Origin.DEFAULT or not field.known else ""
    origin = field.origin.value if field.key is None else f"{field.origin.value} {field.key}"
    if field.origin is Origin.DEFAULT and field.looked_for:
        origin += f" (no {', no '.join(field.looked_for)})"
    return mark, field.field, _value(field), origin, field.source


def _flag(reading: EngineReading, field: Field) -> tuple[str, ...]:
    """An effective value beside the one asked for; ``!`` where they differ."""
    mark, name, effective, origin, source = _field(field)
    _, wanted = asked(reading, field.field)
    given = "-" if wanted is MISSING else _json(wanted)
    return MARK if given not in ("-", effective) else mark, name, given, effective, origin, source


def _value(field: Field) -> str:
    return _json(field.value) if field.known else "unknown"


def _shown(reading: EngineReading, name: str) -> str:
    found = next((f for f in reading.fields if f.field == name), None)
    return "-" if found is None else _value(found)


def _json(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _tensor(tensor: TensorFate) -> tuple[str, ...]:
    reason = HARMLESS.get(tensor.name.rsplit(".", 1)[-1], "")
    sizes = (
        f"file {list(tensor.shape)}, engine {list(tensor.expected)}"
        if tensor.shape and tensor.expected and tensor.shape != tensor.expected
        else ""
    )
    return "" if reason else MARK, tensor.name, tensor.fate.value, reason or sizes


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    listed = list(rows)
    return "\n" + _table((), listed) if listed else ""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    listed = [head, *rows] if head else list(rows)
    widths = [max(len(row[i]) for row in listed) for i in range(len(listed[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed)
