"""``contract card``."""

from __future__ import annotations

from contract.answers import Answer
from contract.requests import CardRequest
from eagle3_contract.card.section import section
from eagle3_contract.card.serving import on_engines
from eagle3_contract.model.load import load_contract


def card(request: CardRequest) -> Answer:
    """The section of a model card. Imports no torch.

    Raises:
        UserError: the contract cannot be read, or an engine is not known.
    """
    loaded = load_contract(request.spec)
    engines = on_engines(request.spec, loaded.contract, request.engines, request.target)
    return Answer(
        text=section(loaded.contract, engines, spec=loaded.path.name),
        data={
            "engines": [
                {
                    "engine": e.reader,
                    "as_trained": e.as_trained,
                    "command": e.command,
                    "differs": list(e.differs),
                    "open": list(e.open),
                }
                for e in engines
            ]
        },
    )
