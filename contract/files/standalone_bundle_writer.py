"""Writes capture bundles from any engine, with the standard library alone (Python 3.9 or newer). Copy this one file into the engine.

    from standalone_bundle_writer import StandaloneBundleWriter

    with StandaloneBundleWriter(
        "BUNDLE",
        engine={"name": "my-engine", "version": "1.0", "mode": "eager", "device": "cuda:0", "dtype": "bfloat16"},
        target={"id": "org/model", "model_type": "llama", "files": file_digests("/models/target")},
        drafter={"id": None, "model_type": "llama", "files": file_digests("/models/drafter")},
        recipe_fed=[2, 16, 29],
        layers=32,
    ) as bundle:
        bundle.add("prompt-0", {"input_ids": ids, "position_ids": positions, "slot.0": a, "slot.1": b, "slot.2": c})

A tensor is ``(dtype, shape, bytes)`` with the dtype in the words of safetensors (``BF16``, ``F32``, ``I64`` ...) and little-endian bytes in
row-major order; or a numpy array; or a torch tensor, of which a copy on the CPU is taken. The folder gets its name when the block is left
without an exception, and what is missing or misshapen is refused before. The format is described, and checked when a bundle is read, by
docs/bundle-format.md and ``contract.files.bundle`` of eagle3-contract; this file imports nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

Entry = tuple[str, tuple[int, ...], memoryview]
Model = Mapping[str, Any]

SCHEMA_VERSION = 1
BITS = {"F64": 64, "I64": 64, "F32": 32, "BF16": 16, "F16": 16}
FLOATS = ("BF16", "F16", "F32", "F64")
VECTORS = ("input_ids", "position_ids", "parents", "logit_rows")
MATRICES = ("fc_in", "fc_out", "hidden_in", "final_normed", "state_out", "logits")
PHASES = ("prefill", "extend", "draft")
_STATE = re.compile(r"(slot|boundary)\.(0|[1-9][0-9]{0,5})")
_FORWARD = re.compile(r"forward\.(0|[1-9][0-9]{0,8})\.([a-z_]{1,32})")
_NUMPY = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64"}
_CHUNK = 8 * 1024 * 1024


class BundleError(ValueError):
    """What was given makes no bundle; the message says why. Nothing was written under the bundle's name."""


