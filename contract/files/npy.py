"""Reading ``.npy`` files of numbers. The header is matched, not evaluated; object arrays are pickles and refused."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contract.errors import InputRejected
from contract.files.paths import OpenedFile, open_path
from contract.files.rules import rejected
from contract.findings import Where
from contract.limits import DEFAULT_LIMITS, Limits

_MAGIC: Final = b"\x93NUMPY"
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[A-Za-z]\d{0,3})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18}(?:, ?\d{1,18})*,?)?)\),? ?\} *\n?"
)
_NUMBERS = re.compile(r"[<|=]?[biufc]\d{1,2}")


def load_npy(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> npt.NDArray[Any]:
    """Read an array of bools, integers, floats or complex numbers.

    Raises:
        InputRejected: ``files.npy-format`` for objects, strings, structures, big-endian numbers, or a wrong length.
    """
    with open_path(path) as opened:
        array = _read(opened, limits)
        opened.verify_unchanged()
        return array


def _fail(opened: OpenedFile, message: str) -> InputRejected:
    return rejected("files.npy-format", f"{opened.name} {message}", where=Where(file=opened.name))


def _read(opened: OpenedFile, limits: Limits) -> npt.NDArray[Any]:
    start = opened.read(0, min(12, opened.size))
    if len(start) < 12 or not start.startswith(_MAGIC) or start[6] not in (1, 2, 3):
        raise _fail(opened, "is no .npy file")
    at, length = (10, int.from_bytes(start[8:10], "little")) if start[6] == 1 else (12, int.from_bytes(start[8:12], "little"))
    limits.enforce("npy_header_bytes", length, what=f"{opened.name}: the header", where=Where(file=opened.name))
    if at + length > opened.size:
        raise _fail(opened, "is cut off in its header")
    match = _HEADER.fullmatch(opened.read(at, length).decode("latin-1"))
    if match is None:
        raise _fail(opened, "has a header that numpy.save does not write for a plain array (an object or structured array?)")
    descr, fortran, dims = match.groups()
    if not _NUMBERS.fullmatch(descr):
        raise _fail(opened, f"holds {'objects, that is a pickle' if 'O' in descr else f'the dtype {descr!r}, no plain numbers'}")
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise _fail(opened, f"has the unknown dtype {descr!r}") from None
    shape = tuple(int(d) for d in dims.replace(" ", "").split(",") if d)
    have, need = opened.size - at - length, math.prod(shape) * dtype.itemsize
    limits.enforce("dims", len(shape), what=opened.name, where=Where(file=opened.name))
    if have != need or math.prod(d for d in shape if d) >= 2**63:
        raise _fail(opened, f"holds {have} bytes of data; its header needs {need}")
    buffer = bytearray(need)
    opened.read_into(at + length, buffer)
    return np.ndarray(shape, dtype, buffer, order="F" if fortran == "True" else "C")
