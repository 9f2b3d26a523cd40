"""Drafter families. A kind is found through the entry point group ``contract.kinds`` and brings the bodies of its commands.

The object behind the entry point must be cheap to import: ``contract --help`` loads it to see which commands it has. A body imports what
it needs when it is called. See docs/adr/0002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from contract import requests
from contract.answers import Result
from contract.errors import InternalError, ToolError, UsageError
from contract.findings import Json, Rule

if TYPE_CHECKING:
    from contract.source.document import Document

GROUP: Final = "contract.kinds"

COMMANDS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "init": requests.InitRequest,
        "show": requests.ShowRequest,
        "check": requests.CheckRequest,
        "read": requests.ReadRequest,
        "capture": requests.CaptureRequest,
        "draft": requests.DraftRequest,
        "verify": requests.VerifyRequest,
        "diff": requests.DiffRequest,
        "export": requests.ExportRequest,
        "card": requests.CardRequest,
        "demo": requests.DemoRequest,
    }
)
"""Commands whose bodies a kind brings, and the type of their requests."""


@runtime_checkable
class Kind(Protocol):
    """One drafter family.

    Besides these members a kind has a method for every command of ``COMMANDS`` that it offers, named as the command, which takes the
    request and returns a ``Report`` or an ``Answer``. It raises ``UserError`` for what the user can mend, and may turn a
    ``KeyboardInterrupt`` into a report with ``complete=False``. A command without a body is not listed by the command line.

    It may have ``environment(python) -> (data, lines)`` for ``contract doctor``: which engines and devices an interpreter (None: this
    one) has, asked in a process of its own, as JSON and as text.
    """

    @property
    def name(self) -> str:
        """The value of ``kind:`` in a contract."""

    @property
    def title(self) -> str:
        """The family in one line."""

    def rules(self) -> Sequence[Rule]:
        """Every rule of this kind, for ``contract explain``."""

    def contract_struct(self) -> type:
        """The msgspec Struct of the contract file."""


Body: TypeAlias = Callable[[Any], Result]


def kind_names() -> list[str]:
    """The installed kinds; none of them is imported."""
    return sorted(_entry_points())


def load_kind(name: str) -> Kind:
    """An installed kind.

    Raises:
        UsageError: there is none of that name.
        ToolError: its package is broken.
    """
    found = _entry_points()
    if name not in found:
        near = get_close_matches(name, found, n=1)
        raise UsageError(
            f"no installed package brings the kind {name!r}; installed: {', '.join(sorted(found)) or 'none'}",
            rule="contract.kind",
            fix=f"Did you mean {near[0]}?" if near else "Install the package that brings the kind.",
        )
    try:
        kind = found[name].load()
    except Exception as error:
        raise ToolError(
            f"the kind {name!r} cannot be imported: {error}",
            rule="tool.kind-broken",
            fix=f"Reinstall the package behind the entry point {found[name].value}; `contract doctor` shows what is installed.",
        ) from error
    if not isinstance(kind, Kind):
        raise InternalError(f"{found[name].value} is no contract.kinds.Kind")
    return kind


def load_kinds() -> list[Kind]:
    """Every installed kind. Raises like ``load_kind``."""
    return [load_kind(name) for name in kind_names()]


def provides(kind: Kind, command: str) -> bool:
    """Whether a kind has a body for a command of ``COMMANDS``."""
    return callable(getattr(kind, command, None))


def execute(kind: Kind, request: requests.Request) -> Result:
    """Run the command that a request belongs to.

    Raises:
        UsageError: the kind has no body for it.
    """
    command = next(name for name, type_ in COMMANDS.items() if isinstance(request, type_))
    if not provides(kind, command):
        raise UsageError(
            f"the kind {kind.name!r} has no command {command!r}",
            rule="cli.command-not-provided",
            fix=f"Commands of this kind: {', '.join(c for c in COMMANDS if provides(kind, c))}.",
        )
    return cast(Body, getattr(kind, command))(request)


def kind_of_spec(path: str) -> Kind:
    """The kind that a contract file names; the file may be in a repository of the Hub (contract.inputs).

    Raises:
        InputRejected: the file is no contract, or its kind is not installed.
    """
    from contract.inputs import local_inputs
    from contract.source.document import read_yaml

    with local_inputs(requests.ShowRequest(spec=path)) as (local, _):
        return kind_of_document(read_yaml(local.spec))


def kind_of_document(document: Document) -> Kind:
    """The kind that a parsed contract names. Raises like ``kind_of_spec``."""
    from contract.source.header import read_header

    return load_kind(read_header(document, kinds=kind_names()).kind)


def default_kind(name: str | None = None) -> Kind:
    """The kind of a command that has no contract: the one named, or the only one installed.

    Raises:
        UsageError: several are installed and none is named, or none is installed.
    """
    if name is not None:
        return load_kind(name)
    names = kind_names()
    if len(names) != 1:
        raise UsageError(
            f"{len(names)} kinds are installed: {', '.join(names) or 'none'}",
            rule="contract.kind",
            fix="Name one with --kind." if names else "Install eagle3-contract, which brings the kind eagle3.",
        )
    return load_kind(names[0])


def contract_schema(kind: Kind) -> dict[str, Json]:
    """The JSON Schema of a kind's contract file, for editors."""
    from contract.source.header import NEWEST_SCHEMA_VERSION
    from contract.structs.schema import json_schema

    return json_schema(
        kind.contract_struct(),
        id=f"urn:eagle3-contract:contract:{kind.name}:{NEWEST_SCHEMA_VERSION}",
        title=f"Contract of the kind {kind.name}, version {NEWEST_SCHEMA_VERSION}",
    )


def waivers_schema() -> dict[str, Json]:
    """The JSON Schema of the waivers file, for editors."""
    from contract.structs.schema import json_schema
    from contract.waivers.model import WaiverFile

    return json_schema(WaiverFile, id="urn:eagle3-contract:waivers:1", title="Waivers of a contract, version 1")


def policy_schema() -> dict[str, Json]:
    """The JSON Schema of the policy file, for editors."""
    from contract.policy.model import PolicyFile
    from contract.structs.schema import json_schema

    return json_schema(PolicyFile, id="urn:eagle3-contract:policy:1", title="Organisation policy, version 1")


@lru_cache(maxsize=1)
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