class StandaloneBundleWriter:
    """A context manager. Requests are written as they are added; none is kept in memory.

    ``engine`` must hold name, version, mode (``eager`` or ``graph``), device and dtype; runner, flags (text to text), tp, pp and layer_ids
    (in the engine's own numbering) are optional. ``recipe_fed`` says which boundary each slot is: the number of decoder layers before it,
    or ``"final_norm"``. ``counts`` ({"rounds": {"recorded": 3, "counted": 3, "by": "my_counter"}}) and ``counters`` may be filled until
    the block is left.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        engine: Mapping[str, Any],
        target: Model,
        recipe_fed: Sequence[int | str],
        layers: int,
        drafter: Model | None = None,
        kind: str = "eagle3",
    ) -> None:
        self.out = os.path.abspath(os.fspath(out))
        if os.path.lexists(self.out):
            raise BundleError(f"{self.out} is already there")
        defaults: dict[str, Any] = {"runner": None, "flags": {}, "tp": 1, "pp": 1, "layer_ids": None}
        needed = {"name", "version", "mode", "device", "dtype"}
        if not needed <= engine.keys() or not engine.keys() <= needed | defaults.keys() or engine["mode"] not in ("eager", "graph"):
            raise BundleError(
                f"engine holds {sorted(engine)}; it needs {sorted(needed)}, may have {sorted(defaults)}; mode is eager or graph"
            )
        if layers < 1 or not recipe_fed or not all(s == "final_norm" or (type(s) is int and 0 <= s <= layers) for s in recipe_fed):
            raise BundleError(f"recipe_fed {recipe_fed} names no states of a target of {layers} layers")
        for model in (target, drafter):
            if model is not None and model.keys() != {"id", "model_type", "files"}:
                raise BundleError(f"a model holds {sorted(model)}, not id, model_type and files")
        self._head: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "kind": kind,
            "engine": {**defaults, **engine},
            "imitates": None,
            "target": target,
            "drafter": drafter,
            "recipe_fed": list(recipe_fed),
            "layers": layers,
        }
        self.counts: dict[str, dict[str, Any]] = {}
        self.counters: dict[str, float] = {}
        self._requests: list[dict[str, Any]] = []
        self._files: dict[str, str] = {}
        self._folder: str | None = None

    def __enter__(self) -> StandaloneBundleWriter:
        parent, name = os.path.split(self.out)
        os.makedirs(parent, exist_ok=True)
        self._folder = tempfile.mkdtemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=parent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def add(
        self,
        id: str,
        tensors: Mapping[str, Any],
        *,
        sample: str | None = None,
        prompt_tokens: int | None = None,
        run: str = "",
        forwards: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Write one request.

        ``forwards`` are dicts of phase, round, step and rows, in the order of the ``forward.k.*`` tensors; ``prompt_tokens`` is how many
        tokens are the prompt (all, if not given), ``sample`` the training sample that the request repeats.
        """
        if self._folder is None:
            raise BundleError("add is for the inside of the with block")
        if not (isinstance(id, str) and 0 < len(id) <= 256 and id.isprintable()) or any(r["id"] == id for r in self._requests):
            raise BundleError(f"{id!r} is no request id of its own")
        given = {name: as_entry(name, tensor) for name, tensor in tensors.items()}
        listed = [{k: forward[k] for k in ("phase", "round", "step", "rows")} for forward in forwards]
        tokens = self._check(id, given, listed)
        name = f"request-{len(self._requests):04d}.safetensors"
        self._files[name] = "sha256:" + _write_safetensors(os.path.join(self._folder, name), given)
        self._requests.append(
            {
                "id": id,
                "file": name,
                "tokens": tokens,
                "tensors": {n: {"shape": list(shape), "dtype": dtype} for n, (dtype, shape, _) in given.items()},
                "sample": sample,
                "prompt_tokens": tokens if prompt_tokens is None else prompt_tokens,
                "run": run,
                "forwards": listed,
            }
        )

    def _check(self, id: str, given: Mapping[str, Entry], forwards: Sequence[Mapping[str, Any]]) -> int:
        slots = [f"slot.{i}" for i in range(len(self._head["recipe_fed"]))]
        absent = [n for n in ("input_ids", "position_ids", *slots) if n not in given]
        if absent:
            raise BundleError(f"request {id}: there is no {', '.join(absent)}")
        for k, forward in enumerate(forwards):
            draft = forward["phase"] == "draft"
            if forward["phase"] not in PHASES or forward["rows"] < 1 or forward["round"] < 0 or (forward["step"] > 0) != draft:
                raise BundleError(f"request {id}: forward {k} is {forward}")
        tokens = given["input_ids"][1][0] if len(given["input_ids"][1]) == 1 else 0
        widths: dict[str, int] = {}
        for name, (dtype, shape, _) in given.items():
            if tokens < 1 or not self._fits(name, dtype, shape, tokens, forwards, widths):
                raise BundleError(f"request {id}: {name} is {dtype} {list(shape)}, which is no tensor of the format with {tokens} tokens")
        return tokens

    def _fits(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        tokens: int,
        forwards: Sequence[Mapping[str, Any]],
        widths: dict[str, int],
    ) -> bool:
        if name in ("input_ids", "position_ids", "greedy"):
            return dtype == "I64" and shape == (tokens,)
        if name == "prefix_ids":
            return dtype == "I64" and len(shape) == 1
        if name in ("round.proposed", "round.parents", "round.emitted"):
            return dtype == "I64" and len(shape) == 2
        forward = _FORWARD.fullmatch(name)
        if forward is not None:
            if int(forward[1]) >= len(forwards):
                return False
            rows = int(forwards[int(forward[1])]["rows"])
            if forward[2] in VECTORS:
                return dtype == "I64" and len(shape) == 1 and (forward[2] == "logit_rows" or shape[0] == rows)
            right = dtype in FLOATS and len(shape) == 2 and forward[2] in MATRICES
            return right and (forward[2] == "logits" or shape[0] == rows)
        state = _STATE.fullmatch(name)
        if state is None and name != "final_norm":
            return False
        last = len(self._head["recipe_fed"]) - 1 if state is not None and state[1] == "slot" else self._head["layers"]
        if (state is not None and int(state[2]) > last) or dtype not in FLOATS or len(shape) != 2 or shape[0] != tokens or shape[1] < 1:
            return False
        group = "slot" if state is not None and state[1] == "slot" else "boundary"
        return widths.setdefault(group, shape[1]) == shape[1]

    def _finish(self) -> None:
        assert self._folder is not None
        if not self._requests:
            raise BundleError("no request was added")
        manifest = {
            **self._head,
            "complete": True,
            "requests": self._requests,
            "files": self._files,
            "counts": self.counts,
            "counters": self.counters,
        }
        text = json.dumps(manifest, indent=1, allow_nan=False)
        path = os.path.join(self._folder, "manifest.json")
        with open(path, "x", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0o077)
        os.umask(umask)
        os.chmod(self._folder, 0o777 & ~umask)
        os.rename(self._folder, self.out)
        self._folder = None


