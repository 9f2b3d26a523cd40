"""A page per trainer: how its checkpoints are told, what its ids mean, and its known faults."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

from contract.errors import UserError
from eagle3_contract.trainers.base import Trainer, installed
from eagle3_contract.trainers.faults import known_faults
from tools.docs_site.markdown import prose, table

LAYERS = (24, 32, 61)


def pages() -> Iterator[tuple[str, str]]:
    """Path and markdown of every page."""
    for name, trainer in sorted(installed().items()):
        yield f"trainers/{name}.md", "\n".join(_page(name, trainer)) + "\n"


def _page(name: str, trainer: Trainer) -> Iterator[str]:
    yield f"# {name}"
    yield ""
    yield prose(inspect.getdoc(sys.modules[type(trainer).__module__]) or "")
    for title, body in (
        ("How its checkpoints are told", trainer.recognise),
        ("Layers where none are given", trainer.default_ids),
        ("What an id means", trainer.ids_to_boundaries),
    ):
        yield ""
        yield f"## {title}"
        yield ""
        yield prose(inspect.getdoc(body) or "")
        if title.startswith("Layers"):
            yield from table(["layers of the target", "ids", "boundaries fed"], (_row(trainer, n) for n in LAYERS))
    faults = known_faults(name, None)
    if faults:
        yield ""
        yield "## Known faults"
        yield ""
        yield from (f"* {prose(fault)}" for fault in faults)
    yield ""
    yield "Everything else that its checkpoints say, and all trainers side by side: [trainers](../trainers.md). Named by hand:"
    yield f"`contract init DRAFTER --trainer {name}`."


def _row(trainer: Trainer, layers: int) -> list[str]:
    ids = list(trainer.default_ids(layers))
    try:
        fed = str(list(trainer.ids_to_boundaries(None, layers)))
    except UserError as error:
        fed = prose(error.message)
    return [str(layers), str(ids).replace("[", "\\["), fed.replace("[", "\\[")]
