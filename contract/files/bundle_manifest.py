"""The manifest of a capture bundle, and which tensors a request holds (docs/bundle-format.md)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from contract.files.bundle_rules import rejected
from contract.files.names import shown, unsafe
from contract.findings import Json, Where

SCHEMA_VERSION: Final = 1
MANIFEST_FILE: Final = "manifest.json"
ID_LENGTH: Final = 256
INPUT_IDS: Final = "input_ids"
POSITION_IDS: Final = "position_ids"
GREEDY: Final = "greedy"
FINAL_NORM: Final = "final_norm"
_NUMBERED: Final = re.compile(r"(slot|boundary)\.(0|[1-9][0-9]{0,5})")
PREFIX_IDS: Final = "prefix_ids"
FORWARD: Final = re.compile(r"forward\.(0|[1-9][0-9]{0,8})\.([a-z_]{1,32})")
"""Tensor NAME of the k-th forward of the drafter: ``forward.k.NAME``, NAME one of ``FORWARD_TENSORS``."""
FORWARD_TENSORS: Final = (
    *("input_ids", "position_ids", "parents", "logit_rows"),
    *("fc_in", "fc_out", "hidden_in", "final_normed", "state_out", "logits"),
)
"""What may be recorded of a drafter's forward; the first four are I64 vectors, the others float matrices (docs/bundle-format.md)."""
_VECTORS: Final = frozenset(FORWARD_TENSORS[:4])
ROUND_TENSORS: Final = ("round.proposed", "round.parents", "round.emitted")
"""What each round of drafting and verifying proposed and gave: I64 matrices with a row for each round."""
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FLOATS: Final = ("BF16", "F16", "F32", "F64")

StateName: TypeAlias = int | str
"""A boundary number, or the name of another state (``final_norm``)."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All keys are written, all keys are read."""


class EngineInfo(_Strict, frozen=True):
    """Who captured.

    ``mode`` is ``eager`` or ``graph``, ``flags`` the command line or arguments that matter, ``dtype`` the one it computes in; ``tp`` and
    ``pp`` are the sizes of tensor and pipeline parallelism; ``layer_ids`` is what the running engine itself had set, in its own numbering.
    """

    name: str
    version: str
    runner: str | None
    mode: str
    flags: dict[str, str]
    device: str
    dtype: str
    tp: int
    pp: int
    layer_ids: list[int] | None


class ImitatedEngine(_Strict, frozen=True):
    """The engine whose reading decided what was fed, where a reference engine imitates another one."""

    name: str
    version: str | None
    runner: str | None


class ModelInfo(_Strict, frozen=True):
    """A model by what identifies it; ``files`` are digests of its files (``sha256:...``), as many as were taken."""

    id: str | None
    model_type: str | None
    files: dict[str, str]


class TensorInfo(_Strict, frozen=True):
    """Shape, and dtype in the words of safetensors (``BF16``)."""

    shape: tuple[int, ...]
    dtype: str


Phase: TypeAlias = Literal["prefill", "extend", "draft"]


class ForwardInfo(_Strict, frozen=True):
    """One forward of the drafter for one request.

    ``phase`` is ``prefill`` for rows of the prompt (one forward for each chunk), ``extend`` for rows fed from the target's states after it
    verified a round, ``draft`` for rows fed from the drafter's own state. ``round`` counts rounds of drafting from 0: the prefill and the
    drafts that follow it have round 0, the extend after the first verification round 1. ``step`` is 0 for prefill and extend, 1 for the
    first draft forward. ``rows`` is the number of rows that the engine ran for this request.
    """

    phase: Phase
    round: int
    step: int
    rows: int


SEEN_BY_HOOKS: Final = "requests seen by the hooks"
"""``by`` of a count of requests that is not the engine's own: in the bundle are those that were finished and chosen."""


class CountInfo(_Strict, frozen=True):
    """How many were ``recorded``, and how many the engine itself ``counted`` (null where it does not say), ``by`` which counter."""

    recorded: int
    counted: int | None
    by: str | None


