"""Where a forward runs."""

from __future__ import annotations

import torch

from contract.errors import ToolError, UsageError


def resolve_device(name: str) -> torch.device:
    """The device of a ``--device`` value: ``auto`` (CUDA if there is one), ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        UsageError: ``drafter.device`` for another name.
        ToolError: ``drafter.device`` if this machine, or this build of torch, has no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()) or (kind == "cpu" and number):
        raise UsageError(f"{name!r} is no device", rule="drafter.device", fix="Choose auto, cpu, cuda or cuda:N.")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(number or 0) >= count:
            raise ToolError(
                f"there is no device {name}: torch sees {count} CUDA devices",
                rule="drafter.device",
                fix="Choose cpu, or install a build of torch that fits this machine's driver.",
            )
    return torch.device(name)
