"""Engine references (``vllm[v2]==0.32.0``), and ``read``: one drafter, every engine and runner that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contract.errors import UsageError
from contract.files.names import shown
from eagle3_contract.readings.interpreter import execute
from eagle3_contract.readings.profiles import PROFILES
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.readings.rules import Profile
from eagle3_contract.readings.versions import parse_version, within
from eagle3_contract.readings.view import DrafterView, Target

_REFERENCE = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9._-]*?)(?:\[(?P<runner>[A-Za-z0-9_-]+)\])?(?:==(?P<version>[0-9A-Za-z._-]+))?")


@dataclass(frozen=True, slots=True)
class EngineRef:
    """An engine, perhaps one of its runners, perhaps a version (None: the newest one that was read)."""

    name: str
    runner: str | None = None
    version: str | None = None

    def __str__(self) -> str:
        return self.name + (f"[{self.runner}]" if self.runner else "") + (f"=={self.version}" if self.version else "")


def known_engines() -> tuple[str, ...]:
    """Every engine in the table with its runners and the releases that were read: ``vllm[v1|v2] 0.9.0 to 0.32.0``."""
    return tuple(_described(p) for p in PROFILES.values())


def _described(profile: Profile) -> str:
    spans = ", ".join(first if first == last else f"{first} to {last}" for first, last in profile.spans)
    runners = f"[{'|'.join(profile.runners)}]" if profile.runners else ""
    return f"{profile.engine}{runners} {spans}"


def _unknown(message: str) -> UsageError:
    return UsageError(message, rule="engines.unknown", fix="Use one of: " + "; ".join(known_engines()))


def parse_engine(text: str) -> EngineRef:
    """``sglang``, ``sglang==0.5.23``, ``vllm[v2]==0.32.0``.

    Raises:
        UsageError: rule ``engines.unknown``: no such engine, runner or version in the table; the remedy lists what is known.
    """
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise _unknown(f"{shown(repr(text))} is no engine reference (NAME[RUNNER]==VERSION)")
    name, runner, version = match["name"].lower(), match["runner"], match["version"]
    profile = PROFILES.get(name)
    if profile is None:
        raise _unknown(f"no engine is called {shown(repr(match['name']))}")
    if runner is not None and runner not in profile.runners:
        raise _unknown(
            f"{name} has no runner {shown(repr(runner))}" + (f" (it has {', '.join(profile.runners)})" if profile.runners else "")
        )
    if version is not None:
        parsed = parse_version(version)
        if parsed is None or not within(parsed, profile.spans):
            raise _unknown(f"{name} {shown(version)} is not in the table: {_described(profile)}")
    return EngineRef(name, runner, version)


def read(
    view: DrafterView, engine: EngineRef | str, target: Target | Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None
) -> list[EngineReading]:
    """What an engine makes of a drafter; one reading per runner if the reference names none.

    Args:
        view: the drafter.
        engine: a reference or its text.
        target: the target's config.json, or None: what depends on it is then unknown.
        flags: serving flags as the engine's Python API names them; absent ones were not given.

    Raises:
        UsageError: the engine is not in the table.
    """
    ref = parse_engine(str(engine))
    profile = PROFILES[ref.name]
    version = ref.version or profile.spans[-1][1]
    parsed = parse_version(version)
    if parsed is None:
        raise _unknown(f"{version!r} is no version")
    seen = target if target is None or isinstance(target, Target) else Target(target)
    runners: tuple[str | None, ...] = (ref.runner,) if ref.runner or not profile.runners else _runners(profile, parsed)
    return [execute(profile, version, parsed, runner, view, seen, flags or {}) for runner in runners]


def _runners(profile: Profile, parsed: tuple[int, ...]) -> tuple[str | None, ...]:
    """The runners that exist at this version: those for which some rule of capture holds."""
    return tuple(r for r in profile.runners if any(rule.holds(parsed, r) for rule in profile.capture.ids))
