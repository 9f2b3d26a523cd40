"""One function per reader. It takes any bytes and raises only what is a fault of this project: a ``UserError`` is an answer.

Where two readers must agree, they are compared: the fast header reader with the strict one, an index recognised by its text with a decoded
one.
"""

from __future__ import annotations

import functools
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from xml.etree import ElementTree

from contract.errors import UserError
from contract.files.bundle import open_bundle
from contract.files.bundle_manifest import EngineInfo, ModelInfo
from contract.files.bundle_writer import BundleWriter
from contract.files.checkpoint_index import read_index
from contract.files.header_strict import parse_strict
from contract.files.paths import Identity, OpenedFile, open_path
from contract.files.safetensors_header import _parse_fast, parse_header
from contract.files.tensors import Shard
from contract.findings import Check, Severity, Status, Where
from contract.jsonio import load_json
from contract.limits import DEFAULT_LIMITS
from contract.report import FORMATS, render
from contract.reporting import Report
from contract.source import parse_yaml
from contract.source.header import read_header
from contract.structs import load_typed
from eagle3_contract.engines.spool_read import open_spool
from eagle3_contract.model.spec import Contract
from eagle3_contract.readings.serve_args import parse_serve_args
from eagle3_contract.verify.server.exposition import parse_metrics

Target = Callable[[bytes], None]
_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def header(data: bytes) -> None:
    """A safetensors header; the first byte is the number of data bytes after it."""
    payload, raw = (data[0], data[1:]) if data else (0, b"")
    size = 8 + len(raw) + payload
    fast = _parse_fast(raw, size, "x", DEFAULT_LIMITS)
    try:
        parse_header(raw, size, file="x")
        metadata, entries, _ = parse_strict(raw, payload, file="x", limits=DEFAULT_LIMITS)
    except UserError:
        assert fast is None, "the fast reader takes what the strict one refuses"
        return
    assert fast is None or (dict(fast.metadata), list(fast.entries)) == (metadata, entries), "the two readers differ"


@functools.cache
def _shards() -> tuple[Shard, ...]:
    made = []
    for file, names in (("m-1.safetensors", ("a", "l.10.w")), ("m-2.safetensors", ("l.2.w",))):
        raw = json.dumps({n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}).encode()
        parsed = parse_header(raw, 8 + len(raw) + len(names), file=file)
        made.append(Shard(file, parsed, Identity(0, 0, parsed.file_size, 0), functools.partial(open_path, os.devnull)))
    return tuple(made)


def index(data: bytes) -> None:
    """An index of two shards."""
    fd = os.memfd_create("index")
    os.write(fd, data)
    with OpenedFile(fd, "index") as opened:
        try:
            found = read_index(opened, limits=DEFAULT_LIMITS, files=[s.name for s in _shards()], shards=_shards())
        except UserError:
            return
    tree = load_json(data)
    assert isinstance(tree, dict)
    assert dict(found.weight_map) == tree["weight_map"], "the readers of an index differ"


def yaml(data: bytes) -> None:
    """A contract, from its text to its types."""
    try:
        document = parse_yaml(data, file="contract.yaml")
        read_header(document, kinds=("eagle3",))
        load_typed(document, Contract)
    except UserError:
        return


def strict_json(data: bytes) -> None:
    """config.json and the like; what is accepted is what Python's own reader accepts without duplicates."""
    try:
        tree = load_json(data)
    except UserError:
        return
    assert json.loads(data) == tree, "not what Python reads"


@functools.cache
def _bundle() -> Path:
    place = Path(tempfile.mkdtemp(prefix="fuzz-bundle-"))
    ids = ("I64", (2,), (1).to_bytes(8, "little") * 2)
    state = ("F32", (2, 4), bytes(32))
    engine = EngineInfo(
        name="x", version="1", runner=None, mode="eager", flags={}, device="cpu", dtype="float32", tp=1, pp=1, layer_ids=None
    )
    model = ModelInfo(id=None, model_type="llama", files={})
    with BundleWriter(place / "b", kind="eagle3", engine=engine, target=model, recipe_fed=(0,), layers=1, drafter=model) as writer:
        writer.add("r0", {"input_ids": ids, "position_ids": ids, "slot.0": state}, sample=None)
    return place / "b"


def bundle(data: bytes) -> None:
    """A capture bundle's manifest; its one request is sound."""
    place = _bundle()
    (place / "manifest.json").write_bytes(data)
    try:
        open_bundle(place)
    except UserError:
        return


def renderers(data: bytes) -> None:
    """Reports whose every string is a stranger's."""
    parts = (data.decode("utf-8", "surrogateescape").split("|") + [""] * 8)[:8]
    check = Check(
        rule=parts[0], status=Status.FAILED, required=True, severity=Severity.ERROR, dimension=parts[1], message=parts[2],
        where=Where(file=parts[3], line=1, column=1, key=parts[4], tensor=parts[5]), expected=[parts[6]],
        actual={parts[7]: 1.0}, fix=parts[2],
    )  # fmt: skip
    report = Report(command="check", subject={"spec": parts[3]}, checks=[check], provenance={"x": parts[4]})
    for form in FORMATS:
        text = render(report, form)
        assert not _CONTROL.search(text), f"{form}: a control character"
        if form in ("json", "sarif", "gitlab"):
            json.loads(text)
        elif form == "junit":
            ElementTree.fromstring(text)
        elif form == "jsonl":
            [json.loads(line) for line in text.splitlines()]


def serve_args(data: bytes) -> None:
    """The command line of an engine."""
    text = data.decode("utf-8", "replace")
    for engine in ("sglang==0.5.23", "vllm[v2]==0.32.0", "lmdeploy"):
        try:
            flags = parse_serve_args(engine, text)
        except UserError:
            continue
        json.dumps(flags)


@functools.cache
def _spool() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-spool-"))


def spool(data: bytes) -> None:
    """An event that hooks in an engine wrote; the folder holds no other."""
    (_spool() / "000000000-1.safetensors").write_bytes(data)
    try:
        open_spool(_spool())
    except UserError:
        return


def metrics(data: bytes) -> None:
    """The page /metrics of a server, for both engines."""
    text = data.decode("utf-8", "replace")
    for prefix in ("vllm:", "sglang:"):
        try:
            found = parse_metrics(text, prefix, what="/metrics")
        except UserError:
            continue
        assert all(name.startswith(prefix) for name, _, _ in found), "a line of another engine"


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        "header": header,
        "index": index,
        "yaml": yaml,
        "json": strict_json,
        "bundle": bundle,
        "renderers": renderers,
        "serve_args": serve_args,
        "spool": spool,
        "metrics": metrics,
    }
)
"""Name (also of the folder under tests/fuzz_corpus) to function."""
