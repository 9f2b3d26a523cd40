"""What ``--target`` tells: config, tokenizer, fingerprint; and readers for its embedding, head and final norm.

No torch until a row is read.

Legend: G target hidden size, V rows of the embedding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contract.files.checkpoint import Checkpoint
from contract.files.tensors import TensorRef
from contract.findings import Json
from contract.limits import DEFAULT_LIMITS, Limits
from contract.statement import Evidence
from eagle3_contract.check.context import TargetFacts as ConfigFacts
from eagle3_contract.check.open_drafter import torch_name
from eagle3_contract.check.open_target import read_target, text_part
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.model.target_names import TARGET_EMBEDDING_NAMES, TARGET_FINAL_NORM_NAMES, TARGET_HEAD_NAMES, first_of

if TYPE_CHECKING:
    from torch import Tensor

_SNAPSHOT: Final = re.compile(r"models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)/snapshots/(?P<revision>[0-9a-f]{40})(?:/|$)")
"""How the Hugging Face cache lays out what it fetched."""
GEMMA_TYPES: Final = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text", "recurrent_gemma"})
"""Families whose norms multiply by 1 + weight (transformers modeling_gemma2.py, Gemma2RMSNorm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTarget:
    """A target as given: its config, and its weights where a folder was given that holds some."""

    path: str
    config: ConfigFacts
    checkpoint: Checkpoint | None

    @property
    def tensors(self) -> Mapping[str, TensorRef]:
        return {} if self.checkpoint is None else self.checkpoint.tensors

    @property
    def embedding(self) -> TensorRef | None:
        return self._first(TARGET_EMBEDDING_NAMES)

    @property
    def head(self) -> TensorRef | None:
        """The head; the embedding where it is tied."""
        return self._first(TARGET_HEAD_NAMES) or self.embedding

    @property
    def final_norm(self) -> TensorRef | None:
        return self._first(TARGET_FINAL_NORM_NAMES)

    @property
    def norm_offset(self) -> float:
        """What the final norm adds to its weight."""
        return 1.0 if self.config.model_type in GEMMA_TYPES else 0.0

    def _first(self, names: tuple[str, ...]) -> TensorRef | None:
        name = first_of(names, self.tensors)
        return None if name is None else self.tensors[name]


def open_target(path: str, *, limits: Limits = DEFAULT_LIMITS) -> OpenTarget:
    """Read a target's folder, or its config.json alone.

    Raises:
        InputRejected: a file is missing, hostile or malformed.
    """
    config = read_target(path, limits=limits)
    folder = Path(path)
    weights = folder.is_dir() and any(p.suffix == ".safetensors" for p in folder.iterdir())
    return OpenTarget(path=path, config=config, checkpoint=Checkpoint.open(folder, limits=limits) if weights else None)


def state_target(ledger: Ledger, target: OpenTarget) -> None:
    """State every field of the section ``target`` that the target tells, and the padded vocabulary."""
    facts, where = target.config, "the target's config.json"
    for path, value, key in (
        ("target.model_type", facts.model_type, "model_type"),
        ("target.layers", facts.layers, "num_hidden_layers"),
        ("target.hidden_size", facts.hidden_size, "hidden_size"),
        ("vocab.target_size", facts.vocab_size, "vocab_size"),
    ):
        if value is not None:
            ledger.know(path, value, "config", f"{key} of {where}")
    _named(ledger, target.path)
    quantised = facts.config.get("quantization_config", text_part(facts.config).get("quantization_config"))
    ledger.fill("target.quantization", *_quantisation(quantised))
    if facts.tokenizer_sha256 is not None:
        ledger.know("target.tokenizer_sha256", facts.tokenizer_sha256, "measured", "tokenizer.json of the target")
    else:
        ledger.leave_open("target.tokenizer_sha256", "the target's folder holds no tokenizer.json")
    if facts.fingerprint is not None:
        ledger.know("target.fingerprint", facts.fingerprint, "measured", "eagle3_contract/model/fingerprint.py on the target's weights")
    else:
        ledger.leave_open("target.fingerprint", "the target was given without weights under names that are known")
    if target.embedding is not None:
        ledger.know("vocab.target_padded_size", target.embedding.shape[0], "measured", "rows of the target's embedding")
    if not any(part in facts.config for part in ("vision_config", "audio_config", "vision_tower", "mm_vision_tower")):
        ledger.fill("training.data.modality", "text", "code_rule", "the target has no vision or audio part")


def rows_of(ref: TensorRef) -> Callable[[Tensor], Tensor]:
    """A reader of rows [n, G] by ids [n]; only these are read."""
    from contract.files.torch_tensors import load_rows

    return lambda ids: load_rows(ref, ids.tolist())


def target_dtype(target: OpenTarget) -> str | None:
    """The dtype that the config names, else that of the stored embedding."""
    text = text_part(target.config.config)
    for holder in (text, target.config.config):
        named = holder.get("dtype", holder.get("torch_dtype"))
        if isinstance(named, str) and named != "auto":
            return named.removeprefix("torch.")
    return None if target.embedding is None else torch_name(target.embedding.dtype)


def _quantisation(config: Json) -> tuple[str, Evidence, str]:
    if isinstance(config, Mapping):
        method = config.get("quant_method")
        if isinstance(method, str) and method:
            return method, "config", "quantization_config.quant_method of the target's config.json"
        return "of an unnamed method", "config", "quantization_config of the target's config.json names no quant_method"
    return "none", "config", "the target's config.json has no quantization_config"


def _named(ledger: Ledger, path: str) -> None:
    found = _SNAPSHOT.search(str(Path(path).absolute()) + "/")
    if found is not None:
        ledger.fill("target.id", f"{found['owner']}/{found['name']}", "config", "the folder of the Hugging Face cache")
        ledger.fill("target.revision", found["revision"], "config", "the folder of the Hugging Face cache")
