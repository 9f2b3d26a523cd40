"""The data flow of a drafter, as ``measurements["flow"]`` holds it: a kind says what flows where, a report shows where it is broken.

An edge names the dimensions of the checks that guard it; it is broken when one of these failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.findings import Json, Status
from contract.reporting import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node to another; ``dimensions`` are those of the checks that guard it."""

    source: str
    target: str
    dimensions: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """``nodes`` maps an id to the label of a box; edges run between ids and make no cycle."""

    nodes: Mapping[str, str]
    edges: Sequence[Edge]

    def as_json(self) -> dict[str, Json]:
        return {
            "nodes": [{"id": id_, "label": label} for id_, label in self.nodes.items()],
            "edges": [{"from": e.source, "to": e.target, "dimensions": list(e.dimensions)} for e in self.edges],
        }

    @classmethod
    def of(cls, measurements: Mapping[str, Json]) -> Flow | None:
        """The flow of a report, or None where it has none (or one of another shape)."""
        found: Any = measurements.get("flow")
        try:
            nodes = {str(n["id"]): str(n["label"]) for n in found["nodes"]}
            edges = [Edge(source=str(e["from"]), target=str(e["to"]), dimensions=[str(d) for d in e["dimensions"]]) for e in found["edges"]]
        except (TypeError, KeyError):
            return None
        known = all(e.source in nodes and e.target in nodes for e in edges)
        made = cls(nodes=nodes, edges=edges)
        return made if nodes and known and made.columns() is not None else None

    def columns(self) -> list[list[str]] | None:
        """The ids in columns from left to right, each right of all its sources; None if there is a cycle."""
        depth = dict.fromkeys(self.nodes, 0)
        for _ in self.nodes:
            moved = False
            for edge in self.edges:
                if depth[edge.target] <= depth[edge.source]:
                    depth[edge.target] = depth[edge.source] + 1
                    moved = True
            if not moved:
                return [[id_ for id_ in self.nodes if depth[id_] == column] for column in range(max(depth.values()) + 1)]
        return None

    def broken(self, report: Report) -> list[Edge]:
        """The edges that a failed check speaks of."""
        failed = {check.dimension for check in report.checks if check.status is Status.FAILED}
        return [edge for edge in self.edges if failed & set(edge.dimensions)]
