"""Our view of a weight file against the safetensors library's: what is verified must be what is loaded."""

from __future__ import annotations

from safetensors import SafetensorError, safe_open

from contract.files.names import shown
from contract.files.rules import Problem, problem
from contract.files.tensors import Shard
from contract.findings import Where


def cross_check(shard: Shard) -> list[Problem]:
    """Differences in names, dtypes and shapes. The library gets the descriptor that we read, not the name.

    Raises:
        InputRejected: the file changed since its header was read.
    """
    header, where = shard.header, Where(file=shown(shard.name))
    with shard.open() as opened:
        try:
            with safe_open(f"/proc/self/fd/{opened.fd}", framework="np") as theirs:
                seen = {name: theirs.get_slice(name) for name in theirs.keys()}  # noqa: SIM118 - no mapping, only keys()
                view = {name: (str(part.get_dtype()), tuple(part.get_shape())) for name, part in seen.items()}
        except (SafetensorError, OSError, TypeError, OverflowError, ValueError) as error:
            return [problem("files.view-differs", f"{shown(shard.name)}: the library refuses it: {error}"[:300], where=where)]
        opened.verify_unchanged()
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
