"""Which change of which field breaks a promise, and why: the one table behind ``contract diff``.

A change is breaking if somebody who relied on the old contract (an engine that serves the drafter, a pipeline that gates on its figures)
is no longer served by the new one. docs/diff.md prints this table; a test keeps it complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from contract.errors import InternalError


class Judgement(Enum):
    """When a change of a field is breaking. A statement that becomes unknown breaks in every class but ``FREE``."""

    FIXED = "any change"
    KEPT = "changed or removed; additions are free"
    NOT_LOWER = "a lower value"
    NOT_HIGHER = "a higher value, or none"
    FREE = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row. ``*`` in ``pattern`` is any one key, a final ``**`` the rest; ``why`` says why it breaks (``FREE``: why it does not)."""

    pattern: str
    area: str
    judgement: Judgement
    why: str
    digest: bool = False


FIXED, KEPT, NOT_LOWER, NOT_HIGHER, FREE = Judgement


def _row(pattern: str, area: str, judgement: Judgement, why: str, *, digest: bool = False) -> Entry:
    return Entry(pattern=pattern, area=area, judgement=judgement, why=why, digest=digest)


DOCUMENTATION: Final = (".md", ".txt", ".rst", ".png", ".jpg", ".jpeg", ".svg", ".gif", ".webp", ".pdf")
DOCUMENTATION_NAMES: Final = ("readme", "license", "notice", "copying", "changelog", ".gitattributes", ".gitignore")
CHECKPOINT: Final = "another checkpoint: whatever was measured or captured with the old files says nothing about it"
OTHER_TARGET: Final = "another target: its states and tokens are not those that the drafter was trained on"
DATA: Final = "requests in the old form are no longer what training saw"
FIGURE: Final = "the figures no longer mean what they meant; old and new must not be compared"
SERVED: Final = "servers that were set up by the old contract draft otherwise than the new one assumes"
PROVENANCE: Final = "says where the drafter comes from; what follows from it is stated in fields of its own"
TENSOR: Final = "the checkpoint has other tensors, or they are used otherwise: an engine that loaded the old one may drop or replace some"

