"""Our view of a weight file against the safetensors library's: what is verified must be what is loaded."""

from __future__ import annotations

import os

from safetensors import SafetensorError, safe_open

from contract.files.names import shown
from contract.files.rules import Problem, problem
from contract.files.tensors import Shard
from contract.findings import Where


def cross_check(shard: Shard) -> list[Problem]:
    """Differences in names, dtypes and shapes.

    The library maps files into memory, where a file that is cut off meanwhile would end the process with SIGBUS. So it gets a
    sparse file in memory: the header that we read, and as many zeros as there are data.

    Raises:
        InputRejected: the file changed since its header was read.
    """
    header, where = shard.header, Where(file=shown(shard.name))
    with shard.open() as opened:
        raw = opened.read(0, header.data_start)
        opened.verify_unchanged()
    copy = os.memfd_create("header")
    try:
        os.write(copy, raw)
        os.truncate(copy, header.file_size)
        with safe_open(f"/proc/self/fd/{copy}", framework="np") as theirs:
            seen = {name: theirs.get_slice(name) for name in theirs.keys()}  # noqa: SIM118 - no mapping, only keys()
            view = {name: (str(part.get_dtype()), tuple(part.get_shape())) for name, part in seen.items()}
    except (SafetensorError, OSError, TypeError, OverflowError, ValueError) as error:
        return [problem("files.view-differs", f"{shown(shard.name)}: the library refuses it: {error}"[:300], where=where)]
    finally:
        os.close(copy)
    ours = {name: (dtype, tuple(shape)) for name, dtype, shape in zip(header.names, header.dtypes, header.shapes, strict=True)}
    return [
        problem(
            "files.view-differs",
            f"{shown(shard.name)}: {shown(name)} is {ours.get(name)} here and {view.get(name)} for the library",
            where=Where(file=shown(shard.name), tensor=shown(name)),
            expected=repr(ours.get(name)),
            actual=repr(view.get(name)),
        )
        for name in sorted(ours.keys() | view.keys())
        if ours.get(name) != view.get(name)
    ]
