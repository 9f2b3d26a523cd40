"""The data flow of a drafter, as ``measurements["flow"]`` holds it: a kind says what flows where, a report shows where it is broken.

An edge names the dimensions of the checks that guard it; it is broken when one of these failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.findings import Check, Json, Status
from contract.reporting import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node to another.

    Attributes:
        dimensions: those of the checks that guard the edge.
        besides: rules of these dimensions that fail for other reasons as well, so that they say nothing about this edge.
        slot: the slot that runs over the edge. A failed check about another slot does not break it; one about no slot in particular
            breaks the edges of all, unless others say which.
    """

    source: str
    target: str
    dimensions: Sequence[str] = ()
    besides: Sequence[str] = ()
    slot: int | None = None

    def broken_by(self, failed: Sequence[Check]) -> bool:
        """Whether one of the failed checks speaks of this edge."""
        guards = [c for c in failed if c.dimension in self.dimensions and c.rule not in self.besides]
        slots = {c.where.slot for c in guards if c.where is not None and c.where.slot is not None}
        return bool(guards) and (self.slot is None or not slots or self.slot in slots)

    def as_json(self) -> dict[str, Json]:
        said: dict[str, Json] = {"from": self.source, "to": self.target, "dimensions": list(self.dimensions)}
        return said | ({"besides": list(self.besides)} if self.besides else {}) | ({"slot": self.slot} if self.slot is not None else {})

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Edge:
        """From JSON. Raises KeyError, TypeError or ValueError for another shape."""
        return cls(
            source=str(said["from"]),
            target=str(said["to"]),
            dimensions=[str(d) for d in said["dimensions"]],
            besides=[str(rule) for rule in said.get("besides", [])],
            slot=int(said["slot"]) if "slot" in said else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """``nodes`` maps an id to the label of a box; edges run between ids and make no cycle."""

    nodes: Mapping[str, str]
    edges: Sequence[Edge]

    def as_json(self) -> dict[str, Json]:
        return {
            "nodes": [{"id": id_, "label": label} for id_, label in self.nodes.items()],
            "edges": [edge.as_json() for edge in self.edges],
        }

    @classmethod
    def of(cls, measurements: Mapping[str, Json]) -> Flow | None:
        """The flow of a report, or None where it has none (or one of another shape)."""
        found: Any = measurements.get("flow")
        try:
            nodes = {str(n["id"]): str(n["label"]) for n in found["nodes"]}
            edges = [Edge.of(e) for e in found["edges"]]
        except (TypeError, KeyError, ValueError, AttributeError):
            return None
        known = all(e.source in nodes and e.target in nodes for e in edges)
        made = cls(nodes=nodes, edges=edges)
        return made if nodes and known and made.columns() is not None else None

    def columns(self) -> list[list[str]] | None:
        """The ids in columns from left to right, each right of all its sources; None if there is a cycle.

        What has no source stands right before what it flows into, so that its edge crosses no box.
        """
        depth = dict.fromkeys(self.nodes, 0)
        for _ in self.nodes:
            moved = False
            for edge in self.edges:
                if depth[edge.target] <= depth[edge.source]:
                    depth[edge.target] = depth[edge.source] + 1
                    moved = True
            if not moved:
                fed = {edge.target for edge in self.edges}
                for id_ in [i for i in self.nodes if i not in fed]:
                    depth[id_] = min((depth[e.target] - 1 for e in self.edges if e.source == id_), default=0)
                return [[id_ for id_ in self.nodes if depth[id_] == column] for column in range(max(depth.values()) + 1)]
        return None

    def broken(self, report: Report) -> list[Edge]:
        """The edges that a failed check speaks of."""
        failed = [check for check in report.checks if check.status is Status.FAILED]
        return [edge for edge in self.edges if edge.broken_by(failed)]
