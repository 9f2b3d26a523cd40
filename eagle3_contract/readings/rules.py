"""The vocabulary of a profile: what an engine does with a drafter, said as data.

A profile is a table of frozen dataclasses in Python (``profiles/``), not YAML: mypy checks every row, a row carries its source beside its
meaning, nothing has to be parsed before the first answer, and a diff of a profile is a diff of rows. There is no engine-specific code
anywhere else: ``interpreter`` executes every profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

from eagle3_contract.readings.conditions import UNKNOWN, Condition
from eagle3_contract.readings.versions import Ranged


class Hit(StrEnum):
    """When a key counts as found: it exists; it is not null; it is true in Python's sense."""

    PRESENT = "present"
    NOT_NULL = "not null"
    TRUTHY = "truthy"


class Turn(StrEnum):
    """What is done with the value of a key."""

    SAME = "same"
    LENGTH = "length"
    TRUTH = "truth"
    NOT = "not"
    NEXT = "plus one"
    NEXT_EACH = "each plus one"
    ONE_AT_LEAST = "each, but at least one"
    UPPER = "upper case"
    POST_IF_TRUE = "post_norm if true"


class Origin(StrEnum):
    """Where a value came from."""

    KEY = "key"
    DEFAULT = "default"
    HARD_CODED = "hard_coded"
    TARGET = "target"
    FLAG = "flag"
    UNKNOWN = "unknown"


class Phase(IntEnum):
    """When an engine finds a fault, in the order of a start."""

    FLAGS = 0
    CONFIG = 1
    ARCHITECTURE = 2
    BUILD = 3
    WEIGHTS = 4
    ATTACH = 5
    FIRST_REQUEST = 6


class Fate(StrEnum):
    """What becomes of a tensor (``contract read``)."""

    LOADED = "loaded"
    CAST = "cast"
    SLICED = "sliced"
    PADDED = "padded"
    SHADOWED = "shadowed"
    DROPPED = "dropped"
    REPLACED_BY_TARGET = "replaced_by_target"
    SHARED_FROM_TARGET = "shared_from_target"
    MISSING_UNINITIALISED = "missing_uninitialised"
    MISSING_RANDOM = "missing_random"
    MISSING_ONES = "missing_ones"
    MISSING_ZEROS = "missing_zeros"
    ERROR = "error"


class Load(StrEnum):
    """How a parameter takes a tensor whose shape differs: not at all; cut along the rows or the columns; a vocabulary table (exact
    rows, padded to a multiple of 64); anything."""

    EXACT = "exact"
    ROWS = "rows"
    COLUMNS = "columns"
    VOCABULARY = "vocabulary"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Ranged):
    """Take the value at ``path`` if it counts as found (and ``when`` holds)."""

    path: str
    hit: Hit = Hit.PRESENT
    turn: Turn = Turn.SAME
    when: Condition | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(Ranged):
    """Take this value (if ``when`` holds). A string that starts with ``=`` is a sum over symbols, ``@`` copies an earlier field."""

    value: Any
    origin: Origin = Origin.HARD_CODED
    when: Condition | None = None
    rule: str = ""
    source: str = ""


Choice: TypeAlias = Key | Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Ranged):
    """How one field gets its value: the first choice that applies. None applies: the engine fails when the module is built."""

    field: str
    choices: tuple[Choice, ...]
    source: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard(Ranged):
    """A condition under which the engine fails, and how."""

    when: Condition
    phase: Phase
    error: str
    source: str


class Beyond(StrEnum):
    """What an id does that no layer answers to: it vanishes, or indexing a module list fails (negative ids wrap round)."""

    VANISHES = "vanishes"
    INDEX = "indexes"


class IdTest(StrEnum):
    ALWAYS = "always"
    FIRST_IS_ONE = "the first id is 1"
    LARGEST_IS_LAYERS = "the largest id is the number of layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Explicit ids mean boundaries ``id + by`` if the test holds; the first shift of a family that applies."""

    by: int
    when: IdTest = IdTest.ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Ranged):
    """How one group of target classes captures.

    Attributes:
        targets: architecture strings of the target's config.json. Empty: every target.
        shifts: from the ids of the key to boundaries.
        default: boundaries without ids, as sums over N (layers).
        highest: the highest boundary that a layer answers to, as a sum over N; the lowest is 0.
        embedding_error: what happens when boundary 0 is asked for ("" = it is captured).
        beyond: what an id outside does.
        short_error: the engine counts, and fails with this text at the first request ("" = nothing counts).
        supported: False: the target class has no capture hook; loud with ``error``.
        stream: which stream the captured value is.
        final_norm_id: an id that means the state after the final norm; where it goes is ``final_norm_first``.
        last: the shifted id that captures boundary N, as a sum over N, where that is not N itself ("" = it is).
    """

    name: str
    targets: tuple[str, ...]
    source: str
    shifts: tuple[Shift, ...] = (Shift(by=0),)
    default: tuple[str, ...] = ("2", "N//2", "N-3")
    highest: str = "N-1"
    embedding_error: str = ""
    beyond: Beyond = Beyond.VANISHES
    short_error: str = ""
    supported: bool = True
    error: str = ""
    stream: str = "residual"
    final_norm_id: int | None = None
    final_norm_first: bool = False
    last: str = ""


