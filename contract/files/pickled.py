"""Pickle-family files (``.pt``, ``.bin``, ``.ckpt``, each also ``.gz``): refused unless allowed, and never loaded in this process.

With the opt-in, the zip archive is checked entry by entry (``torch_zip``), then a child process without network, new programs or
environment, with bounded time, memory and output, loads it with ``weights_only=True`` (``pickle_worker``). What comes back is a
safetensors file that is read as strictly as any other. There is no second try without the guard.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zlib
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, TypeAlias

from contract.errors import InputRejected
from contract.files.header_strict import TensorEntry
from contract.files.paths import CHUNK_BYTES, OpenedFile, open_path
from contract.files.rules import rejected
from contract.files.safetensors_header import read_opened_header
from contract.files.tensors import Shard, TensorRef, tensor_ref
from contract.files.torch_zip import check_torch_zip
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits

Tree: TypeAlias = Any
"""What a pickle held: ``TensorRef``, None, bool, int, float, str, list, tuple, or a dict of these."""

START_SECONDS: Final = 120
"""How long the child process may take to import torch."""

_WORKER: Final = Path(__file__).with_name("pickle_worker.py")
_REPLY_BYTES: Final = 4096


def refuse_pickle(name: str) -> InputRejected:
    """The error for a pickle-family file without the opt-in."""
    return rejected("files.pickle-refused", f"{name} is a pickle-family file, and --allow-pickle was not given", where=Where(file=name))


def load_pickled(path: str | Path, *, allow_pickle: bool, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Load one pickle-family file in a child process of its own.

    Raises:
        InputRejected: not allowed, an odd archive, an object that is no tensor or plain value, out of time or memory.
        LimitExceeded: ``pickle_bytes`` or ``pickle_entries``.
    """
    if not allow_pickle:
        with open_path(path):
            raise refuse_pickle(str(path))
    with PickleLoader(limits=limits) as loader:
        return loader.load(path)


class PickleLoader:
    """A child process that loads one file after the other; use it for many files, for importing torch takes seconds.

    A context manager. The caller has asked the user for ``--allow-pickle``. After a file that kills the child, the next one
    gets a fresh child.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the child process and everything it started."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._child is not None:
            if self._child.poll() is None:
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None

    def load(self, path: str | Path) -> Tree:
        """Load a file that the user named. Raises like ``load_pickled``."""
        with open_path(path) as opened:
            return self.load_opened(opened)

    def load_opened(self, opened: OpenedFile) -> Tree:
        """Load an open file. Raises like ``load_pickled``."""
        if opened.read(0, min(2, opened.size)) == b"\x1f\x8b":
            with _inflated(opened, self._limits) as plain:
                return self._load_checked(plain)
        return self._load_checked(opened)

    def _load_checked(self, opened: OpenedFile) -> Tree:
        check_torch_zip(opened, limits=self._limits)
        with tempfile.TemporaryFile(prefix="contract-") as sink:
            reply = self._ask(opened, sink)
            opened.verify_unchanged()
            if reply == "ok":
                return _read_back(sink, opened.name, self._limits)
        kind, _, reason = reply.partition(" ")
        rule = {"unfit": "files.pickle-content", "timeout": "files.pickle-timeout", "isolation": "files.pickle-isolation"}.get(
            kind, "files.pickle-blocked"
        )
        raise rejected(rule, f"{opened.name}: {reason}", where=Where(file=opened.name))

    def _ask(self, opened: OpenedFile, sink: BinaryIO) -> str:
        """Have the child load ``opened`` into ``sink``; what it says, or what became of it."""
        try:
            channel = self._channel or self._start()
            channel.settimeout(self._limits.pickle_seconds)
            socket.send_fds(channel, [b"x"], [opened.fd, sink.fileno()])
            reply = channel.recv(_REPLY_BYTES).decode(errors="replace")
        except TimeoutError:
            self.close()
            return f"timeout the file took more than the limit pickle_seconds, {self._limits.pickle_seconds}"
        except ConnectionError:
            reply = ""
        if reply == "":
            code = self._child.wait() if self._child is not None else None
            self.close()
            return f"blocked the loader ended with status {code} (out of memory, out of time, or killed by its limits)"
        if reply.startswith("isolation"):
            self.close()
        return reply

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        limits = self._limits
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-B", str(_WORKER), str(theirs.fileno())]
                + [str(n) for n in (limits.pickle_seconds, limits.pickle_memory_bytes, limits.pickle_bytes)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "LANG": "C.UTF-8"}
                | ({"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in os.environ else {}),
                start_new_session=True,
            )
        self._channel = ours
        ours.settimeout(START_SECONDS)
        greeting = ours.recv(_REPLY_BYTES).decode(errors="replace")
        if greeting != "ready":
            code = self._child.poll()
            self.close()
            reason = greeting.removeprefix("isolation ") or f"the loader did not start (status {code}); is torch installed?"
            raise rejected("files.pickle-isolation", f"pickle-family files cannot be loaded here: {reason}")
        return ours


def _inflated(opened: OpenedFile, limits: Limits) -> OpenedFile:
    """The gzip file's content in an unnamed temporary file, inflated up to ``pickle_bytes``."""
    where, total = Where(file=opened.name), 0
    with tempfile.TemporaryFile(prefix="contract-") as plain:
        try:
            with os.fdopen(os.dup(opened.fd), "rb") as raw, gzip.GzipFile(fileobj=raw) as packed:
                raw.seek(0)
                while data := packed.read(CHUNK_BYTES):
                    total += len(data)
                    limits.enforce("pickle_bytes", total, what=f"{opened.name}, inflated", where=where)
                    plain.write(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise rejected("files.pickle-format", f"{opened.name} is no sound gzip file: {error}", where=where) from None
        plain.flush()
        return OpenedFile(os.dup(plain.fileno()), opened.name)


class _Held:
    """A descriptor that lives as long as a tensor of its file is referred to."""

    def __init__(self, fd: int, name: str) -> None:
        self.fd, self.name = fd, name

    def __call__(self) -> OpenedFile:
        return OpenedFile(os.dup(self.fd), self.name)

    def __del__(self) -> None:
        os.close(self.fd)


def _read_back(sink: BinaryIO, name: str, limits: Limits) -> Tree:
    held = _Held(os.dup(sink.fileno()), name)
    with held() as opened:
        header = read_opened_header(opened, limits=limits)
    shard = Shard(name, header, opened.identity, held)
    try:
        return _untag(json.loads(header.metadata["tree"]), {e.name: e for e in header.entries}, shard)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise rejected(
            "files.pickle-blocked", f"{name}: the loader's answer makes no sense: {error!r:.200}", where=Where(file=name)
        ) from None


def _untag(node: Any, entries: dict[str, TensorEntry], shard: Shard) -> Tree:
    ((kind, value),) = node.items()
    again = partial(_untag, entries=entries, shard=shard)
    if kind == "tensor":
        return tensor_ref(shard, entries[value])
    if kind == "map":
        return {_key(again(k)): again(v) for k, v in value}
    if kind == "list":
        return [again(v) for v in value]
    if kind == "tuple":
        return tuple(again(v) for v in value)
    if kind == "int":
        return int(value)
    return float.fromhex(value) if kind == "float" else value


def _key(key: str | int | None) -> str | int:
    if not isinstance(key, str | int):
        raise TypeError(f"key {key!r}")
    return key


__all__ = ["PickleLoader", "TensorRef", "Tree", "load_pickled", "refuse_pickle"]
