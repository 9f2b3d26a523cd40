"""The drafter's data flow, for the reports: what feeds what under the contract, and which kind of check guards each edge."""

from __future__ import annotations

from contract.report.flow import Edge, Flow
from contract.statement import fact
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import state_name


def drafter_flow(contract: Contract, besides: tuple[str, ...] = ()) -> Flow:
    """The flow of one step. ``besides``: rules that say nothing about where the flow is broken."""
    recipe = fact(contract.hidden_states.boundaries)
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
