"""The text of a request in other rounds: what an engine would have recorded that drafts otherwise. The target's own tokens stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from contract.files.checkpoint import Checkpoint
from contract.limits import DEFAULT_LIMITS
from eagle3_contract.drafter.checkpoint_source import CheckpointSource
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.verify.engine_runs.rounds import accepted_path
from eagle3_contract.verify.engine_runs.tree import Shape, Tree, TreeDrafter
from verify.engine_runs.conftest import DEMO, Demo
from verify.engine_runs.simulate import Request, table

Edit = Callable[[int, Tree], Tree]


def rewired(demo: Demo, **changes: object) -> Drafter:
    """Drafter a under another wiring."""
    own, target = (CheckpointSource(Checkpoint.open(DEMO / name, limits=DEFAULT_LIMITS)) for name in ("drafter-a", "target"))
    return Drafter(dataclasses.replace(demo.drafter.wiring, **changes), own, target_source=target)  # type: ignore[arg-type]


def fed(request: Request, names: Sequence[str] = ("slot.0", "slot.1", "slot.2")) -> Tensor:
    return torch.cat([request.tensors[name] for name in names], dim=-1)


def redrafted(
    request: Request, drafter: Drafter, *, drafts: int = 3, shape: Shape | None = None, by_ancestors: bool = False,
    states_TC: Tensor | None = None, edit: Edit = lambda round_, tree: tree,
) -> Request:  # fmt: skip
    """The same text, drafted by ``drafter`` from ``states_TC`` (what was fed); the drafter's forwards are not recorded."""
    states_TC = fed(request) if states_TC is None else states_TC
    text, at = request.text, request.prompt_tokens + 1
    ours = TreeDrafter(drafter)
    ours.prefill(torch.tensor(text[:at]), states_TC[: at - 1])
    proposed: list[Tree] = []
    emitted: list[list[int]] = []
    while at < len(text):
        if shape is not None:
            made = ours.grow(shape, by_ancestors=by_ancestors)
        else:
            made = Tree(ours.draft(drafts).tokens.tolist(), list(range(-1, drafts - 1)))
        made = edit(len(proposed), made)
        lead = len(accepted_path(made.tokens, made.parents, text[at:]))
        proposed.append(made)
        emitted.append(text[at : at + lead + 1])
        ours.commit(torch.tensor(emitted[-1]), states_TC[at - 1 : at - 1 + len(emitted[-1])])
        at += lead + 1
    tensors = {n: x for n, x in request.tensors.items() if not n.startswith(("forward.", "round."))}
    tensors |= {"round.proposed": table([t.tokens for t in proposed]), "round.emitted": table(emitted)}
    if shape is not None:
        tensors["round.parents"] = table([t.parents for t in proposed], pad=-2)
    return dataclasses.replace(request, tensors=tensors, forwards=[])
