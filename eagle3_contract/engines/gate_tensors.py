"""The parameters that a drafter runs on against the tensors of its checkpoint, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from contract.files.checkpoint import Checkpoint
from contract.files.tensors import TensorRef
from contract.findings import Check, Where
from contract.limits import MIB
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.needed import needed
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, T2D, canonical_name
from eagle3_contract.engines.gate_facts import LiveFacts
from eagle3_contract.engines.gate_rules import LEFT, TENSORS

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_BYTES: Final = 64 * MIB
"""Bytes of a checkpoint's tensor that are compared at a time."""
_PLACES: Final = {EMBEDDING: "embedding", HEAD: "lm_head"}


def check_parameters(ctx: CheckContext, checkpoint: Checkpoint, facts: LiveFacts) -> Iterator[Check]:
    """Every tensor that training used is held with its values; nothing that runs was left as it was built."""
    stored = _stored(checkpoint)
    held = {name: value for raw, value in facts.parameters.items() if (name := canonical_name(raw)) is not None}
    borrowed = {name for name, place in _PLACES.items() if facts.shared.get(place, "own") != "own"}
    compared = 0
    for name, ref in stored.items():
        if name in (D2T, T2D) or name in borrowed or not _counts(ctx, name):
            continue
        check = _held(name, ref, held.get(name), facts)
        if check is None:
            compared += 1
        else:
            yield check
    if compared:
        yield TENSORS.passed(f"{compared} parameters of {facts.reference} hold the values of the checkpoint", actual=compared)
    left = [name for name in held if name not in stored and name not in borrowed and name not in (D2T, T2D)]
    yield from _left(ctx, facts, {name: held[name] for name in left})


def _stored(checkpoint: Checkpoint) -> dict[str, TensorRef]:
    found: dict[str, TensorRef] = {}
    for raw, ref in checkpoint.tensors.items():
        name = canonical_name(raw)
        if name is not None:
            found.setdefault(name, ref)
    return found


def _counts(ctx: CheckContext, name: str) -> bool:
    """Whether training used the stored tensor: everything does that the contract does not say otherwise of."""
    return name not in ctx.contract.tensors or ctx.value("tensors", name, "used") in ("own", None)


def _held(name: str, ref: TensorRef, parameter: Tensor | None, facts: LiveFacts) -> Check | None:
    """What is wrong with one parameter; None if it holds the checkpoint's values."""
    where = Where(file=ref.file, tensor=ref.name)
    if parameter is None:
        return TENSORS.failed(f"{facts.reference} holds no {name}: the tensor was skipped", expected=list(ref.shape), where=where)
    if parameter.numel() == 0:
        return TENSORS.undecided(f"{facts.reference} does not show the values of {name}", required=True, where=where)
    if not parameter.is_floating_point() or parameter.element_size() < 2:
        return TENSORS.undecided(f"{name} is held as {_dtype(parameter)}: its values cannot be compared", required=True, where=where)
    shape, wanted = tuple(parameter.shape), ref.shape
    part = _part(wanted, shape, facts)
    if part is None:
        return TENSORS.failed(f"{facts.reference} holds {name} in another shape", expected=list(wanted), actual=list(shape), where=where)
    wrong, first = _differences(ref, parameter, *part)
    if wrong:
        return TENSORS.failed(
            f"{facts.reference} holds other values in {name}: {wrong} of {parameter.numel()} elements are not the checkpoint's, the first "
            f"in row {first}",
            expected="the checkpoint's values",
            actual=f"{wrong} others",
            where=where,
            evidence={"elements": parameter.numel(), "different": wrong, "first_row": first, "dtype": _dtype(parameter)},
        )
    return None


def _dtype(parameter: Tensor) -> str:
    return str(parameter.dtype).removeprefix("torch.")


def _part(stored: tuple[int, ...], held: tuple[int, ...], facts: LiveFacts) -> tuple[int, int] | None:
    """(dimension, offset) of the held part in the stored tensor; None if it is no part of it.

    A table may have more rows than are stored (padding: vLLM pads vocabularies to 64); under tensor parallelism one dimension is shared
    out among the ranks.
    """
    if not stored:
        return None
    if stored == held or (len(stored) == len(held) and stored[1:] == held[1:] and held[0] > stored[0] and facts.tp == 1):
        return 0, 0
    if len(stored) != len(held) or facts.tp == 1:
        return None
    differing = [d for d, (s, h) in enumerate(zip(stored, held, strict=True)) if s != h]
    if len(differing) != 1 or differing[0] > 1 or held[differing[0]] * facts.tp < stored[differing[0]]:
        return None
    return differing[0], held[differing[0]] * facts.rank


def _differences(ref: TensorRef, parameter: Tensor, dimension: int, offset: int) -> tuple[int, int | None]:
    """How many elements are not the checkpoint's after the cast to the parameter's dtype, and the first row with one."""
    import torch

    from contract.files.torch_tensors import load_rows

    rows = ref.shape[0]
    begin, end = (offset, min(rows, offset + parameter.shape[0])) if dimension == 0 else (0, rows)
    step = max(1, CHUNK_BYTES // max(1, ref.nbytes // max(1, rows)))
    wrong, first = 0, None
    for at in range(begin, end, step):
        taken = list(range(at, min(at + step, end)))
        there = load_rows(ref, taken).to(device=parameter.device).to(parameter.dtype)
        if dimension == 1:
            there = there[:, offset : offset + parameter.shape[1]]
        here = parameter.detach()[at - offset : at - offset + len(taken)] if dimension == 0 else parameter.detach()[at : at + len(taken)]
        if dimension == 1:
            here = here[:, : there.shape[1]]
        different = here != there  # NaN differs from everything
        count = int(torch.count_nonzero(different))
        if count and first is None:
            first = at + int(different.reshape(len(taken), -1).any(dim=1).nonzero()[0, 0])
        wrong += count
    return wrong, first


def _left(ctx: CheckContext, facts: LiveFacts, extra: Mapping[str, Tensor]) -> Iterator[Check]:
    wanted, clean = needed(ctx).shapes, True
    for name, parameter in extra.items():
        if name not in wanted and _neutral(name, parameter):
            continue  # a norm of ones or a bias of zeros that training did not have
        clean = False
        why = "training used it and no file holds it" if name in wanted else "training had no such parameter, and no file holds it"
        yield LEFT.failed(
            f"{facts.reference} runs on {name} as it was built: {why}",
            actual=list(parameter.shape),
            where=Where(tensor=name),
            evidence={"dtype": _dtype(parameter), "neutral": _neutral(name, parameter)},
        )
    if clean:
        yield LEFT.passed(f"{facts.reference} runs on no parameter that no file filled")


def _neutral(name: str, parameter: Tensor) -> bool:
    value = 0.0 if name.endswith(".bias") else 1.0
    return parameter.dim() == 1 and bool((parameter == value).all())
