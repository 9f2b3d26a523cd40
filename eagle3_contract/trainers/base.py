"""The protocol of a trainer's adapter, and the choice among the installed ones.

An adapter is an object with the attributes of :class:`Trainer`, named under the entry point group ``eagle3_contract.trainers``. It sees a
:class:`DrafterView` and never a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final, Protocol, runtime_checkable

from contract.errors import UserError
from eagle3_contract.model.states import Recipe
from eagle3_contract.model.view import DrafterView
from eagle3_contract.trainers.reading import TargetFacts, TrainingReading

ENTRY_POINT_GROUP: Final = "eagle3_contract.trainers"
GENERIC: Final = "generic"
SURE: Final = 0.9
"""From this confidence on, the checkpoint carries something that only this trainer writes."""
PLAUSIBLE: Final = 0.5
"""From this confidence on, the adapter's rules are applied; below, the trainer is unknown."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """How sure an adapter is that its trainer wrote a checkpoint: 0 (not at all) to 1, and why."""

    confidence: float
    reasons: tuple[str, ...] = ()


@runtime_checkable
class Trainer(Protocol):
    """One trainer. Every rule it applies names its source."""

    @property
    def name(self) -> str:
        """As the command line and the contract spell it."""

    def recognise(self, view: DrafterView) -> Recognition:
        """How sure it is, by content: config keys, tensor names, metadata, side files."""

    def default_ids(self, layers: int) -> tuple[int, ...]:
        """The ids, in the trainer's own numbering, that it uses for a target of so many layers where none are given."""

    def ids_to_boundaries(self, ids: Sequence[int] | None, layers: int, version: str | None = None) -> Recipe:
        """What training fed for these ids (None: the default ones), in concatenation order.

        Raises:
            UserError: ``trainers.layer-ids`` if an id is outside the target.
        """

    def wiring(self, view: DrafterView, target: TargetFacts) -> TrainingReading:
        """Everything the checkpoint and the trainer's code say about how it was trained."""


def installed() -> dict[str, Trainer]:
    """The installed adapters by name.

    Raises:
        UserError: ``trainers.adapter-broken`` if one cannot be loaded or is no adapter.
    """
    found: dict[str, Trainer] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            adapter = point.load()
        except (ImportError, AttributeError) as error:
            raise _broken(point.name, str(error)) from error
        if not isinstance(adapter, Trainer):
            raise _broken(point.name, f"{point.value} is no trainer's adapter")
        found[adapter.name] = adapter
    return found


def choose(view: DrafterView, name: str = "auto") -> tuple[Trainer, Recognition]:
    """The adapter for a checkpoint: the one named, or the surest; the generic one if none is plausible.

    Raises:
        UserError: ``trainers.unknown-trainer`` for a name that is not installed, ``trainers.ambiguous`` if two are equally sure.
    """
    adapters = installed()
    if name != "auto":
        if name not in adapters:
            raise UserError(
                f"no trainer is called {name!r}", rule="trainers.unknown-trainer", fix=f"Name one of auto, {', '.join(sorted(adapters))}."
            )
        return adapters[name], Recognition(1.0, ("named by the user",))
    ranked = sorted(((a.recognise(view), a) for a in adapters.values()), key=lambda pair: -pair[0].confidence)
    best, adapter = ranked[0]
    if best.confidence < PLAUSIBLE and GENERIC in adapters:
        return adapters[GENERIC], Recognition(best.confidence, ("no trainer recognises this checkpoint as its own",))
    if len(ranked) > 1 and ranked[1][0].confidence == best.confidence:
        other = ranked[1][1].name
        raise UserError(
            f"the checkpoint looks like {adapter.name} and like {other} alike",
            rule="trainers.ambiguous",
            fix=f"Say which with --trainer {adapter.name} or --trainer {other}.",
        )
    return adapter, best


def check_ids(ids: Sequence[object], layers: int, *, lowest: int, highest: int, trainer: str) -> tuple[int, ...]:
    """The ids as whole numbers within lowest ... highest.

    Raises:
        UserError: ``trainers.layer-ids``.
    """
    checked = []
    for i in ids:
        if isinstance(i, bool) or not isinstance(i, int) or not lowest <= i <= highest:
            raise UserError(
                f"{trainer} layer ids {list(ids)}: {i!r} is not within {lowest} to {highest} for a target of {layers} layers",
                rule="trainers.layer-ids",
                fix="Correct the ids in the drafter's config, or the number of layers of the target.",
            )
        checked.append(i)
    return tuple(checked)


def _broken(name: str, reason: str) -> UserError:
    return UserError(
        f"the trainer adapter {name!r} cannot be used: {reason}",
        rule="trainers.adapter-broken",
        fix="Reinstall or remove the package that brings it.",
    )