def as_entry(name: str, tensor: Any) -> Entry:
    """``(dtype, shape, bytes)`` of what was given; imports neither numpy nor torch."""
    if isinstance(tensor, tuple) and len(tensor) == 3:
        dtype, shape, data = tensor
        data = memoryview(data).cast("B")
    elif hasattr(tensor, "detach"):  # torch
        held = tensor.detach().cpu().contiguous()
        shape = tuple(held.shape)
        dtype = {"torch.bfloat16": "BF16"}.get(str(held.dtype)) or _NUMPY.get(str(held.dtype).partition(".")[2], str(held.dtype))
        if dtype == "BF16":  # numpy has none: its bytes, as integers
            held = held.view(sys.modules["torch"].int16)
        data = memoryview(held.numpy().tobytes())
    elif hasattr(tensor, "tobytes") and hasattr(tensor, "shape"):  # numpy
        shape, dtype = tuple(tensor.shape), _NUMPY.get(str(tensor.dtype), str(tensor.dtype))
        data = memoryview(tensor.tobytes())
    else:
        raise BundleError(f"{name} is a {type(tensor).__name__}, no tensor")
    if dtype not in BITS:
        raise BundleError(f"{name} has the dtype {dtype}; the format has {', '.join(BITS)}")
    size = BITS[dtype] // 8
    for dimension in shape:
        size *= dimension
    if len(data) != size or any(type(d) is not int or d < 0 for d in shape):
        raise BundleError(f"{name}: {len(data)} bytes are not {dtype} {list(shape)}")
    return dtype, tuple(shape), data


def file_digests(folder: str | os.PathLike[str]) -> dict[str, str]:
    """``{name: "sha256:..."}`` of the files of a model's folder that say what it is: config, tokenizer, weights and their index."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith((".json", ".safetensors", ".model", ".bin")) and os.path.isfile(path):
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
            found[name] = f"sha256:{digest.hexdigest()}"
    return found


def _write_safetensors(path: str, tensors: Mapping[str, Entry]) -> str:
    """Write a safetensors file, durably; returns its SHA-256."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with open(path, "xb") as file:
        parts: list[bytes | memoryview] = [struct.pack("<Q", len(text)), text, *(data for _, _, data in tensors.values())]
        for part in parts:
            file.write(part)
            digest.update(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
