"""What each command asks a kind to do. Paths are as the user gave them; nothing has been opened yet.

An engine is named ``NAME[RUNNER]==VERSION``, runner and version optional. ``serve_args`` maps such a name to a server command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from contract.limits import DEFAULT_LIMITS, Limits

Integrity: TypeAlias = Literal["headers", "values", "digests"]
Executor: TypeAlias = Literal["local", "ray"]
Run: TypeAlias = Literal["plain", "again", "batched", "cached", "chunked", "all"]
"""Circumstances in which a running engine is given its prompts; ``plain`` is always among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """``contract init``: write a contract for a drafter. ``settings`` are the answers given with ``--set``."""

    drafter: str
    trainer: str = "auto"
    samples: str | None = None
    target: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    out: str = "contract.yaml"
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRequest:
    """``contract show``: a contract in words."""

    spec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """``contract check``: files, and the engines' reading of them, against the contract.

    ``limits`` and ``ceilings`` are the organisation's (contract.policy): limits on what is read, and the largest value of each of the
    contract's tolerances. They only ever tighten. ``samples`` are run under each engine's reading, to say what a difference costs.
    """

    spec: str
    engines: tuple[str, ...] = ()
    target: str | None = None
    samples: str | None = None
    serve_args: Mapping[str, str] = field(default_factory=dict)
    integrity: Integrity = "headers"
    allow_pickle: bool = False
    limits: Limits = DEFAULT_LIMITS
    ceilings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """``contract read``: what engines make of a checkpoint; no contract needed."""

    drafter: str
    engines: tuple[str, ...]
    target: str | None = None
    serve_args: Mapping[str, str] = field(default_factory=dict)
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """``contract capture``: record what a running engine feeds the drafter. ``imitate`` names an engine whose reading decides it.

    ``engine_python`` is the interpreter of the engine's environment, ``max_new_tokens`` how many tokens each prompt gets, ``runs`` under
    which circumstances each is run besides the plain one, ``dtype`` what the engine computes in; None and empty stand for the engine's
    own. ``spool`` is what a server's plugin recorded: then nothing is run, and at most ``max_requests`` with ``max_rows`` tokens each are
    kept.
    """

    spec: str
    engine: str
    target: str
    out: str
    prompts: str | None = None
    samples: str | None = None
    spool: str | None = None
    max_requests: int | None = None
    max_rows: int | None = None
    imitate: str | None = None
    serve_args: Mapping[str, str] = field(default_factory=dict)
    engine_python: str | None = None
    max_new_tokens: int | None = None
    runs: tuple[str, ...] = ()
    dtype: str | None = None
    device: str = "auto"
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """``contract draft``: the drafter alone, on given states. ``wiring`` is ``training`` or an engine."""

    drafter: str
    inputs: str
    out: str
    target: str | None = None
    steps: int = 1
    wiring: str = "training"
    spec: str | None = None
    device: str = "auto"
    allow_pickle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """``contract verify``: training path against inference path. ``integrity``, ``limits`` and ``ceilings`` as in ``CheckRequest``.

    ``engine_python``, ``max_new_tokens``, ``runs`` and ``dtype`` are for ``engine``, as in ``CaptureRequest``; ``prompts`` is a file of
    prompts to run instead of the samples. ``workers`` and ``resume`` are for the training path alone: how many processes measure samples
    (None: as many as pay), and a journal of what was measured. More than one needs a main module that can be imported again
    (``if __name__ == "__main__":``).
    """

    spec: str
    samples: str | None = None
    capture: str | None = None
    engine: str | None = None
    target: str | None = None
    server: str | None = None
    prompts: str | None = None
    serve_args: Mapping[str, str] = field(default_factory=dict)
    engine_python: str | None = None
    max_new_tokens: int | None = None
    runs: tuple[str, ...] = ()
    dtype: str | None = None
    device: str = "auto"
    executor: Executor = "local"
    workers: int | None = 1
    resume: str | None = None
    fail_fast: bool = False
    allow_pickle: bool = False
    integrity: Integrity = "headers"
    limits: Limits = DEFAULT_LIMITS
    ceilings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """``contract diff``: two contracts, each a file or ``git:REV:path``."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """``contract export``: the drafter's folder as each engine must find it to do what training did.

    ``permute_fc`` allows to move fc's columns where engines feed the states in another order.
    """

    spec: str
    engines: tuple[str, ...]
    out: str
    target: str | None = None
    permute_fc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequest:
    """``contract card``: what a model card says about the drafter. ``engines`` are those to serve on; empty for all that are read."""

    spec: str
    engines: tuple[str, ...] = ()
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """``contract demo``: the embedded pair. ``keep`` is a folder to leave the files in; None for a temporary one."""

    keep: str | None = None


Request: TypeAlias = (
    InitRequest
    | ShowRequest
    | CheckRequest
    | ReadRequest
    | CaptureRequest
    | DraftRequest
    | VerifyRequest
    | DiffRequest
    | ExportRequest
    | CardRequest
    | DemoRequest
)
