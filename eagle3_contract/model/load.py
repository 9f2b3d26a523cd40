"""A contract file as a typed ``Contract``, with the document that knows where everything was said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contract.limits import DEFAULT_LIMITS, Limits
from contract.source import Document, read_yaml
from contract.source.header import read_header
from contract.structs import load_typed
from eagle3_contract.model.spec import Contract

KIND = "eagle3"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedContract:
    """A contract and its text. ``folder`` is where its relative paths start."""

    contract: Contract
    document: Document
    path: Path

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def drafter_folder(self) -> Path:
        """The drafter's folder."""
        return self.folder / self.contract.drafter.path


def load_contract(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> LoadedContract:
    """Read, parse and type one contract file.

    Raises:
        InputRejected: it cannot be read, is no strict YAML, has another kind or a newer schema version.
        SpecInvalid: it is strict YAML and no contract; every problem is in ``problems``.
    """
    document = read_yaml(path, limits=limits)
    read_header(document, kinds=(KIND,))
    return LoadedContract(contract=load_typed(document, Contract), document=document, path=Path(path))