DOCUMENT_FILE: Final = _row("drafter.files.*", "files", FREE, "documentation: no engine reads it")
TABLE: Final[Sequence[Entry]] = (
    _row("schema_version", "contract", FREE, "the form of the file, not what it says"),
    _row("kind", "contract", FIXED, "another drafter family"),
    _row("drafter.path", "files", FREE, "where the files lie, not what they hold"),
    _row("drafter.files.*", "files", FIXED, CHECKPOINT, digest=True),
    *(_row(f"target.{name}", "target", FIXED, OTHER_TARGET, digest=name in ("tokenizer_sha256", "fingerprint")) for name in (
        "id", "revision", "model_type", "layers", "hidden_size", "dtype", "quantization", "tokenizer_sha256", "fingerprint")),
    _row("hidden_states.boundaries", "recipe", FIXED, "the drafter must be fed other states, or in another order"),
    _row("hidden_states.point", "recipe", FIXED, "the states are taken from another stream"),
    *(_row(f"vocab.{name}", "vocab", FIXED, why) for name, why in (
        ("draft_size", "the head has other rows"),
        ("target_size", "token ids index another vocabulary"),
        ("target_padded_size", "the embedding and the head that an engine shares have other rows"),
        ("present", "engines that read d2t fall back to the identity, or the reverse, and propose other tokens"),
        ("map", "draft ids stand for other tokens"))),
    _row("wiring.**", "wiring", FIXED, "the drafter computes something else with the same weights; an engine set up for the old is wrong"),
    _row("alignment.token_shift", "alignment", FIXED, "states are paired with other tokens"),
    _row("alignment.positions_start", "alignment", FIXED, "rows are rotated at other positions"),
    _row("alignment.step_positions", "alignment", FIXED, "later steps are rotated at other positions"),
    _row("tensors.*", "tensors", FIXED, TENSOR),
    *(_row(f"tensors.*.{name}", "tensors", FIXED, TENSOR) for name in ("shape", "dtype", "stored", "used", "content")),
    *(_row(f"training.{name}", "training", FREE, PROVENANCE) for name in ("trainer", "version", "commit")),
    _row("training.rollout", "training", FIXED, "later steps were fed other tokens in training: they serve another way of drafting"),
    _row("training.max_length", "training", NOT_LOWER, "positions that were trained before are beyond training now"),
    *(_row(f"training.target_state.{name}", "training", FIXED, "the drafter imitates another distribution")
      for name in ("boundary", "normed", "norm_applied_by_trainer")),
    _row("training.data.chat_template_sha256", "training", FIXED, DATA, digest=True),
    _row("training.data.thinking", "training", FIXED, DATA),
    _row("training.data.modality", "training", FIXED, DATA),
    _row("training.data.packed", "training", FREE, "how rows were filled in training; no request is served otherwise for it"),
    _row("training.data.loss_mask_rule", "metrics", FIXED, FIGURE),
    _row("training.samples.path", "samples", FREE, "where the samples lie; their digests are compared"),
    _row("training.samples.count", "samples", NOT_LOWER, "less is verified than before"),
    _row("training.samples.states", "samples", FIXED, "samples are read as other states than before"),
    _row("training.samples.manifest.*", "samples", KEPT, "a sample that was verified is no longer, or is another one", digest=True),
    _row("training.metrics.definition", "metrics", FIXED, FIGURE),
    _row("training.metrics.accuracy", "metrics", NOT_LOWER, "less is claimed than before, so that a worse drafter passes"),
    _row("golden", "golden", KEPT, "the rows that re-prove the forward without samples are gone"),
    _row("golden.file", "golden", FREE, "the name of the file"),
    _row("golden.sha256", "golden", KEPT, "the rows that re-prove the forward are other rows, or nothing says which", digest=True),
    _row("golden.produced_by", "golden", NOT_LOWER, "rows of this tool are a regression test, rows of the trainer a proof"),
    *(_row(f"serving.{name}", "serving", FIXED, SERVED) for name in ("steps", "topk", "draft_tokens")),
    *(_row(f"acceptance.{name}", "acceptance", FIXED, FIGURE)
      for name in ("aggregation", "counts_bonus", "counts_prefill", "k", "temperature")),
    _row("acceptance.floor", "acceptance", NOT_LOWER, "a drafter that was refused before passes now"),
    _row("acceptance.baselines.*", "acceptance", KEPT, "a figure that was held against the drafter is gone"),
    _row("acceptance.baselines.*.engine", "acceptance", FIXED, FIGURE),
    _row("acceptance.baselines.*.value", "acceptance", NOT_LOWER, "less is expected of that engine than before"),
    _row("acceptance.baselines.*.source", "acceptance", FREE, "where the figure is from"),
    _row("tolerances.states", "tolerances", NOT_HIGHER, "states that were refused before pass now"),
    _row("tolerances.logits", "tolerances", NOT_HIGHER, "logits that were refused before pass now"),
)  # fmt: skip
AREAS: Final = tuple(dict.fromkeys(entry.area for entry in TABLE))


def entry_of(key: Sequence[str]) -> Entry:
    """The row for a path.

    Raises:
        InternalError: the table has none, so that a field of the contract was never judged.
    """
    if tuple(key[:2]) == ("drafter", "files") and _documentation(key[2]):
        return DOCUMENT_FILE
    for entry in TABLE:
        if matches(entry.pattern, key):
            return entry
    raise InternalError(f"diff has no row for {'.'.join(key)}")


def matches(pattern: str, key: Sequence[str]) -> bool:
    """Whether a pattern's parts are those of a path (whose keys may hold dots)."""
    parts = pattern.split(".")
    if parts[-1] == "**":
        parts, key = parts[:-1], key[: len(parts) - 1]
    return len(parts) == len(key) and all(part in ("*", name) for part, name in zip(parts, key, strict=True))


def _documentation(name: str) -> bool:
    low = name.rpartition("/")[2].lower()
    return low.endswith(DOCUMENTATION) or low.split(".")[0] in DOCUMENTATION_NAMES or low in DOCUMENTATION_NAMES
