"""The tensors that the contract lists against those that are stored: presence on either side, shape, dtype, double names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contract.findings import Check, Rule, Severity, Where
from eagle3_contract.check.compare import agree
from eagle3_contract.check.context import CheckContext, StoredTensor
from eagle3_contract.drafter.names import canonical_name
from eagle3_contract.model.names import canonical

_E, _D = Severity.ERROR, "weights"

MISSING: Final = Rule(
    id="tensors.missing",
    title="Every tensor that the contract lists as stored is in the checkpoint",
    severity=_E,
    dimension=_D,
    why="Neither SGLang 0.5.23 nor vLLM 0.32.0 notices a missing tensor: fc gets a random init, norms get ones, projections and head "
    "uninitialised memory, and a missing lm_head borrows the target's first rows. The text stays right, the acceptance is gone "
    "(observed on both; sglang#27908, vllm#35548).",
    remedy="Export the checkpoint again with the tensor, or correct the contract if training had none.",
)
UNEXPECTED: Final = Rule(
    id="tensors.unexpected",
    title="The checkpoint stores no tensor that the contract does not list as stored",
    severity=_E,
    dimension=_D,
    why="A tensor that nobody listed is either dropped silently (SGLang's Llama drafter), refused (vLLM), or replaces something. EAGLE's "
    "own export leaks target_model.* buffers; a second lm_head has won before.",
    remedy="List the tensor in the contract with who uses it, or remove it from the checkpoint.",
)
TWICE: Final = Rule(
    id="tensors.named-twice",
    title="No two stored names mean the same tensor",
    severity=_E,
    dimension=_D,
    why="midlayer.* and layers.0.* (with or without model.) are the same tensor to every engine; which copy wins depends on the order of "
    "loading (SGLang 0.5.23 llama_eagle3.py:325-378 maps both).",
    remedy="Keep one of the two.",
)
SHAPE: Final = Rule(
    id="tensors.shape",
    title="Every stored tensor has the shape that the contract lists",
    severity=_E,
    dimension="shapes",
    why="Engines cut larger weights to the size of config.json and pad smaller ones, some of it silently (observed on SGLang and vLLM).",
    remedy="Correct the shape in the contract, or export the right checkpoint.",
)
DTYPE: Final = Rule(
    id="tensors.dtype",
    title="Every stored tensor has the dtype that the contract lists",
    severity=_E,
    dimension="dtype",
    why="A cast on export changes the weights that were evaluated; fp16 copies of bf16 weights overflow (lmdeploy#4991: 0.06 of 15 "
    "drafts).",
    remedy="Export in the dtype of the contract, or correct the contract.",
)
RULES: Final = (MISSING, UNEXPECTED, TWICE, SHAPE, DTYPE)


def check_tensors(ctx: CheckContext) -> Iterator[Check]:
    """Every entry of ``tensors`` against the headers, and every header entry against ``tensors``."""
    yield from _named_twice(ctx)
    stored = ctx.by_name
    for name, spec in ctx.contract.tensors.items():
        tensor = stored.get(canonical(name))
        if tensor is None and spec.stored:
            yield _missing(ctx, name)
        elif tensor is None:
            yield MISSING.passed(f"{name} is not stored, as the contract says")
        elif spec.stored:
            yield MISSING.passed(f"{name} is stored as {tensor.name}")
            yield from _compare(ctx, name, tensor)
    listed = {canonical(n) for n, spec in ctx.contract.tensors.items() if spec.stored}
    unlisted = [t for t in stored.values() if (canonical(t.name)) not in listed]
    for tensor in unlisted:
        yield _unexpected(ctx, tensor)
    if not unlisted and stored:
        yield UNEXPECTED.passed(f"all {len(stored)} stored tensors are listed in the contract")


def _missing(ctx: CheckContext, name: str) -> Check:
    message = f"the contract lists {name} as stored, the checkpoint does not have it"
    where = Where(file=ctx.document.file, line=ctx.place("tensors", name).line, column=ctx.place("tensors", name).column, tensor=name)
    if not ctx.drafter.complete:
        return MISSING.undecided(f"{message}, but not every file could be read", where=where)
    return MISSING.failed(message, expected="stored", actual="missing", where=where)


def _unexpected(ctx: CheckContext, tensor: StoredTensor) -> Check:
    spec = ctx.contract.tensors.get(canonical(tensor.name))
    leak = tensor.name.startswith("target_model.")
    if spec is not None:
        message = f"the checkpoint stores {tensor.name}, the contract says that it does not"
    elif canonical_name(tensor.name) is None:
        message = f"the checkpoint stores {tensor.name}, which the contract does not list and no EAGLE-3 drafter has"
    else:
        message = f"the checkpoint stores {tensor.name}, which the contract does not list"
    return UNEXPECTED.failed(
        message,
        expected="not stored",
        actual=f"{tensor.dtype} {list(tensor.shape)}",
        where=Where(file=tensor.file, tensor=tensor.name),
        fix="Remove the leaked buffers of the target (EAGLE's trainer saves target_model.* with the drafter)." if leak else None,
    )


def _compare(ctx: CheckContext, name: str, tensor: StoredTensor) -> Iterator[Check]:
    where = Where(file=tensor.file, tensor=tensor.name)
    for rule, part, actual in ((SHAPE, "shape", list(tensor.shape)), (DTYPE, "dtype", tensor.dtype)):
        yield agree(ctx, rule, ("tensors", name, part), actual, found_in=f"the header of {tensor.name}", where=where)


def _named_twice(ctx: CheckContext) -> Iterator[Check]:
    seen: dict[str, StoredTensor] = {}
    clean = True
    for tensor in ctx.drafter.tensors:
        name = canonical(tensor.name)
        first = seen.setdefault(name, tensor)
        if first is not tensor:
            clean = False
            yield TWICE.failed(
                f"{first.name} ({first.file}) and {tensor.name} ({tensor.file}) both mean {name}",
                actual=[first.name, tensor.name],
                where=Where(file=tensor.file, tensor=tensor.name),
            )
    if clean and seen:
        yield TWICE.passed(f"{len(seen)} stored names mean {len(seen)} different tensors")
