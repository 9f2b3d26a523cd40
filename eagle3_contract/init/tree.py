"""From the ledger to the tree of a contract file: every required field, unknown with its reason where it is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from contract.files.names import shown
from contract.files.tensors import TensorRef
from contract.findings import Json
from contract.statement import Fact
from eagle3_contract.check.open_drafter import torch_name
from eagle3_contract.drafter.names import D2T, EMBEDDING, HEAD, T2D
from eagle3_contract.drafter.shapes import tensor_shapes
from eagle3_contract.init.ledger import Ledger, text_of
from eagle3_contract.model.fields import field_types
from eagle3_contract.model.names import canonical
from eagle3_contract.model.wiring import Reading

SCHEMA_VERSION: Final = 1
BARE: Final = frozenset(
    {
        "drafter.path", "drafter.files", "wiring.mla", "wiring.rope.scaling", "training.samples.path", "training.samples.count",
        "training.samples.manifest", "acceptance.baselines", "tolerances.states", "tolerances.logits",
    }
)  # fmt: skip
"""Fields that are no statements: the value itself, without evidence."""
EMPTY: Final[Mapping[str, Json]] = {
    "wiring.mla": None, "wiring.rope.scaling": {}, "acceptance.baselines": [], "tolerances.states": None, "tolerances.logits": None,
}  # fmt: skip
NOT_RECORDED: Final = "no file of the training says it"
NOTE_LENGTH: Final = 600
LARGEST: Final = 2**63
"""Whole numbers of a contract have 64 bits."""


def contract_tree(ledger: Ledger, *, golden: Json, tensors: Json) -> dict[str, Json]:
    """The contract as plain data, in the order of the file."""
    tree: dict[str, Json] = {"schema_version": SCHEMA_VERSION, "kind": "eagle3"}
    for path in field_types():
        section, rest = path.split(".", 1)
        if section == "training" and "tensors" not in tree:
            tree["tensors"] = tensors
        if section == "serving" and "golden" not in tree:
            tree["golden"] = golden
        place = tree.setdefault(section, {})
        *inner, last = rest.split(".")
        for part in inner:
            place = place.setdefault(part, {})
        place[last] = field_value(ledger.facts.get(path), path)
    return tree


def field_value(fact: Fact | None, path: str) -> Json:
    """What stands in the file for one field."""
    if path in BARE:
        return fact.value if fact is not None and fact.known else EMPTY.get(path)
    if fact is None:
        return {"unknown": NOT_RECORDED}
    return statement(fact)


def statement(fact: Fact) -> Json:
    """A statement as the file has it; without evidence only where there is none."""
    note = None if fact.note is None else clean(fact.note)
    if not fact.known:
        return {"unknown": clean(fact.reason or NOT_RECORDED)} | ({"note": note} if note else {})
    if fact.evidence is None:
        return fact.value
    return {"value": fact.value, "evidence": fact.evidence} | ({"note": note} if note else {})


def unfit(value: Json) -> str | None:
    """Why a value cannot stand in a contract whatever the field, or None."""
    if isinstance(value, str) and clean(value, len(value) * 10) != value:
        return f"what was found holds characters that act on a reader: {clean(value)}"
    if not _in_range(value):
        return f"what was found is no number that a contract can hold: {clean(text_of(value), 80)}"
    return None


def _in_range(value: Json) -> bool:
    """Whether every number in a value can be written."""
    if isinstance(value, list):
        return all(map(_in_range, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < LARGEST


def clean(text: str, length: int = NOTE_LENGTH) -> str:
    """Text that every reader shows as it is: one line, no character that acts."""
    return shown(text.replace("\n", " "), length) or NOT_RECORDED


def tensor_tree(ledger: Ledger, tensors: Mapping[str, TensorRef], reading: Reading | None, target_dtype: str | None) -> dict[str, Json]:
    """The section ``tensors``: every stored tensor under its canonical name, and the target's that training used in a drafter's place."""
    needed = None if reading is None else tensor_shapes(reading.wiring)
    found: dict[str, Json] = {}
    for name, ref in sorted(((canonical(n), r) for n, r in tensors.items()), key=lambda pair: _order(pair[0])):
        found[name] = {
            "shape": list(ref.shape),
            "dtype": torch_name(ref.dtype),
            "stored": True,
            "used": _used(ledger, name, needed),
            "content": _content(ledger, name),
        }
    for name, rows in ((EMBEDDING, "vocab.target_padded_size"), (HEAD, "vocab.draft_size")):
        if name not in found:
            found[name] = _borrowed(ledger, name, rows, target_dtype)
    return found


def _borrowed(ledger: Ledger, name: str, rows: str, target_dtype: str | None) -> Json:
    owner = ledger.facts.get("wiring.embedding" if name == EMBEDDING else "wiring.lm_head")
    width, count = ledger.value("wiring.hidden_size"), ledger.value(rows)
    known = width is not None and count is not None
    return {
        "shape": [count, width] if known else {"unknown": f"{rows} or wiring.hidden_size is not known"},
        "dtype": target_dtype or {"unknown": "the target's dtype is not known"},
        "stored": False,
        "used": owner.value if owner is not None and owner.known else {"unknown": "whose tensor training used is not known"},
        "content": "target_copy" if owner is not None and owner.value in ("target", "tied_to_target") else _content(ledger, name),
    }


def _used(ledger: Ledger, name: str, needed: Mapping[str, Any] | None) -> Json:
    answered = ledger.facts.get(f"tensors.{name}.used")
    if answered is not None:
        return statement(answered)
    if name in (EMBEDDING, HEAD):
        owner = ledger.facts.get("wiring.embedding" if name == EMBEDDING else "wiring.lm_head")
        if owner is not None and owner.known:
            return owner.value
        return {"unknown": "whose tensor training used is not known"}
    if name == T2D:
        return "not_used"
    if name == D2T:
        return "own"
    if needed is not None:
        return "own" if name in needed else "not_used"
    off = (("norm.weight", "wiring.final_norm"),)
    return "not_used" if any(name == n and ledger.value(p) is False for n, p in off) else "own"


def _content(ledger: Ledger, name: str) -> Json:
    fact = ledger.facts.get(f"tensors.{name}.content")
    if fact is None:
        return {"unknown": "the weights were not looked at"}
    return fact.value if fact.known and fact.evidence == "code_rule" else statement(fact)


def _order(name: str) -> tuple[int, str]:
    first = ("embed_tokens", "input_norm", "fc_norm", "fc.", "layers.", "norm.", "lm_head", "d2t", "t2d")
    return next((i for i, prefix in enumerate(first) if name.startswith(prefix)), len(first)), name
