"""What becomes of every tensor: names, shapes, what the file lacks, what the target replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eagle3_contract.readings.conditions import holds, total
from eagle3_contract.readings.reading import TensorFate
from eagle3_contract.readings.rules import DraftClass, Fate, Load, Name, NameOp, Param, Phase, Profile
from eagle3_contract.readings.scope import Fault, State
from eagle3_contract.readings.view import DrafterView, TensorHeader, dtype_name

MOST_COPIES = 1024
"""More layers or states than this are no drafter; parameters beyond are not listed, so that a hostile config cannot exhaust memory."""
VOCABULARY_PADDING = 64
"""Rows of a vocabulary table are padded to a multiple of this (SGLang and vLLM, layers/vocab_parallel_embedding.py)."""
TARGETS = frozenset({"target", "tied_to_target"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter of one layer: the engine's name, its rule, the layer (0 where it belongs to none)."""

    name: str
    param: Param
    layer: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor of the file and the engine's name for it; None: the loader drops it by name."""

    name: str
    file: str
    header: TensorHeader
    parameter: str | None
    shadowed: bool = False


def slots(cls: DraftClass, state: State) -> dict[str, Slot]:
    """Every parameter the class may have, by name, whatever its condition says."""
    depth = _copies(state.value("field:layers"), 1)
    states = _copies(state.value("field:fc.count"), 0)
    found: dict[str, Slot] = {}
    for param in state.in_force(cls.params):
        for i in range(depth if "{i}" in param.name else states if "{k}" in param.name else 1):
            name = param.name.replace("{i}", str(i)).replace("{k}", str(i))
            found[name] = Slot(name, param, i if "{i}" in param.name else 0)
    return found


def _copies(value: object, otherwise: int) -> int:
    return min(value, MOST_COPIES) if isinstance(value, int) and not isinstance(value, bool) else otherwise


def place(cls: DraftClass, view: DrafterView, state: State) -> list[Placed]:
    """Every tensor of every file under the name the engine gives it; the last file that holds a parameter wins."""
    known = slots(cls, state)
    steps = [n for n in state.in_force(cls.names) if n.when is None or holds(n.when, state) is True]
    loaded = view.weight_files()
    placed = [Placed(name, file, header, _engine_name(name, steps, known)) for file in loaded for name, header in view.files[file].items()]
    last = {p.parameter: p for p in placed if p.parameter is not None}
    placed = [p if p.parameter is None or last[p.parameter] is p else Placed(p.name, p.file, p.header, p.parameter, True) for p in placed]
    hidden = [
        Placed(name, file, header, None, True) for file in view.files if file not in loaded for name, header in view.files[file].items()
    ]
    return placed + hidden


def _engine_name(name: str, steps: list[Name], known: Mapping[str, Slot]) -> str | None:
    for step in steps:
        if step.op is NameOp.DROP and step.text in name:
            return None
        if step.op is NameOp.REPLACE:
            name = name.replace(step.text, step.new)
        elif step.op is NameOp.REPLACE_START and name.startswith(step.text):
            name = step.new + name.removeprefix(step.text)
        elif step.op is NameOp.CALL and step.text in name:
            return step.new
        elif _prefixed(step, name, known):
            name = step.new + name
    return name


def _prefixed(step: Name, name: str, known: Mapping[str, Slot]) -> bool:
    if step.op is NameOp.PREFIX:
        return not any(u in name for u in step.unless)
    return step.op is NameOp.TRY_PREFIX and name not in known and step.new + name in known


def fates(profile: Profile, cls: DraftClass, placed: list[Placed], view: DrafterView, state: State) -> tuple[TensorFate, ...]:
    """The fate of every tensor of the file, then of every parameter that it lacks. Adds the faults of the loader."""
    known = slots(cls, state)
    existing = {s.name: s for s in known.values() if s.param.when is None or holds(s.param.when, state) is not False}
    fed = {p.parameter for p in placed if not p.shadowed}
    replaced = {param for param, name in profile.shared if state.value(f"field:{name}") in TARGETS}
    found = [_fate(profile, cls, p, existing, fed, replaced, state) for p in placed]
    missing = list(_missing(existing, {t.parameter for t in found if t.fate is not Fate.DROPPED}, replaced, view))
    state.faults += [Fault(Phase.WEIGHTS, f"the file has no {t.name}", profile.source) for t in missing if t.fate is Fate.ERROR]
    return (*found, *missing)


