"""How each engine would serve a drafter: the command line, and whether that engine runs it as training did."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.findings import Check, Status
from contract.requests import CheckRequest
from contract.statement import fact
from eagle3_contract.check.run import check
from eagle3_contract.model.spec import Contract
from eagle3_contract.readings.engines import parse_engine
from eagle3_contract.readings.profiles import PROFILES

TARGET: Final = "TARGET"
DRAFTER: Final = "DRAFTER"
"""Stand for paths that a contract does not know: the reader's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnEngine:
    """One engine. ``reader`` is its full reference; ``differs`` says what it does otherwise than training, ``open`` what is not known."""

    reader: str
    command: str | None
    differs: Sequence[str]
    open: Sequence[str]

    @property
    def as_trained(self) -> bool | None:
        """True if everything required is known to be as in training, None if something is not known."""
        return False if self.differs else None if self.open else True


def on_engines(spec: str, contract: Contract, engines: Sequence[str], target: str | None) -> list[OnEngine]:
    """Every engine asked for, or the newest release of every one that is read.

    Raises:
        UsageError: an engine is not known.
    """
    asked = [str(parse_engine(engine)) for engine in engines] or [f"{name}=={p.spans[-1][1]}" for name, p in PROFILES.items()]
    return [found for engine in asked for found in _on_engine(spec, contract, engine, target)]


def _on_engine(spec: str, contract: Contract, engine: str, target: str | None) -> list[OnEngine]:
    command = serve_command(engine, contract)
    flags = {} if command is None else {engine: command}
    report = check(CheckRequest(spec=spec, engines=(engine,), target=target, serve_args=flags))
    about = [c for c in report.checks if "engine" in c.evidence]
    readers = list(dict.fromkeys(str(c.evidence["engine"]) for c in about))
    refused = [c.message for c in report.checks if c.rejected]
    if refused or not readers:
        return [OnEngine(reader=engine, command=command, differs=(), open=refused or ["nothing was read"])]
    return [
        OnEngine(
            reader=reader,
            command=command,
            differs=[_said(c) for c in about if c.evidence["engine"] == reader and c.status is Status.FAILED],
            open=[c.message for c in about if c.evidence["engine"] == reader and c.status is Status.UNKNOWN and c.required],
        )
        for reader in readers
    ]


def _said(check: Check) -> str:
    return f"{check.message}. {check.fix}" if check.fix else check.message


def serve_command(engine: str, contract: Contract) -> str | None:
    """The command line that serves the drafter with the contract's steps, topk and draft tokens; None for engines other than these two.

    SGLang 0.5.23 srt/server_args.py, vLLM 0.32.0 config/speculative.py (``num_speculative_tokens``).
    """
    name = engine.partition("==")[0].partition("[")[0]
    known, serving = fact(contract.target.id), contract.serving
    target = known.value if known.known else TARGET
    steps, topk, tokens = (fact(stated).value for stated in (serving.steps, serving.topk, serving.draft_tokens))
    if name == "sglang":
        words = ["python", "-m", "sglang.launch_server", "--model-path", target, "--speculative-algorithm", "EAGLE3"]
        words += ["--speculative-draft-model-path", DRAFTER]
        for flag, value in (("num-steps", steps), ("eagle-topk", topk), ("num-draft-tokens", tokens)):
            words += [] if value is None else [f"--speculative-{flag}", str(value)]
        return shlex.join(words)
    if name == "vllm":
        config = {"method": "eagle3", "model": DRAFTER, **({} if steps is None else {"num_speculative_tokens": steps})}
        return shlex.join(["vllm", "serve", target, "--speculative-config", json.dumps(config)])
    return None
