"""A contract file as a typed ``Contract``, with the document that knows where everything was said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contract.errors import InputRejected
from contract.files.names import shown
from contract.files.paths import relative_parts
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
        InputRejected: ``contract.path-escape`` if it names a folder outside its own.
        SpecInvalid: it is strict YAML and no contract; every problem is in ``problems``.
    """
    document = read_yaml(path, limits=limits)
    read_header(document, kinds=(KIND,))
    loaded = LoadedContract(contract=load_typed(document, Contract), document=document, path=Path(path))
    _inside(loaded, "drafter.path", loaded.contract.drafter.path)
    _inside(loaded, "training.samples.path", loaded.contract.training.samples.path)
    return loaded


def _inside(loaded: LoadedContract, key: str, path: str | None) -> None:
    """A folder that a contract names lies in the contract's own; ``.`` is that folder itself."""
    if path is None or path == ".":
        return
    try:
        relative_parts(path)
        outside = not (loaded.folder / path).resolve().is_relative_to(loaded.folder.resolve())
    except (InputRejected, OSError, RuntimeError):  # resolve: the last two for names too long, and for links in a circle
        outside = True
    if outside:
        raise InputRejected(
            f"{key} {shown(path)} leaves the contract's folder",
            rule="contract.path-escape",
            fix="Name a folder below the contract file, without `..`; samples kept elsewhere are given with --samples.",
            where=loaded.document.where(key),
        )
