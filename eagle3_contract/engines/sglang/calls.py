"""Arguments of a hooked call by their name, however they were passed: models of one engine differ in the order."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn


def arguments(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that ``module.forward`` was called with. Raises TypeError if they do not fit it."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
