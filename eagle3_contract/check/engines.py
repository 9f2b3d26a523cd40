"""What the engines named with ``--engine`` make of the drafter, each reading compared with the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contract.errors import UserError
from contract.files.checkpoint import Checkpoint
from contract.findings import Check, Json, Where, check_from_error
from eagle3_contract.check.context import CheckContext
from eagle3_contract.check.reading import OUTCOME, check_reading
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.load import folder_name, view_of


def check_engines(
    ctx: CheckContext, checkpoint: Checkpoint, engines: Sequence[str], flags: Mapping[str, Mapping[str, Any]]
) -> Iterator[Check]:
    """Every reading of every engine; an engine that names no runner is read with each of them, so that the worst counts.

    Args:
        engines: references such as ``vllm[v2]==0.32.0``.
        flags: serving flags by such a reference, as the engine's Python API names them.
    """
    for engine in engines:
        if ctx.drafter.config is None:
            yield OUTCOME.undecided(f"{engine} cannot be read without config.json", where=Where(file="config.json"))
            continue
        try:
            view = view_of(checkpoint, ctx.drafter.config, name=folder_name(ctx.drafter.folder))
            readings = read(view, engine, target_config(ctx), flags.get(engine, {}))
        except UserError as error:
            yield check_from_error(error, dimension="engine")
            continue
        for reading in readings:
            yield from check_reading(ctx, reading)


def target_config(ctx: CheckContext) -> Mapping[str, Json]:
    """The target's config.json; without ``--target`` what the contract knows of it, under the same keys."""
    if ctx.target is not None:
        return ctx.target.config
    known = {
        "model_type": ctx.value("target", "model_type"),
        "num_hidden_layers": ctx.value("target", "layers"),
        "hidden_size": ctx.value("target", "hidden_size"),
        "vocab_size": ctx.value("vocab", "target_size"),
    }
    return {key: value for key, value in known.items() if value is not None}
