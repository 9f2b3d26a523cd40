"""The Python API: the commands as functions with typed results. ``from contract import check, verify, capture, read``.

Nothing is printed. What a command line would exit with is ``Report.exit_code``; what could not be used at all raises ``UserError``, or is
a rejected check in the report, exactly as on the command line. Policies and waivers hold here too (contract.gate).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from contract.answers import Answer
from contract.errors import InternalError, UsageError, UserError
from contract.findings import Json
from contract.gate import judge
from contract.kinds import default_kind, kind_of_spec
from contract.policy.load import policy_files
from contract.report import render
from contract.reporting import Report
from contract.requests import CaptureRequest, CheckRequest, Executor, Integrity, ReadRequest, Run, VerifyRequest
from contract.settings.effective import configured_policies, effective

PathLike: TypeAlias = str | os.PathLike[str]
_NO_ARGUMENTS: Mapping[str, str] = MappingProxyType({})


class NotKept(UserError):
    """A contract is not kept. ``report`` has every check; the message is the report as text."""

    def __init__(self, report: Report) -> None:
        super().__init__(
            render(report, "text"),
            rule="api.not-kept",
            fix="See the findings of the report.",
        )
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadField:
    """One value that an engine will use, and where it comes from. ``value`` means something only if ``known``."""

    name: str
    value: Json
    known: bool
    origin: str
    key: str | None
    looked_for: Sequence[str]
    rule: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """What one engine makes of a drafter.

    ``tensors`` maps a name to what becomes of it; ``data`` is the whole JSON of ``contract read``.
    """

    engine: str
    runner: str | None
    version: str
    outcome: str
    error: str | None
    fields: Mapping[str, ReadField]
    tensors: Mapping[str, str]
    ignored_keys: Sequence[str]
    data: Mapping[str, Json]

    def __getitem__(self, name: str) -> Json:
        """The value of a known field.

        Raises:
            KeyError: the engine has no such field, or what it will use is not known.
        """
        field = self.fields[name]
        if not field.known:
            raise KeyError(f"{name} is not known: {field.rule}")
        return field.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A bundle that was written: how many requests and tokens it has, which engine wrote it, and the states that it fed, in order.

    ``data`` is the whole JSON of ``contract capture``.
    """

    bundle: str
    requests: int
    tokens: int
    engine: str
    recipe_fed: Sequence[int | str]
    data: Mapping[str, Json]


def check(
    spec: PathLike,
    *,
    engines: Iterable[str] = (),
    target: PathLike | None = None,
    serve_args: Mapping[str, str] = _NO_ARGUMENTS,
    samples: PathLike | None = None,
    integrity: Integrity = "headers",
    policies: Iterable[PathLike] = (),
) -> Report:
    """``contract check``: the drafter's files, and each engine's reading of them, against the contract. Imports torch for samples only.

    Args:
        spec: the contract file; its waivers lie beside it.
        engines: such as ``sglang==0.5.23`` or ``vllm[v2]==0.32.0``.
        target: the target's folder or config.json.
        serve_args: server command lines by engine.
        samples: training samples that are run as each engine would run them.
        integrity: how much of the weights is read.
        policies: organisation policies, besides those of the environment and of the project's configuration.

    Raises:
        UserError: the contract names no installed kind, a policy cannot be used.
    """
    request = CheckRequest(
        spec=os.fspath(spec),
        engines=tuple(engines),
        target=_path(target),
        serve_args=dict(serve_args),
        samples=_path(samples),
        integrity=integrity,
    )
    return _judged(request, policies)