def _fate(
    profile: Profile, cls: DraftClass, item: Placed, existing: Mapping[str, Slot], fed: set[str | None], replaced: set[str], state: State
) -> TensorFate:
    shape = item.header.shape
    if item.shadowed:
        return TensorFate(item.name, Fate.SHADOWED, item.file, item.parameter, shape)
    slot = existing.get(item.parameter) if item.parameter is not None else None
    if item.parameter is None or (slot is not None and slot.param.with_ and _sibling(slot) not in fed):
        return TensorFate(item.name, Fate.DROPPED, item.file, None, shape)
    if slot is None:
        fate = _unknown(cls, item, state)
        return TensorFate(item.name, fate, item.file, None, shape)
    fate, expected = _shaped(profile, slot, item, state)
    if fate is not Fate.ERROR and slot.name in replaced:
        fate = Fate.REPLACED_BY_TARGET
    return TensorFate(item.name, fate, item.file, slot.name, shape, expected)


def _sibling(slot: Slot) -> str:
    head = slot.name.rsplit(".", 2)[0]
    return f"{head}.{slot.param.with_}"


def _unknown(cls: DraftClass, item: Placed, state: State) -> Fate:
    unknown = state.in_force(cls.unknown)[0]
    if unknown.fate is not Fate.ERROR or item.name.endswith(unknown.dropped_endings):
        return Fate.DROPPED
    state.faults.append(Fault(Phase.WEIGHTS, unknown.error.format(name=item.parameter), cls.source))
    return Fate.ERROR


def _shaped(profile: Profile, slot: Slot, item: Placed, state: State) -> tuple[Fate, tuple[int, ...] | None]:
    state.layer = slot.layer
    sizes = [total(s, state) for s in slot.param.shape]
    state.layer = 0
    plain = _cast(item, state)
    if slot.param.load is Load.ANY or not all(isinstance(s, int) for s in sizes):
        return plain, None
    expected = tuple(int(s) for s in sizes)
    fate = _fits(profile, slot.param.load, item.header.shape, expected, state)
    if fate is Fate.ERROR:
        message = f"AssertionError: {item.name} is {list(item.header.shape)}, the engine's {slot.name} is {list(expected)}"
        state.faults.append(Fault(Phase.WEIGHTS, message, profile.source))
    return (plain if fate is Fate.LOADED else fate), expected


def _fits(profile: Profile, load: Load, shape: tuple[int, ...], expected: tuple[int, ...], state: State) -> Fate:
    if len(shape) != len(expected):
        return Fate.ERROR
    if load is Load.VOCABULARY:
        padded = expected[0] % VOCABULARY_PADDING != 0
        return Fate.ERROR if shape != expected else Fate.PADDED if padded else Fate.LOADED
    if shape == expected:
        return Fate.LOADED
    axis = {Load.ROWS: 0, Load.COLUMNS: 1}.get(load)
    if axis is None or any(shape[i] != expected[i] for i in range(len(shape)) if i != axis):
        return Fate.ERROR
    if shape[axis] > expected[axis]:
        return Fate.SLICED
    return Fate.PADDED if profile.pads_on and state.value("flag:device") == profile.pads_on else Fate.ERROR


def _cast(item: Placed, state: State) -> Fate:
    wanted = state.value("field:dtype")
    stored = dtype_name(item.header.dtype)
    if item.parameter is not None and "d2t" in item.name:
        return Fate.LOADED if stored == "int64" else Fate.CAST
    if not isinstance(wanted, str):
        return Fate.LOADED
    return Fate.LOADED if stored == dtype_name(wanted) else Fate.CAST


def _missing(existing: Mapping[str, Slot], fed: set[str | None], replaced: set[str], view: DrafterView) -> Iterator[TensorFate]:
    names = [n for f in view.weight_files() for n in view.files[f]]
    midlayer = any("midlayer." in n for n in names)
    for slot in existing.values():
        if slot.name in fed or slot.param.missing is Fate.DROPPED:
            continue
        fate = Fate.SHARED_FROM_TARGET if slot.name in replaced else slot.param.missing
        name = slot.param.called or slot.name.removeprefix("model.").replace("midlayer.", "layers.0.")
        yield TensorFate(name.replace("layers.0.", "midlayer.") if midlayer else name, fate, None, slot.name)
