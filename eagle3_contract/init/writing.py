"""Writing a contract: as text, read back strictly before it takes its name, atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from contract.errors import InternalError
from contract.files.atomic import atomic_write
from contract.findings import Check, Json, Where
from contract.source import parse_yaml
from contract.structs import SpecInvalid, load_typed
from eagle3_contract.init.ledger import Ledger, text_of
from eagle3_contract.init.render import contract_text
from eagle3_contract.init.rules import WRITTEN
from eagle3_contract.init.tree import unfit
from eagle3_contract.model.load import load_contract
from eagle3_contract.model.spec import Contract

TRIES: Final = 3


def write_contract(out: Path, ledger: Ledger, tree_of: Callable[[Ledger], dict[str, Json]], head: Sequence[str]) -> Iterator[Check]:
    """Write the contract that a ledger makes. A value that its field cannot have (a config may hold anything) becomes unknown, with the
    value in the reason.

    Raises:
        InputRejected: ``files.write-failed``.
    """
    text = _valid_text(ledger, tree_of, head)
    atomic_write(out, text)
    written = msgspec.to_builtins(load_contract(out).contract)
    wanted = msgspec.to_builtins(load_typed(parse_yaml(text), Contract))
    if written != wanted:
        raise InternalError(f"{out} does not read back as what was written")
    yield WRITTEN.passed(f"{out} was written and reads back", where=Where(file=str(out)))


def _valid_text(ledger: Ledger, tree_of: Callable[[Ledger], dict[str, Json]], head: Sequence[str]) -> str:
    for path, fact in list(ledger.facts.items()):
        if fact.known and (reason := unfit(fact.value)) is not None:
            ledger.forget(path, reason)
    for _ in range(TRIES):
        text = contract_text(tree_of(ledger), head)
        try:
            load_typed(parse_yaml(text), Contract)
        except SpecInvalid as error:
            _give_up(ledger, error)
        else:
            return text
    raise InternalError("the collected statements make no contract")


def _give_up(ledger: Ledger, error: SpecInvalid) -> None:
    """Turn every statement that its field cannot hold into an unknown one."""
    for problem in error.problems:
        key = (problem.where.key if problem.where is not None else None) or ""
        path = next((p for p in ledger.facts if key == p or key.startswith((f"{p}.", f"{p}["))), None)
        if path is None:
            raise InternalError(f"{key}: {problem.message}") from error
        ledger.forget(path, f"what was found is no value of this field ({text_of(ledger.value(path))}): {problem.message}")