def verify(
    spec: PathLike,
    *,
    samples: PathLike | None = None,
    capture: PathLike | None = None,
    engine: str | None = None,
    server: str | None = None,
    prompts: PathLike | None = None,
    max_new_tokens: int | None = None,
    engine_python: PathLike | None = None,
    runs: Iterable[Run] = (),
    dtype: str | None = None,
    target: PathLike | None = None,
    serve_args: Mapping[str, str] = _NO_ARGUMENTS,
    device: str = "auto",
    executor: Executor = "local",
    workers: int | None = 1,
    resume: PathLike | None = None,
    integrity: Integrity = "headers",
    allow_pickle: bool = False,
    policies: Iterable[PathLike] = (),
) -> Report:
    """``contract verify``: the training path against the inference path. Needs torch.

    Args:
        spec: the contract file; its waivers lie beside it.
        samples: training samples; those of the contract if None.
        capture: a capture bundle. engine: capture now, from this engine (then ``target`` is needed). server: the URL of a running server,
            which needs no torch where ``prompts`` are given. One of the three.
        prompts, max_new_tokens: for an engine or a server: a file of prompts, and how many tokens each is continued by.
        engine_python, runs, dtype: for an engine: the interpreter of the environment that has it, the circumstances in which each prompt
            is run besides the plain one, and what it computes in (None: the contract's).
        target: the target's folder.
        serve_args: server command lines by engine.
        device: ``auto``, ``cpu``, ``cuda`` ...
        executor, workers, resume: for the training path alone, without a capture or an engine: where samples are measured, by how many
            processes (None: as many as pay; more than one needs a main module that can be imported again), and a journal of what was
            measured.
        integrity: how much of the weights is read by the static checks.
        allow_pickle: read pickle-based samples too, in a child process with limits.
        policies: as for ``check``.

    Raises:
        UserError: as ``check``; rule ``cli.not-together`` for two of ``capture``, ``engine`` and ``server``, for ``workers``, ``resume`` or
            ``executor`` with one of them, for ``prompts`` or ``max_new_tokens`` without an engine or a server, and for ``engine_python``,
            ``runs`` or ``dtype`` without an engine.
    """
    asked = _runs(runs)
    given = [source for source in (capture, engine, server) if source is not None]
    if len(given) > 1:
        raise UsageError("capture, engine and server are given together", rule="cli.not-together", fix="Give one of them.")
    if given and (workers not in (None, 1) or resume is not None or executor != "local"):
        raise UsageError(
            "workers, resume and executor are for the training path alone, without capture, engine and server",
            rule="cli.not-together",
            fix="Leave them out.",
        )
    if engine is None and server is None and (prompts is not None or max_new_tokens is not None):
        raise UsageError("prompts and max_new_tokens are for an engine or a server", rule="cli.not-together", fix="Leave them out.")
    if engine is None and (engine_python is not None or asked or dtype is not None):
        raise UsageError("engine_python, runs and dtype are for an engine", rule="cli.not-together", fix="Name it with engine.")
    request = VerifyRequest(
        spec=os.fspath(spec),
        samples=_path(samples),
        capture=_path(capture),
        engine=engine,
        server=server,
        prompts=_path(prompts),
        max_new_tokens=max_new_tokens,
        engine_python=_path(engine_python),
        runs=asked,
        dtype=dtype,
        target=_path(target),
        serve_args=dict(serve_args),
        device=device,
        executor=executor,
        workers=workers,
        resume=_path(resume),
        integrity=integrity,
        allow_pickle=allow_pickle,
    )
    return _judged(request, policies)


