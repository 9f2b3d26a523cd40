"""What a server says of itself, what it is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from contract.files.names import shown
from contract.findings import Json
from eagle3_contract.verify.engine_runs.definitions import Counts

TOKENS_LIMIT: Final = 2**31
"""Token ids, and numbers of tokens, lie below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Token ids to send. ``sample`` names the training sample whose prompt this is; ``follows`` are that sample's further tokens."""

    id: str
    input_ids: Sequence[int]
    sample: str | None = None
    follows: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What the server shows. Every text is as the server sent it; what it does not show is None.

    Attributes:
        engine: ``vllm`` or ``sglang``.
        version: without a local part: ``0.32.0``.
        model: the name under which it answers.
        model_path: where it loaded the target from.
        model_type: of the target's config.json.
        drafter: where it loaded the drafter from.
        max_length: tokens of prompt and answer together.
        speculates: whether it drafts; None where only its counters show that.
        algorithm: what it calls its way of drafting.
        steps, topk, draft_tokens: as it runs them (``draft_tokens`` with the verified token, as SGLang and the contract count).
        flags: serving flags as a reading takes them.
        notes: what bends greedy acceptance, in words.
    """

    engine: str
    version: str
    model: str | None = None
    model_path: str | None = None
    model_type: str | None = None
    drafter: str | None = None
    max_length: int | None = None
    speculates: bool | None = None
    algorithm: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def name(self) -> str:
        """``vllm==0.32.0``."""
        return f"{self.engine}=={shown(self.version)}"

    def as_json(self) -> dict[str, Json]:
        """For the report; the flags are not in it, for some engines list their keys among them."""
        names = ("engine", "version", "model", "model_path", "drafter", "max_length", "algorithm", "steps", "topk", "draft_tokens")
        return {name: getattr(self, name) for name in names}


class Window(StrEnum):
    """What the counters between two readings are."""

    OWN = "own"
    FOREIGN = "foreign"
    STILL = "still"
    RESET = "reset"
    CONTRADICTORY = "contradictory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One answer: how many tokens, which (where the server says), and the verify steps that made them.

    ``counts`` are the verify steps of the window: the request's alone where it is its own, as it always is where the engine counts by
    request, and everybody's where it is foreign; None where the server says nothing of any verify step.
    """

    prompt: Prompt
    tokens: int
    output_ids: Sequence[int]
    counts: Counts | None
    window: Window = Window.OWN
    detail: str = ""


class Server(Protocol):
    """A server whose engine was recognised."""

    @property
    def facts(self) -> ServerFacts:
        """What it shows of itself."""

    def since_start(self) -> float | None:
        """Tokens per verify step over all that it served before it was asked, where it shows that."""

    def ask(self, prompt: Prompt, tokens: int) -> Told:
        """Let it continue a prompt greedily by at most ``tokens`` tokens. Raises UserError."""