class RequestInfo(_Strict, frozen=True):
    """One prompt: its id, its file, T = ``tokens``, the tensors in the file, and the training sample it repeats, if any.

    ``prompt_tokens`` says how many of the tokens (with those of ``prefix_ids``) are the prompt, the rest the engine generated; ``run``
    names the circumstances where one prompt is run several times (``""`` for the plain run; ``again``, ``batched``, ``cached``,
    ``chunked``); ``forwards`` are the drafter's, in their order.
    """

    id: str
    file: str
    tokens: int
    tensors: dict[str, TensorInfo]
    sample: str | None
    prompt_tokens: int
    run: str
    forwards: list[ForwardInfo]


class Manifest(_Strict, frozen=True):
    """The whole manifest. ``recipe_fed`` is what the engine was made to feed (by its own reading or by the imitated one).

    ``counts`` holds a ``CountInfo`` for ``rounds``, ``forwards`` and ``requests`` (a bundle that was sampled records fewer requests than
    the engine served), ``counters`` the engine's own counters over the capture.
    """

    schema_version: int
    kind: str
    engine: EngineInfo
    imitates: ImitatedEngine | None
    target: ModelInfo
    drafter: ModelInfo | None
    recipe_fed: list[StateName]
    layers: int
    complete: bool
    requests: list[RequestInfo]
    files: dict[str, str]
    counts: dict[str, CountInfo]
    counters: dict[str, float]


def parse_manifest(tree: Json, *, file: str) -> Manifest:
    """The manifest from decoded JSON, with everything checked that needs no other file.

    Raises:
        InputRejected: ``bundle.incomplete``, ``bundle.version``, ``bundle.manifest``, ``bundle.request`` or ``bundle.tensors``.
    """
    where = Where(file=file)
    if isinstance(tree, Mapping):
        if tree.get("complete") is False:
            raise rejected("bundle.incomplete", f"{file} says that the capture is not complete", where=where)
        version = tree.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION or isinstance(version, bool):
            raise rejected("bundle.version", f"{file} has schema_version {version!r:.40}; this tool reads {SCHEMA_VERSION}", where=where)
    try:
        manifest = msgspec.convert(tree, Manifest, strict=True)
    except msgspec.ValidationError as error:
        raise rejected("bundle.manifest", f"{file}: {_in_words(str(error))}", where=where) from None
    check_manifest(manifest, file=file)
    return manifest


def check_manifest(manifest: Manifest, *, file: str) -> None:
    """What the types do not say: unique ids and files, digests of the right form, a complete set of tensors per request.

    Raises:
        InputRejected: as ``parse_manifest``.
    """
    where = Where(file=file)
    if manifest.layers < 1 or not manifest.recipe_fed:
        raise rejected("bundle.manifest", f"{file}: layers and recipe_fed must not be empty", where=where)
    for state in manifest.recipe_fed:
        if not _is_state(state, manifest.layers):
            raise rejected("bundle.manifest", f"{file}: recipe_fed names {state!r:.40}, no state of {manifest.layers} layers", where=where)
    for name, digest in manifest.files.items():
        if not _DIGEST.fullmatch(digest) or name == MANIFEST_FILE or "/" in name or unsafe(name):
            raise rejected("bundle.manifest", f"{file}: files: {shown(name)} with {shown(digest)} is no file name and sha256", where=where)
    if not manifest.requests:
        raise rejected("bundle.incomplete", f"{file} lists no request", where=where)
    seen: set[str] = set()
    for request in manifest.requests:
        for what, value in (("id", request.id), ("file", request.file)):
            if f"{what} {value}" in seen:
                raise rejected("bundle.request", f"{file}: two requests have the {what} {shown(value)}", where=where)
            seen.add(f"{what} {value}")
        check_request(request, states=len(manifest.recipe_fed), layers=manifest.layers, file=file)
    if {r.file for r in manifest.requests} != manifest.files.keys():
        odd = sorted({r.file for r in manifest.requests} ^ manifest.files.keys())
        raise rejected("bundle.closed-world", f"{file}: requests and files disagree on {', '.join(map(shown, odd[:5]))}", where=where)


