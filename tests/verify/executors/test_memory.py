"""Freed memory is used again: counted in page faults, each in a process of its own, since malloc's thresholds stay."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOP = """
import resource, sys
import torch
from eagle3_contract.verify.executors.memory import keep_freed_memory

def blocks():
    for x in [torch.empty(1 << 20, dtype=torch.uint8) for _ in range(8)]:
        x.fill_(1)

if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(5):
    blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    blocks()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 50)
"""
PAGES = 8 * 256


def faults(how: str) -> int:
    """Page faults of a round that fills 8 MiB."""
    done = subprocess.run([sys.executable, "-c", LOOP, how], capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_that_is_freed_is_not_given_back_and_asked_for_again() -> None:
    assert faults("given-back") > PAGES // 4
    assert faults("kept") < PAGES // 20
