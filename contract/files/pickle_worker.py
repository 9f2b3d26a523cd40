"""The child process that unpickles. Run as a script, with nothing of this project imported.

It receives pairs of descriptors (pickle to read, file to write) over the socket it was started with, loads with
``weights_only=True``, and writes tensors as safetensors with the rest of the tree as JSON in the metadata. Before the first file it
gives up the network and new programs (a seccomp filter, and a network namespace where the kernel grants one) and lowers its own limits.

Arguments: descriptor of the socket, CPU seconds per file, bytes of address space beyond torch's own, bytes of any file written.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import platform
import resource
import socket
import struct
import sys
from typing import Any

# <linux/seccomp.h>, <linux/filter.h>, <linux/audit.h>, <linux/prctl.h>
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _DENY, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38, 0x80000000  # EPERM, ENOSYS, kill the process
_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE_THREAD, _CLONE3 = 0x00010000, 435
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
# audit architecture, clone; then socket, connect, bind, execve, execveat, fork, vfork, ptrace, open_by_handle_at, io_uring_setup
_MACHINES = {
    "x86_64": (0xC000003E, 56, (41, 42, 49, 59, 322, 57, 58, 101, 304, 425)),
    "aarch64": (0xC00000B7, 220, (198, 203, 200, 221, 281, 117, 265, 425)),
}
_X32 = 0x40000000
_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
_MAX_DEPTH = 32
_REPLY_BYTES = 2000


class _Unfit(Exception):
    """The tree holds something that is no tensor or plain value."""


def _filter_syscalls(libc: ctypes.CDLL) -> bool:
    """Install the seccomp filter. False where kernel or machine has none."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    architecture, clone, denied = machine
    program = [(_LOAD, 0, 0, 4), (_JUMP_EQ, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    program += [(_JUMP_GE, 0, 1, _X32), (_RETURN, 0, 0, _DENY)]
    for number in denied:
        program += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, _DENY)]
    # clone makes threads, but no processes; clone3, whose flags a filter cannot see, is unknown, and libc falls back to clone.
    program += [(_JUMP_EQ, 0, 1, _CLONE3), (_RETURN, 0, 0, _UNKNOWN)]
    program += [(_JUMP_EQ, 0, 3, clone), (_LOAD, 0, 0, 16), (_JUMP_SET, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _DENY)]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0) == 0)


def _has_no_network() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    except PermissionError:
        return True
    return False


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, hard if which == resource.RLIMIT_CPU else bound))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _plain(value: Any, torch: Any, tensors: list[Any], depth: int = 0) -> Any:
    """The tree as tagged JSON; tensors go to the list."""
    if depth > _MAX_DEPTH:
        raise _Unfit(f"nests deeper than {_MAX_DEPTH}")
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.device.type != "cpu":
            raise _Unfit(f"holds a {value.layout} tensor on {value.device}")
        tensors.append(value)
        return {"tensor": str(len(tensors) - 1)}
    if value is None or isinstance(value, bool | str):
        return {"value": value}
    if isinstance(value, int | float):
        return {"int": str(value)} if isinstance(value, int) else {"float": float(value).hex()}
    if isinstance(value, dict):
        pairs = [(_plain(k, torch, tensors, depth + 1), _plain(v, torch, tensors, depth + 1)) for k, v in value.items()]
        return {"map": pairs}
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_plain(v, torch, tensors, depth + 1) for v in value]}
    if isinstance(value, torch.dtype):
        return {"value": str(value)}
    raise _Unfit(f"holds an object of type {type(value).__module__}.{type(value).__qualname__}")


def _write(tree: Any, tensors: list[Any], torch: Any, fd: int, bound: int) -> None:
    header: dict[str, Any] = {"__metadata__": {"tree": json.dumps(tree, separators=(",", ":"))}}
    at = 0
    for i, tensor in enumerate(tensors):
        dtype = _DTYPES.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            raise _Unfit(f"holds a tensor of dtype {tensor.dtype}")
        end = at + tensor.numel() * tensor.element_size()
        if end > bound:
            raise _Unfit(f"holds more than {bound} bytes of tensors")
        header[str(i)] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
            if flat.numel():
                file.write(memoryview(flat.view(torch.uint8).numpy()))


def _serve(channel: socket.socket, torch: Any, seconds: int, bound: int) -> None:
    while True:
        data, rights, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(8))
        if not data:
            return
        fds = array.array("i")
        fds.frombytes(rights[0][2])
        source, sink = fds
        used = resource.getrusage(resource.RUSAGE_SELF)
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds + 1, hard))
        try:
            tensors: list[Any] = []
            loaded = torch.load(f"/proc/self/fd/{source}", weights_only=True, map_location="cpu")
            _write(_plain(loaded, torch, tensors), tensors, torch, sink, bound)
            reply = "ok"
        except _Unfit as error:
            reply = f"unfit {error}"
        except MemoryError:
            reply = "blocked not enough memory within the limit"
        except Exception as error:  # noqa: BLE001 - whatever a hostile file provokes is a refusal, and is reported as one
            reply = f"blocked {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        os.close(source)
        os.close(sink)
        channel.sendall(reply.encode(errors="replace")[:_REPLY_BYTES])


def main(arguments: list[str]) -> None:
    """Give up what is not needed, say so, and serve until the socket closes."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=int(arguments[0]))
    seconds, memory, bound = map(int, arguments[1:])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    import torch  # after the namespace, which a process with threads cannot enter; before the limits

    torch.set_num_threads(1)
    filtered = _filter_syscalls(libc)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, 64)
    _lower(resource.RLIMIT_FSIZE, bound + (64 << 20))
    _lower(resource.RLIMIT_AS, _address_space() + memory)
    if not filtered or not _has_no_network():
        channel.sendall(b"isolation no seccomp filter")
        return
    if tuple(int("".join(filter(str.isdigit, p)) or 0) for p in torch.__version__.split(".")[:2]) < (2, 10):
        channel.sendall(f"isolation torch {torch.__version__} is older than 2.10".encode())
        return
    channel.sendall(b"ready")
    _serve(channel, torch, seconds, bound)


if __name__ == "__main__":
    main(sys.argv[1:])