class BadIds(StrEnum):
    """Ids that are no list of numbers: the default is taken, or Python fails on them."""

    DEFAULT = "default"
    ERROR = "error"


class Order(StrEnum):
    ASCENDING = "ascending, duplicates once"
    AS_LISTED = "as listed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Which states are captured: whether at all, which ids, what they mean."""

    enabled: Rule
    ids: tuple[Rule, ...]
    families: tuple[Family, ...]
    not_a_list: BadIds
    not_numbers: BadIds
    empty_error: str = ""
    order: Order = Order.ASCENDING
    exactly: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Param(Ranged):
    """A parameter of the drafter as the engine names it (``{i}`` = layer). ``shape`` are sums over symbols (``IN`` = the input width
    of the layer's attention). ``with_`` names a tensor that must be in the file too, else
    this one is dropped; ``called`` is its name in files where that is another one."""

    name: str
    shape: tuple[str, ...]
    missing: Fate
    load: Load = Load.EXACT
    when: Condition | None = None
    with_: str = ""
    called: str = ""


class NameOp(StrEnum):
    DROP = "drop"
    REPLACE = "replace"
    REPLACE_START = "replace start"
    CALL = "call"
    PREFIX = "prefix"
    TRY_PREFIX = "try prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Ranged):
    """One step from the name in the file to the engine's: drop what contains ``text``; replace it by ``new``; call the whole tensor
    ``new``; put ``new`` in front (unless it contains one of ``unless``); put it in front if that names a parameter and the name itself
    does not."""

    op: NameOp
    text: str = ""
    new: str = ""
    unless: tuple[str, ...] = ()
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Ranged):
    """What the loader does with a tensor that is no parameter: dropped, or an error except for these endings."""

    fate: Fate
    dropped_endings: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftClass(Ranged):
    """One class that runs a drafter: the architecture strings it answers to (``later``: those that came in a later release than the
    class), its fields, its parameters, its loader."""

    name: str
    architectures: tuple[str, ...]
    source: str
    rules: tuple[Rule, ...]
    params: tuple[Param, ...]
    names: tuple[Name, ...]
    unknown: tuple[Unknown, ...]
    guards: tuple[Guard, ...] = ()
    later: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Ranged):
    """One outer key of a speculators config that reaches the inner one. ``only`` says when; without it ``default`` replaces an absent
    key, and the outer value beats an inner one."""

    key: str
    default: Any = None
    only: Hit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculators:
    """How a config in the speculators layout (sizes inside ``transformer_layer_config``) becomes the config of the drafter."""

    copies: tuple[Copy, ...]
    architectures: dict[str, str]
    algorithms: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Architectures(Ranged):
    """How the class is found: the first known entry; or the first entry, after a prefix that is put before names without it. Of several
    ways in force the first whose ``when`` holds counts."""

    when: Condition | None = None
    prefix: str = ""
    kept_starts: tuple[str, ...] = ()
    kept_ends: tuple[str, ...] = ()
    first_only: bool = False
    from_model_type: dict[str, str] | None = None
    absent_error: str
    unknown_error: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One engine: the releases that were read, and everything above.

    Attributes:
        spans: (first, last) releases that were read, both inclusive.
        symbols: the letters of shapes and sums, as paths.
        class_defaults: whether the config goes through the config class of its model_type, which fills in defaults.
        rope_parameters_since: from which release on ``rope_parameters`` is read (transformers 5).
        rotary_keys: other names of partial_rotary_factor at the top level, read from that release on, too.
        pads_on: value of ``flag:device`` for which a short tensor is padded instead of refused.
        shared: parameter -> field that says whether the target's replaces it.
    """

    engine: str
    spans: tuple[tuple[str, str], ...]
    runners: tuple[str, ...]
    symbols: dict[str, str]
    architectures: tuple[Architectures, ...]
    capture: Capture
    rules: tuple[Rule, ...]
    classes: tuple[DraftClass, ...]
    guards: tuple[Guard, ...]
    serve: tuple[Rule, ...] = ()
    speculators: Speculators | None = None
    class_defaults: bool = True
    rope_parameters_since: str = ""
    rotary_keys: tuple[str, ...] = ()
    pads_on: str = ""
    override_flag: str = ""
    shared: tuple[tuple[str, str], ...] = ()
    source: str = ""


def default(value: Any, rule: str = "", *, when: Condition | None = None, since: str = "", until: str = "") -> Value:
    """The value an engine falls back to."""
    return Value(value=value, origin=Origin.DEFAULT, rule=rule, when=when, since=since, until=until)


def fixed(value: Any, rule: str = "", *, when: Condition | None = None, since: str = "", until: str = "") -> Value:
    """The value that the engine's code has written in."""
    return Value(value=value, origin=Origin.HARD_CODED, rule=rule, when=when, since=since, until=until)


def not_known(why: str, *, when: Condition | None = None, since: str = "", until: str = "") -> Value:
    """Public sources do not settle it."""
    return Value(value=UNKNOWN, origin=Origin.UNKNOWN, rule=why, when=when, since=since, until=until)