def capture(
    spec: PathLike,
    *,
    engine: str,
    target: PathLike,
    out: PathLike,
    prompts: PathLike | None = None,
    samples: PathLike | None = None,
    spool: PathLike | None = None,
    max_requests: int | None = None,
    max_rows: int | None = None,
    imitate: str | None = None,
    serve_args: Mapping[str, str] = _NO_ARGUMENTS,
    engine_python: PathLike | None = None,
    max_new_tokens: int | None = None,
    runs: Iterable[Run] = (),
    dtype: str | None = None,
    device: str = "auto",
    allow_pickle: bool = False,
) -> Capture:
    """``contract capture``: run the target in an engine and record what the engine feeds the drafter. Needs torch.

    Args:
        spec: the contract file.
        engine: ``transformers``, or ``vllm`` or ``sglang``, with a version or without.
        target: the target's folder.
        out: the bundle to write, a free name or an empty folder.
        prompts, samples, spool: what is run: a file of prompts, or the tokens of training samples; or what the plugin recorded in a server,
            of which a bundle is made. One of the three.
        max_requests, max_rows: how much of a spool is kept.
        imitate: feed what this engine would feed (transformers only).
        serve_args: server command lines by engine.
        engine_python, max_new_tokens, runs, dtype: how vLLM or SGLang is run, as for ``verify``.
        device: ``auto``, ``cpu``, ``cuda`` ...
        allow_pickle: read pickle-based samples too, in a child process with limits.

    Raises:
        UserError: the engine, the target, the prompts or the place cannot be used; rule ``cli.not-together`` for not exactly one of
            ``prompts``, ``samples`` and ``spool``, and for arguments that mean nothing to a spool, or to anything else.
    """
    asked = _runs(runs)
    if sum(given is not None for given in (prompts, samples, spool)) != 1:
        raise UsageError("not one of prompts, samples and spool is given", rule="cli.not-together", fix="Give one of them.")
    if spool is None and (max_requests is not None or max_rows is not None):
        raise UsageError("max_requests and max_rows are for a spool", rule="cli.not-together", fix="Leave them out.")
    if spool is not None and (imitate or engine_python is not None or max_new_tokens is not None or asked or dtype):
        raise UsageError(
            "imitate, engine_python, max_new_tokens, runs and dtype mean nothing to a spool", rule="cli.not-together", fix="Leave them out."
        )
    request = CaptureRequest(
        spec=os.fspath(spec),
        engine=engine,
        target=os.fspath(target),
        out=os.fspath(out),
        prompts=_path(prompts),
        samples=_path(samples),
        spool=_path(spool),
        max_requests=max_requests,
        max_rows=max_rows,
        imitate=imitate,
        serve_args=dict(serve_args),
        engine_python=_path(engine_python),
        max_new_tokens=max_new_tokens,
        runs=asked,
        dtype=dtype,
        device=device,
        allow_pickle=allow_pickle,
    )
    answer = judge(kind_of_spec(request.spec), request)
    if not isinstance(answer, Answer) or not isinstance(answer.data, dict):
        raise InternalError("`capture` answers, it does not report")
    data: dict[str, Any] = answer.data
    return Capture(
        bundle=request.out,
        requests=data["requests"],
        tokens=data["tokens"],
        engine=data["engine"],
        recipe_fed=tuple(data["recipe_fed"]),
        data=data,
    )


def read(
    drafter: PathLike,
    *,
    engines: Iterable[str],
    target: PathLike | None = None,
    serve_args: Mapping[str, str] = _NO_ARGUMENTS,
    kind: str | None = None,
) -> list[EngineReading]:
    """``contract read``: what each engine makes of a checkpoint; one reading per engine and runner. No contract is needed, and no torch.

    Raises:
        UserError: an engine is not known, a file cannot be read.
    """
    request = ReadRequest(drafter=os.fspath(drafter), engines=tuple(engines), target=_path(target), serve_args=dict(serve_args))
    answer = judge(default_kind(kind), request)
    if not isinstance(answer, Answer):
        raise InternalError("`read` answers, it does not report")
    return [_reading(data) for data in (answer.data if isinstance(answer.data, list) else [answer.data])]


def require_kept(report: Report) -> Report:
    """The report, if its contract is kept.

    Raises:
        NotKept: it is violated, unknown, or something could not be used.
    """
    if int(report.exit_code) != 0:
        raise NotKept(report)
    return report


def _judged(request: CheckRequest | VerifyRequest, policies: Iterable[PathLike]) -> Report:
    given = [os.fspath(name) for name in policies]
    result = judge(kind_of_spec(request.spec), request, policies=lambda: policy_files(given, settings=configured_policies(effective())))
    if not isinstance(result, Report):
        raise InternalError(f"the kind answered {type(request).__name__} without a report")
    return result


def _runs(runs: Iterable[Run]) -> tuple[str, ...]:
    """A text is one word or several with commas between them, as on the command line."""
    return tuple(w.strip() for w in runs.split(",")) if isinstance(runs, str) else tuple(runs)


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)


def _reading(data: Mapping[str, Any]) -> EngineReading:
    fields = [
        ReadField(
            name=item["field"],
            value=item["value"],
            known=item["known"],
            origin=item["origin"],
            key=item["key"],
            looked_for=tuple(item["looked_for"]),
            rule=item["rule"],
            source=item["source"],
        )
        for item in data["fields"]
    ]
    return EngineReading(
        engine=data["engine"],
        runner=data["runner"],
        version=data["version"],
        outcome=data["outcome"],
        error=data["error"],
        fields={field.name: field for field in fields},
        tensors={tensor["name"]: tensor["fate"] for tensor in data["tensors"]},
        ignored_keys=tuple(data["ignored_keys"]),
        data=data,
    )
