"""What was compared, what differs and where; and the checks that follow, one for each rule, phase and cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from contract.findings import Check, Depth, Json, Rule, Where

LISTED = 20
"""Requests that a check lists by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One row of one forward. ``token`` is the slot of the row: how many tokens of the sequence stand before its own."""

    request: str
    run: str
    phase: str
    round: int
    step: int
    forward: int
    row: int
    token: int

    def __str__(self) -> str:
        run = f" (run {self.run})" if self.run else ""
        when = f"draft step {self.step} of round {self.round}" if self.phase == "draft" else f"{self.phase} of round {self.round}"
        return f"request {self.request}{run}, {when}, row {self.row} (token {self.token})"

    def as_json(self) -> dict[str, Json]:
        """For evidence."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row that is not as it should be.

    Attributes:
        place: which.
        tensor: what of it.
        cause: what it is instead; rows of one cause make one check.
        says: figures of this row, for the message.
        fix: more precise than the rule's remedy.
        dimension: where it is not the rule's.
        evidence: of this row; the first row's is in the check.
    """

    place: Place
    tensor: str
    cause: str
    says: str = ""
    fix: str | None = None
    dimension: str | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)


class Ledger:
    """Filled row by row; ``checks`` closes it."""

    def __init__(self) -> None:
        self._compared: dict[str, dict[tuple[str, str], list[int]]] = defaultdict(lambda: defaultdict(list))
        self._differ: dict[str, list[Difference]] = defaultdict(list)
        self._unknown: dict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
        self._figures: dict[str, str] = {}

    def compared(self, rule: Rule, place: Place) -> None:
        """This row was compared under the rule."""
        self._compared[rule.id][place.request, place.phase].append(place.token)

    def differs(self, rule: Rule, difference: Difference) -> None:
        """And it is not as it should be."""
        self._differ[rule.id].append(difference)

    def unknown(self, rule: Rule, reason: str, rows: int = 1, *, required: bool = True) -> None:
        """So many rows could not be compared, and why."""
        self._unknown[rule.id][reason, required] += rows

    def says(self, rule: Rule, figures: str) -> None:
        """What the passed check adds."""
        self._figures[rule.id] = figures

    def differences(self, rule: Rule) -> list[Difference]:
        """Those under a rule, in the order they were found."""
        return self._differ[rule.id]

    def rows(self, rule: Rule) -> int:
        """How many rows were compared under a rule."""
        return sum(map(len, self._compared[rule.id].values()))

    def first(self) -> tuple[str, Difference] | None:
        """The rule and the difference that comes first in the order of computation, of the earliest request."""
        ranked = [
            (d.place.request, d.place.forward, rank, d.place.row, rule, d) for rule, ds in self._differ.items() for rank, d in _ranked(ds)
        ]
        order = {request: i for i, request in enumerate(dict.fromkeys(r for c in self._compared.values() for r, _ in c))}
        ranked.sort(key=lambda x: (order.get(x[0], 0), x[1], x[2], x[3]))
        return (ranked[0][4], ranked[0][5]) if ranked else None

    def checks(self, rule: Rule) -> Iterator[Check]:
        """One failed check for each phase and cause, or one that passed; one more if rows could not be compared."""
        groups: dict[str, list[Difference]] = {}
        for d in self._differ[rule.id]:
            groups.setdefault(d.cause, []).append(d)
        for group in groups.values():
            yield self._failed(rule, group)
        rows, compared = self.rows(rule), self._compared[rule.id]
        if rows and not groups:
            requests = len({request for request, _ in compared})
            by_phase = ", ".join(f"{n} {phase}" for phase, n in _by_phase(compared).items())
            more = f"; {self._figures[rule.id]}" if rule.id in self._figures else ""
            yield rule.passed(f"{rows} rows of {requests} requests ({by_phase}): {_lower(rule.title)}{more}", actual=rows)
        for (reason, required), n in self._unknown[rule.id].items():
            yield rule.undecided(
                f"{n} rows could not be compared: {reason}", at=Depth.VERIFY, required=None if required else False, actual=n
            )

    def _failed(self, rule: Rule, group: list[Difference]) -> Check:
        first = group[0]
        counts = Counter(d.place.request for d in group)
        phases = Counter(d.place.phase for d in group)
        compared = self._compared[rule.id]
        total = _by_phase(compared)
        at = [tokens for (request, phase), tokens in compared.items() if request == first.place.request and phase in phases]
        later = sum(token >= first.place.token for tokens in at for token in tokens)
        extent = ", ".join(f"{n} of {total.get(phase, n)} {phase} rows" for phase, n in phases.items())
        extent += f" in {len(counts)} request{'s' * (len(counts) > 1)}"
        since = f"{counts[first.place.request]} of the {later} from token {first.place.token} on in this one" if later else ""
        says = f" ({first.says})" if first.says else ""
        evidence: dict[str, Json] = {
            **first.evidence,
            "first": first.place.as_json() | {"tensor": first.tensor},
            "rows": len(group),
            "compared": sum(total.get(phase, 0) for phase in phases),
            "per_phase": dict(phases),
            "per_request": {
                request: {"rows": n, "first": next(d.place.as_json() for d in group if d.place.request == request)}
                for request, n in counts.most_common(LISTED)
            },
        }
        check = rule.failed(
            f"{first.place}: {first.tensor} {first.cause}{says}; {extent}{f', {since}' if since else ''}",
            fix=first.fix,
            where=Where(sample=first.place.request, tensor=first.tensor, row=first.place.token, step=first.place.step),
            evidence=evidence,
        )
        return check if first.dimension is None else replace(check, dimension=first.dimension)


ORDER = ("input_ids", "position_ids", "fc_in", "fc_out", "hidden_in", "state_out", "final_normed", "logits", "proposed", "emitted")
"""Tensors in the order of computation."""


def _ranked(differences: list[Difference]) -> Iterator[tuple[int, Difference]]:
    for d in differences:
        yield (ORDER.index(d.tensor) if d.tensor in ORDER else -1), d


def _by_phase(compared: Mapping[tuple[str, str], list[int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for (_, phase), tokens in compared.items():
        counts[phase] += len(tokens)
    return dict(counts)


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]
