"""Find and read policy files, and join them: of several, the strictest bound counts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contract.findings import Json
from contract.limits import DEFAULT_LIMITS, Limits
from contract.policy.model import PolicyFile
from contract.requests import Integrity
from contract.source import parse_yaml
from contract.source.text import read_bytes
from contract.structs import load_typed
from contract.waivers.patterns import POLICY_PATTERNS, enforce_patterns

SYSTEM_FILE: Final = Path("/etc/eagle3-contract/policy.yaml")
VARIABLE: Final = "CONTRACT_POLICY"
DEPTHS: Final[tuple[Integrity, ...]] = ("headers", "values", "digests")
"""Of reading, shallowest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All policy files that apply, joined. Without a file nothing is restricted.

    Attributes:
        tolerances: ceilings, by name.
        integrity: least depth of reading.
        forbidden: patterns of rules that no waiver may cover.
        max_days: how many days from today a waiver may run.
        limits: the limits, lowered.
        sources: path and digest of every file.
    """

    tolerances: Mapping[str, float] = field(default_factory=dict)
    integrity: Integrity = "headers"
    forbidden: Sequence[str] = ()
    max_days: int | None = None
    limits: Limits = DEFAULT_LIMITS
    sources: Sequence[Mapping[str, Json]] = ()


def policy_files(flags: Iterable[str] = (), *, settings: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> list[str]:
    """Every policy file that applies. They add up: a flag adds a policy, it never replaces one.

    A file that is named must exist; the system's file applies if it is there.
    """
    variables = os.environ if environ is None else environ
    system = [str(SYSTEM_FILE)] if os.path.lexists(SYSTEM_FILE) else []
    named = [name for name in variables.get(VARIABLE, "").split(os.pathsep) if name]
    return list(dict.fromkeys([*system, *named, *settings, *flags]))


def load_policy(files: Iterable[str]) -> Policy:
    """The policy of several files.

    Raises:
        InputRejected: a file cannot be read, or is no strict YAML.
        LimitExceeded: also a pattern is longer than ``regex_length``.
        SpecInvalid: a file does not say what a policy says.
        UsageError: it names a limit that does not exist, or one that would be raised.
    """
    policy = Policy()
    for name in files:
        data = read_bytes(name, file=name)
        document = parse_yaml(data, file=name)
        enforce_patterns(document, POLICY_PATTERNS, policy.limits)
        policy = _joined(policy, load_typed(document, PolicyFile), {"file": name, "sha256": hashlib.sha256(data).hexdigest()})
        enforce_patterns(document, POLICY_PATTERNS, policy.limits)  # the file's own limits are its own too
    return policy


def _joined(policy: Policy, more: PolicyFile, source: Mapping[str, Json]) -> Policy:
    ceilings = dict(policy.tolerances)
    for name, ceiling in more.tolerances.items():
        ceilings[name] = min(ceiling, ceilings.get(name, ceiling))
    days = [d for d in (policy.max_days, more.waivers.max_days) if d is not None]
    # A limit that another policy has lowered further already stays where it is; one above the default is an error.
    DEFAULT_LIMITS.lowered(**more.limits)
    lower = {name: value for name, value in more.limits.items() if value < getattr(policy.limits, name)}
    return Policy(
        tolerances=ceilings,
        integrity=max(policy.integrity, more.integrity or "headers", key=DEPTHS.index),
        forbidden=tuple(dict.fromkeys([*policy.forbidden, *more.waivers.forbidden])),
        max_days=min(days) if days else None,
        limits=policy.limits.lowered(**lower),
        sources=(*policy.sources, source),
    )
