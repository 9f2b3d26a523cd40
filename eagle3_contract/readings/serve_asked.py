"""What was asked for with a flag, beside what takes effect; and which flags were given for which engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from contract.errors import UsageError
from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.readings.serve_args import parse_serve_args

FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "sglang": {
        "serve.algorithm": "speculative_algorithm",
        "serve.steps": "speculative_num_steps",
        "serve.topk": "speculative_eagle_topk",
        "serve.draft_tokens": "speculative_num_draft_tokens",
        "serve.context_length": "context_length",
        "serve.token_map": "speculative_token_map",
        "serve.max_running_requests": "max_running_requests",
    },
    "vllm": {
        "serve.method": "speculative_config.method",
        "serve.draft_tokens": "speculative_config.num_speculative_tokens",
        "serve.max_model_len": "max_model_len",
        "serve.parallel_drafting": "speculative_config.parallel_drafting",
    },
}
"""Effective field to the flag that asks for it, by engine."""


def flag_value(flags: Mapping[str, Any], name: str) -> Any:
    """The value of a flag by its dotted name; MISSING if it was not given."""
    at: Any = flags
    for part in name.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return MISSING
        at = at[part]
    return at


def asked(reading: EngineReading, field: str) -> tuple[str, Any]:
    """The flag behind an effective field and what was asked for; MISSING if nothing was, or if no flag is behind it."""
    name = FLAGS.get(reading.engine, {}).get(field, "")
    return name, flag_value(reading.asked, name) if name else MISSING


def flag_text(name: str) -> str:
    """``speculative_num_steps`` as it is typed: ``--speculative-num-steps``."""
    head, dot, rest = name.partition(".")
    return f"--{head.replace('_', '-')}{dot}{rest}"


def flags_for(engine: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The flags that were given for an engine, under its full reference or its bare name.

    Raises:
        UserError: they cannot be read (``parse_serve_args``).
    """
    arguments = given.get(engine, given.get(bare(engine)))
    return {} if arguments is None else parse_serve_args(engine, arguments)


def bare(engine: str) -> str:
    """``vllm[v2]==0.32.0`` -> ``vllm``."""
    return engine.partition("==")[0].partition("[")[0]


def refuse_unmatched(engines: Iterable[str], given: Mapping[str, str]) -> None:
    """Flags for an engine that is not read would be ignored in silence.

    Raises:
        UsageError: rule ``flags.no-engine``.
    """
    names = {n for e in engines for n in (e, bare(e))}
    lost = sorted(given.keys() - names)
    if lost:
        raise UsageError(
            f"--serve-args for {', '.join(lost)}, which no --engine names",
            rule="flags.no-engine",
            fix=f"Add --engine {lost[0]}, or write the arguments for an engine that is read: {', '.join(sorted(names)) or 'none is'}.",
        )
