"""Why a change may go unnoticed. Everything that is not here must be noticed by some check."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Final

FIELDS: Final[dict[str, str]] = {
    "target.id": "a name; the target is told by its fingerprint, sizes and tokenizer",
    "target.dtype": "the dtype that the states were made in; the stored samples are compared as they are",
    "wiring.later_layer_norm": "the drafter has one layer",
    "wiring.window_follows_steps": "the drafter has no window",
    "alignment.positions_start": "rotations depend on differences of positions only; an engine's reading is compared with it (`--engine`)",
    "tensors.embed_tokens.weight.*": "the drafter does not store it (`stored: false`); rows are the target's, which has a fingerprint",
    "training.trainer": "provenance; a name that no adapter knows is read by the generic one",
    "training.version": "provenance",
    "training.max_length": "a bound on what was trained; engines' tables are compared with `wiring.rope.table_length`",
    "training.target_state.*": "the embedded samples say themselves which state their last one is",
    "training.data.packed": "provenance; the samples carry their document ids",
    "serving.*": "compared with an engine's flags only (`--engine`, `--serve-args`)",
    "acceptance.counts_bonus": "how a measured figure is to be read; compared where an engine's acceptance is measured",
    "acceptance.counts_prefill": "as `counts_bonus`",
    "acceptance.k": "as `counts_bonus`",
    "acceptance.temperature": "as `counts_bonus`",
    "tolerances.*": "a policy's ceilings bound it; without a capture nothing is compared under it",
}
BYTES: Final[dict[str, str]] = {
    "*/golden/golden.safetensors": "a low bit of one stored number, within the tolerance of the comparison",
}


def _reason(table: dict[str, str], name: str) -> str | None:
    return next((why for pattern, why in table.items() if fnmatch(name, pattern)), None)


def reason_for_field(path: str) -> str | None:
    """The reason for a field of the contract, or None."""
    return _reason(FIELDS, path)


def reason_for_bytes(file: str) -> str | None:
    """The reason for a byte of a file, or None."""
    return _reason(BYTES, file)
