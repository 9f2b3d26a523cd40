"""``contract show``."""

from __future__ import annotations

import msgspec

from contract.answers import Answer
from contract.requests import ShowRequest
from eagle3_contract.model.load import load_contract
from eagle3_contract.show import show as render


def show(request: ShowRequest) -> Answer:
    """A contract in words, with its data flow."""
    loaded = load_contract(request.spec)
    return Answer(text=render(loaded.contract, title=request.spec), data=msgspec.to_builtins(loaded.contract))
