"""Golden rows that go with a contract: the trainer's own from its stamp, else the tool's from the first sample.

Rows of a contract that lies in the drafter's folder go into a folder below it: engines load every safetensors file beside the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from contract.errors import InputRejected
from contract.findings import Where
from eagle3_contract.model.wiring import Owner, Reading
from eagle3_contract.stamp.read import Stamp

if TYPE_CHECKING:
    from eagle3_contract.init.hypotheses import Ground

ROWS: Final = "golden.safetensors"
BELOW: Final = "golden"
CONTRACT: Final = "contract"
"""The usual name of a contract file; golden rows of another one carry its name, so that two contracts can lie in one folder."""


def keep_golden(home: Path, drafter: Path, stamp: Stamp) -> str | None:
    """The rows of a trainer's stamp, named from the contract's folder; None if the stamp has none that are its own."""
    if stamp.golden is None:
        return None
    return (drafter / stamp.golden).resolve().relative_to(home.resolve()).as_posix()


def make_golden(out: Path, home: Path, drafter: Path, reading: Reading, ground: Ground, picked: tuple[int, ...]) -> str | None:
    """Rows of the tool's own forward over the first sample, written below the folder of ``out`` and named from ``home``.

    None if the head is the target's, which golden rows do not hold.

    Raises:
        UserError: the drafter does not run, the sample is too short, or the place cannot be written.
    """
    if reading.wiring.lm_head in (Owner.TARGET, Owner.TIED_TO_TARGET):
        return None
    from eagle3_contract.golden.make import make_rows

    beside = home.resolve() == drafter.resolve()
    name = f"{BELOW}/{_name(out)}" if beside else _name(out)
    place = out.parent / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputRejected(
            f"{place.parent}: {error.strerror}",
            rule="files.write-failed",
            fix="Make room, or name another folder.",
            where=Where(file=str(place.parent)),
        ) from error
    make_rows(place, reading, ground.held[0], picked, ground.source, ground.target)
    return name


def _name(out: Path) -> str:
    return ROWS if out.stem == CONTRACT else f"{out.stem}.{ROWS}"
