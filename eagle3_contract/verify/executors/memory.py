"""Freed memory stays with the process while it goes through samples.

A sample's logits are some hundred kilobytes, and glibc gives a freed block at the end of its heap back to the system. The next sample asks
for it again and pays a page fault for each 4 KiB: 675 faults and a millisecond of nine for each sample of the embedded pair where it was
measured (``benchmarks/verify.py``).
"""

from __future__ import annotations

from typing import Final

import torch

BLOCK: Final = 32 * 1024 * 1024 - 64 * 1024
"""Just below glibc's largest threshold (malloc/malloc.c: DEFAULT_MMAP_THRESHOLD_MAX, 32 MiB)."""


def keep_freed_memory() -> None:
    """Let malloc keep up to twice ``BLOCK`` bytes of freed memory at the end of its heap.

    glibc takes the size of a freed block that it had mapped as its new threshold for mapping, and twice of it as the one for giving back
    (mallopt(3), M_MMAP_THRESHOLD: "dynamic mmap threshold"). The block's pages are never touched. Other allocators are left as they are.
    """
    torch.empty(BLOCK, dtype=torch.uint8)
