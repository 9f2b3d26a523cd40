"""The organisation's ceilings on a contract's tolerances: each tolerance becomes the smaller of what is stated and the ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from eagle3_contract.model.load import LoadedContract


def under_ceilings(loaded: LoadedContract, ceilings: Mapping[str, float]) -> LoadedContract:
    """The contract with its tolerances capped; null (the built-in bound) becomes the ceiling, for a tolerance only ever tightens.

    A ceiling for a tolerance that contracts do not have was refused before (``policy.unknown-tolerance``); it changes nothing here.
    """
    tolerances = loaded.contract.tolerances
    capped = {
        name: ceiling if (stated := getattr(tolerances, name)) is None else min(stated, ceiling)
        for name, ceiling in ceilings.items()
        if name in tolerances.__struct_fields__
    }
    if not capped:
        return loaded
    changed = msgspec.structs.replace(tolerances, **capped)
    return replace(loaded, contract=msgspec.structs.replace(loaded.contract, tolerances=changed))
