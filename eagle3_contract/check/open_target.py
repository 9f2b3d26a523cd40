"""Facts of the target from its config.json, its tokenizer and, where its weights are there, the header of its embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contract.errors import InputRejected
from contract.files.checkpoint import Checkpoint
from contract.files.paths import open_path
from contract.files.tensors import TensorRef, TensorTable
from contract.findings import Where
from contract.jsonio import load_json_file
from contract.limits import DEFAULT_LIMITS, Limits
from eagle3_contract.check.context import TargetFacts
from eagle3_contract.check.open_drafter import read_rows
from eagle3_contract.check.target import NOT_OBJECT
from eagle3_contract.drafter.names import EMBEDDING
from eagle3_contract.model.fingerprint import fingerprint
from eagle3_contract.model.target_names import TARGET_EMBEDDING_NAMES, TARGET_FINAL_NORM_NAMES, TARGET_HEAD_NAMES, first_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_PARTS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal targets keep the decoder's keys."""


def read_target(path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> TargetFacts:
    """What a target's folder, or its config.json alone, says.

    Raises:
        InputRejected: the config cannot be read, is no strict JSON or no object; a weight file is unusable.
    """
    place = Path(path)
    folder = place if place.is_dir() else None
    file = place / "config.json" if folder else place
    config = load_json_file(file, limits=limits)
    if not isinstance(config, dict):
        raise InputRejected(
            f"{file} holds {type(config).__name__}, not an object",
            rule=NOT_OBJECT.id,
            fix=NOT_OBJECT.remedy,
            where=Where(file=str(file)),
        )
    text = text_part(config)
    names = {f.name for f in folder.iterdir()} if folder else set()
    checkpoint = Checkpoint.open(place, limits=limits) if any(n.endswith(".safetensors") for n in names) else None
    weights = {} if checkpoint is None else _of_interest(checkpoint.tensors)
    return TargetFacts(
        source=str(path),
        config=config,
        model_type=_string(config.get("model_type")),
        layers=_size(text.get("num_hidden_layers")),
        hidden_size=_size(text.get("hidden_size")),
        vocab_size=_size(text.get("vocab_size")),
        tokenizer_sha256=_tokenizer(folder) if folder and "tokenizer.json" in names else None,
        embedding_rows=_embedding_rows(weights),
        fingerprint=fingerprint(weights),
        rows=(lambda name, indices: _rows(weights, name, indices)) if weights else None,
        problems=() if checkpoint is None else tuple(found.as_check() for found in checkpoint.problems),
    )


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping that holds the decoder's keys: the config itself, or its text part."""
    if "num_hidden_layers" in config:
        return config
    for name in TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, dict):
            return text_part(part)
    return config


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _size(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _tokenizer(folder: Path) -> str:
    with open_path(folder / "tokenizer.json") as opened:
        return f"sha256:{opened.sha256()}"


def _of_interest(tensors: Mapping[str, TensorRef]) -> Mapping[str, TensorRef]:
    """Embedding, head and final norm: of the 200,000 tensors of a large target no table is made for these few."""
    names = (*TARGET_EMBEDDING_NAMES, *TARGET_HEAD_NAMES, *TARGET_FINAL_NORM_NAMES)
    return tensors.pick(names) if isinstance(tensors, TensorTable) else {name: tensors[name] for name in names if name in tensors}


def _embedding_rows(tensors: Mapping[str, TensorRef]) -> int | None:
    name = first_of(TARGET_EMBEDDING_NAMES, tensors)
    return tensors[name].shape[0] if name and tensors[name].shape else None


def _rows(tensors: Mapping[str, TensorRef], name: str, indices: Sequence[int]) -> NDArray[Any] | None:
    """Rows of the embedding or head; a target without a head ties it to the embedding. None beyond the table."""
    embedding = first_of(TARGET_EMBEDDING_NAMES, tensors)
    found = embedding if name == EMBEDDING else first_of(TARGET_HEAD_NAMES, tensors) or embedding
    if found is None or len(tensors[found].shape) != 2 or not indices or not 0 <= min(indices) <= max(indices) < tensors[found].shape[0]:
        return None
    return read_rows(tensors[found], indices)
