"""The checkpoints of the tests: files that real trainers wrote, and headers of others."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from eagle3_contract.model.load_view import load_view
from eagle3_contract.model.view import DrafterView, TensorHeader
from eagle3_contract.trainers.reading import TargetFacts

DATA = Path(__file__).parent / "data"
PEERS = Path(__file__).parent.parent / "peers" / "data"
TINY = TargetFacts(layers=8, hidden_size=64, vocab_size=512)
HEADERS: dict[str, dict[str, Any]] = json.loads((DATA / "headers.json").read_text())


def from_headers(name: str) -> DrafterView:
    """A checkpoint of which only config.json and the header are kept (data/README.md)."""
    kept = HEADERS[name]
    tensors = {n: TensorHeader(dtype, tuple(shape)) for n, (dtype, shape) in kept["tensors"].items()}
    return DrafterView(config=kept["config"], tensors=tensors, files=("config.json", "model.safetensors"), metadata=kept["metadata"])


@cache
def peer(name: str) -> DrafterView:
    """A checkpoint that is kept whole, for the forward."""
    return load_view(PEERS / name, allow_pickle=True)


def with_config(view: DrafterView, drop: tuple[str, ...] = (), **changes: Any) -> DrafterView:
    """The view with keys of config.json changed or dropped; ``section__key`` reaches into a section."""
    config = json.loads(json.dumps(dict(view.config)))
    for key in drop:
        *sections, last = key.split("__")
        holder = config
        for section in sections:
            holder = holder[section]
        holder.pop(last, None)
    for key, value in changes.items():
        *sections, last = key.split("__")
        holder = config
        for section in sections:
            holder = holder[section]
        holder[last] = value
    return replace(view, config=config)


def with_tensors(view: DrafterView, drop: tuple[str, ...] = (), **added: tuple[int, ...]) -> DrafterView:
    """The view with tensors dropped, or added under their names (``__`` for a dot)."""
    tensors = {n: h for n, h in view.tensors.items() if n not in drop}
    tensors |= {n.replace("__", "."): TensorHeader("F32", shape) for n, shape in added.items()}
    return replace(view, tensors=tensors)