def check_request(request: RequestInfo, *, states: int, layers: int, file: str) -> None:
    """Whether the listed tensors are the ones that a request has: ids and positions, every slot, nothing unknown, T rows each.

    Raises:
        InputRejected: ``bundle.request`` or ``bundle.tensors``.
    """
    if unsafe(request.id) or len(request.id) > ID_LENGTH:
        raise rejected("bundle.request", f"{file}: {shown(request.id)!r} is no request id (1 to {ID_LENGTH} printable characters)")
    if request.tokens < 1 or request.prompt_tokens < 1:
        counts = f"{request.tokens} tokens, {request.prompt_tokens} of the prompt"
        raise rejected("bundle.request", f"{file}: request {shown(request.id)} has {counts}", where=Where(file=file))
    for k, forward in enumerate(request.forwards):
        if forward.round < 0 or forward.rows < 1 or (forward.step > 0) != (forward.phase == "draft"):
            raise rejected("bundle.request", f"{file}: request {shown(request.id)}: forward {k} is {forward}", where=Where(file=file))
    wanted = [INPUT_IDS, POSITION_IDS, *(f"slot.{i}" for i in range(states))]
    for name in wanted:
        if name not in request.tensors:
            raise _tensor(request, name, "is missing")
    widths: dict[str, int] = {}
    for name, info in request.tensors.items():
        fault = _fault(name, info, request, states, layers, widths)
        if fault:
            raise _tensor(request, name, fault)


def _fault(name: str, info: TensorInfo, request: RequestInfo, states: int, layers: int, widths: dict[str, int]) -> str | None:
    tokens = request.tokens
    if name == PREFIX_IDS or name in ROUND_TENSORS:
        right = info.dtype == "I64" and len(info.shape) == (1 if name == PREFIX_IDS else 2)
        return None if right else f"is {info.dtype} {list(info.shape)}, not I64 [{'prefix' if name == PREFIX_IDS else 'rounds, tokens'}]"
    if (forward := FORWARD.fullmatch(name)) is not None:
        return _forward_fault(int(forward[1]), forward[2], info, request.forwards)
    if name in (INPUT_IDS, POSITION_IDS, GREEDY):
        return None if (info.shape, info.dtype) == ((tokens,), "I64") else f"is {info.dtype} {list(info.shape)}, not I64 [{tokens}]"
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None and name != FINAL_NORM:
        return "is no tensor of this format"
    if numbered is not None and int(numbered[2]) > (states - 1 if numbered[1] == "slot" else layers):
        return f"is beyond the {states} slots and {layers} layers"
    if len(info.shape) != 2 or info.shape[0] != tokens or info.shape[1] < 1 or info.dtype not in _FLOATS:
        return f"is {info.dtype} {list(info.shape)}, not a float type [{tokens}, width]"
    group = "slot" if numbered is not None and numbered[1] == "slot" else "boundary"
    width = widths.setdefault(group, info.shape[1])
    return None if width == info.shape[1] else f"is {info.shape[1]} wide, others are {width}"


def _forward_fault(k: int, name: str, info: TensorInfo, forwards: Sequence[ForwardInfo]) -> str | None:
    if name not in FORWARD_TENSORS:
        return "is no tensor of this format"
    if k >= len(forwards):
        return f"is beyond the {len(forwards)} forwards of the request"
    rows = forwards[k].rows
    if name in _VECTORS:
        fits = info.dtype == "I64" and len(info.shape) == 1 and (name == "logit_rows" or info.shape[0] == rows)
        return None if fits else f"is {info.dtype} {list(info.shape)}, not I64 [{rows}]"
    fits = info.dtype in _FLOATS and len(info.shape) == 2 and (name == "logits" or info.shape[0] == rows)
    return None if fits else f"is {info.dtype} {list(info.shape)}, not a float type [{rows}, width]"


def _tensor(request: RequestInfo, name: str, fault: str) -> Exception:
    where = Where(file=request.file, tensor=shown(name))
    return rejected("bundle.tensors", f"request {shown(request.id)}: tensor {shown(name)} {fault}", where=where)


def _is_state(state: StateName, layers: int) -> bool:
    return state == FINAL_NORM if isinstance(state, str) else 0 <= state <= layers


def _in_words(message: str) -> str:
    """msgspec's message, with the nearest name for an unknown key."""
    unknown = re.search(r"unknown field `([^`]*)`", message)
    near = difflib.get_close_matches(unknown[1], _key_names(), n=1) if unknown else []
    return shown(message, 400) + (f"; did you mean {near[0]}?" if near else "")


def _key_names() -> Sequence[str]:
    kinds = (Manifest, EngineInfo, ImitatedEngine, ModelInfo, TensorInfo, ForwardInfo, CountInfo, RequestInfo)
    return sorted({name for kind in kinds for name in kind.__struct_fields__})
