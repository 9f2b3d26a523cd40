"""The drafter's data flow, for the reports: what feeds what under the contract, and which kind of check guards each edge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contract.findings import Check, Status
from contract.report.flow import Edge, Flow
from contract.statement import fact
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import state_name
from eagle3_contract.verify import rules

SYMPTOMS: Final = (rules.CLAIM.id, rules.DROP.id, rules.LENGTH.id, rules.FLOOR.id)
"""They fail whatever is broken, so that they say nothing about where."""


def drafter_flow(contract: Contract, checks: Iterable[Check]) -> Flow:
    """The flow of one step. Where other states are fed, the logits that follow from them break no edge of their own."""
    recipe = fact(contract.hidden_states.boundaries)
    fed_wrongly = any(c.status is Status.FAILED and c.rule.startswith("states.") for c in checks)
    besides = (*SYMPTOMS, *((rules.PATH_LOGITS.id,) if fed_wrongly else ()))
    states = {f"slot{i}": state_name(s) for i, s in enumerate(recipe.value)} if recipe.known else {"slot0": "states (unknown)"}
    nodes = {"target": "target", **states, "fc": "norms and fc", "embedding": "embedding", "files": "drafter's files"}
    nodes |= {"layer": "decoder layer", "head": "norm and lm_head", "tokens": "draft tokens"}
    edges = [Edge(source="target", target=id_, dimensions=("pairing",), besides=besides) for id_ in states]
    edges += [
        Edge(source=id_, target="fc", dimensions=("recipe", "keys"), besides=besides, slot=slot if recipe.known else None)
        for slot, id_ in enumerate(states)
    ]
    edges += [
        Edge(source="fc", target="layer", dimensions=("wiring", "rope", "architecture"), besides=besides),
        Edge(source="embedding", target="layer", dimensions=("alignment",), besides=besides),
        Edge(source="files", target="layer", dimensions=("files", "shapes", "dtype", "weights"), besides=besides),
        Edge(source="layer", target="head", dimensions=(), besides=besides),
        Edge(source="head", target="tokens", dimensions=("vocab", "flags"), besides=besides),
    ]
    return Flow(nodes=nodes, edges=edges)
