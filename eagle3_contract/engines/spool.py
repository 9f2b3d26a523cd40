"""The spool: what hooks inside an engine write down, event by event, for a bundle to be made from it later.

Runs inside the engine's own processes and in its environment, so that it imports nothing but torch, safetensors and the standard
library. Each event is one safetensors file with its JSON in the metadata, written under another name and then renamed: whatever the
engine's end, every event is whole or absent. An event belongs to one request; the hooks split batches.

========  =================================================================  ========================================================
event     keys                                                               tensors
========  =================================================================  ========================================================
start     engine, version, runner, mode, tp, pp, device, dtype, layer_ids,   none
          layers, target_class, drafter_class, flags (text to text)
prompt    request, prompt_id, sample (or null), run                          input_ids [P]
target    request, phase (prefill, verify, decode)                           input_ids, position_ids [n]; slot.0 ... [n, G];
                                                                             optional boundary.0 ... boundary.N, final_norm [n, G]
drafter   request, phase (prefill, extend, draft), step                      names of ``FORWARD_TENSORS``
                                                                             (contract.files.bundle_manifest)
round     request                                                            proposed [D], emitted [E] (with the token after the last
                                                                             accepted draft); trees: parents [D]
output    request                                                            output_ids [O]
end       counters (text to number)                                          none
========  =================================================================  ========================================================

Events are numbered in the order in which they happened; a drafter event belongs to the round that the number of ``round`` events of
its request before it says. Rows of ``target`` and ``drafter`` events are as the engine ran them, junk and rejected rows included: what is
junk is judged later, from what was emitted.

Legend: n rows of a forward, P tokens of the prompt, D proposed tokens, E emitted tokens, O output tokens, G target width.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save
from torch import Tensor

EVENT_KEY: Final = "event"
PART: Final = ".part"


class Spool:
    """Writes events into a folder. ``limit_bytes`` ends the recording, with an event ``full``, before the disk does."""

    def __init__(self, folder: str | Path, *, limit_bytes: int | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._limit, self._bytes, self._count = limit_bytes, 0, 0
        self._lock = threading.Lock()
        self.full = False

    def event(self, kind: str, tensors: Mapping[str, Tensor | None] | None = None, **facts: Any) -> None:
        """Write one event. Tensors are copied to the CPU at once; those that are None are left out. ``facts`` must be JSON."""
        kept = {name: copied(value) for name, value in (tensors or {}).items() if value is not None}
        with self._lock:
            if self.full:
                return
            size = sum(t.numel() * t.element_size() for t in kept.values())
            if self._limit is not None and self._bytes + size > self._limit:
                self.full = True
                kind, kept, facts = "full", {}, {"limit_bytes": self._limit}
            self._bytes += size
            name = f"{self._count:09d}-{os.getpid()}.safetensors"
            self._count += 1
            part = self.folder / (name + PART)
            # Not save_file: newer safetensors write to a name of their own first, which a killed engine leaves behind.
            part.write_bytes(save(kept, metadata={EVENT_KEY: json.dumps({"kind": kind, **facts})}))
            os.replace(part, self.folder / name)


def copied(value: Tensor) -> Tensor:
    """A copy on the CPU that nobody else writes to; integers as int64."""
    held = value.detach().to("cpu", copy=True).contiguous()
    return held if held.is_floating_point() else held.to(torch.int64)
