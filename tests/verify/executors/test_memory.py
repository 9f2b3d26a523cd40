"""Freed memory is kept: what malloc maps and unmaps, asked of glibc itself, each in a process of its own, since its thresholds stay."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

MAPPED = """
import ctypes, sys
import torch
from eagle3_contract.verify.executors.memory import keep_freed_memory

class Info(ctypes.Structure):  # struct mallinfo2: hblks is the number of blocks that are mapped each by itself
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

ask = ctypes.CDLL(None).mallinfo2
ask.restype = Info
if sys.argv[1] == "kept":
    keep_freed_memory()
before = ask().hblks
held = torch.empty(20 << 20, dtype=torch.uint8)
print(ask().hblks - before)
"""


def mapped(how: str) -> int:
    """Blocks that malloc maps for 20 MiB, to unmap them when they are freed."""
    done = subprocess.run([sys.executable, "-c", MAPPED, how], capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc has no such thresholds")
def test_large_blocks_come_from_the_heap_and_stay_there() -> None:
    assert mapped("given back") == 1
    assert mapped("kept") == 0
