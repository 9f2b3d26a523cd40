"""What a run leaves beside its checkpoints and dumps: run configs and machine-readable logs.

======================  =============================  ======================================================================
file                    written by                     read from it
======================  =============================  ======================================================================
``data_config.json``    speculators 0.2 to 0.4         ``hidden_states.layer_ids`` (the last id is the last state), ``model.
                        (0.3.0 config_generator.py)    target_model_path``, ``data.seq_length``
``run.yaml``            speculators 0.9 (train/        ``target_layer_ids``, ``total_seq_len``, ``verifier_name_or_path``;
                        config/artifacts.py)           defaults are left out of it
``val_metrics.json``    speculators 0.9 (train/        ``full_acc_{i}_epoch``: claimed accuracies
                        checkpointer.py:173)
a run config with       SpecForge 0.2.0 (config/       ``model.aux_hidden_state_layer_ids``, ``data.max_length``,
``model`` and           schema.py:72)                  ``model.target_model_path``
``training``
======================  =============================  ======================================================================

They are looked for in the folders of the drafter and the samples and in those right above, never deeper.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from contract.errors import InputRejected, UserError
from contract.findings import Json
from contract.jsonio import load_json_file
from contract.limits import DEFAULT_LIMITS, Limits
from contract.source import read_yaml
from contract.source.nodes import to_plain
from eagle3_contract.init.ledger import Ledger
from eagle3_contract.trainers.base import Trainer
from eagle3_contract.trainers.reading import BOUNDARIES
from eagle3_contract.trainers.versions import release

SPECULATORS: Final = "speculators"
SPECFORGE: Final = "specforge"
_FULL_ACC: Final = re.compile(r"full_acc_(\d{1,3})(?:_epoch)?")
_YAMLS: Final = 32
"""YAML files that are looked at in one folder."""


def read_run_files(ledger: Ledger, folders: Iterable[Path], trainer: Trainer, *, skip: Path, limits: Limits = DEFAULT_LIMITS) -> None:
    """State what the run's own files say. Only files of the trainer that wrote the checkpoint count.

    Args:
        skip: the contract that is about to be replaced.
    """
    for path in _files(folders, skip):
        try:
            tree = _tree(path, limits)
        except InputRejected:
            continue  # what is no strict JSON or YAML is no run file of these
        if not isinstance(tree, Mapping):
            continue
        if trainer.name == SPECULATORS:
            _speculators(ledger, path, tree, trainer)
        elif trainer.name == SPECFORGE:
            _specforge(ledger, path, tree, trainer)


def _files(folders: Iterable[Path], skip: Path) -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in folders:
        for pattern in ("data_config.json", "val_metrics.json", "*.yaml", "*.yml"):
            for path in sorted(folder.glob(pattern))[:_YAMLS]:
                real = Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links in a circle
                if real not in seen and path.is_file() and real != skip.resolve():
                    seen.add(real)
                    yield path


def _tree(path: Path, limits: Limits) -> Json:
    if path.suffix == ".json":
        return load_json_file(path, limits=limits)
    return to_plain(read_yaml(path, limits=limits).root)


def _speculators(ledger: Ledger, path: Path, tree: Mapping[str, Json], trainer: Trainer) -> None:
    if path.name == "data_config.json":
        _dump_config(ledger, path, tree, trainer)
    elif path.name == "val_metrics.json":
        found = {int(m[1]): v for k, v in tree.items() if (m := _FULL_ACC.fullmatch(k)) and isinstance(v, int | float) and 0 <= v <= 1}
        if found and sorted(found) == list(range(len(found))):
            ledger.fill("training.metrics.accuracy", [float(found[i]) for i in range(len(found))], "config", f"full_acc_* in {path.name}")
    elif isinstance(tree.get("train"), Mapping):
        run = tree["train"]
        _size(ledger, "training.max_length", _find(run, "total_seq_len"), f"total_seq_len in {path.name}")
        _text(ledger, "target.id", _find(run, "verifier_name_or_path"), f"verifier_name_or_path in {path.name}")
        _ids(ledger, _find(run, "target_layer_ids"), trainer, path, "target_layer_ids")


def _dump_config(ledger: Ledger, path: Path, tree: Mapping[str, Json], trainer: Trainer) -> None:
    _text(ledger, "target.id", _find(tree.get("model"), "target_model_path"), f"model.target_model_path in {path.name}")
    _size(ledger, "training.max_length", _find(tree.get("data"), "seq_length"), f"data.seq_length in {path.name}")
    ids = _find(tree.get("hidden_states"), "layer_ids")
    if isinstance(ids, list) and len(ids) > 1:
        # The dump's version decides what an id means, not the version that trained on it later.
        version = tree.get("speculators_version")
        _ids(ledger, ids[:-1], trainer, path, "hidden_states.layer_ids without the last one, which is the last state", version)


def _specforge(ledger: Ledger, path: Path, tree: Mapping[str, Json], trainer: Trainer) -> None:
    model, data = tree.get("model"), tree.get("data")
    if not (isinstance(model, Mapping) and isinstance(data, Mapping) and "training" in tree):
        return
    _text(ledger, "target.id", model.get("target_model_path"), f"model.target_model_path in {path.name}")
    _size(ledger, "training.max_length", data.get("max_length"), f"data.max_length in {path.name}")
    _ids(ledger, model.get("aux_hidden_state_layer_ids"), trainer, path, "model.aux_hidden_state_layer_ids")


def _ids(ledger: Ledger, ids: Json, trainer: Trainer, path: Path, key: str, version: Json = None) -> None:
    layers, version = ledger.value("target.layers"), version or ledger.value("training.version")
    if trainer.name == SPECULATORS and release(version) is None:
        return  # an id means one layer more before 0.5
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        return
    try:
        recipe = trainer.ids_to_boundaries(ids, layers if layers is not None else max(ids) + 1, version)
    except UserError as error:
        ledger.notes.append(f"{path.name}: {error.message}")
        return
    before = ledger.facts.get(BOUNDARIES)
    if before is not None and before.known and before.value != list(recipe):
        ledger.contradict(BOUNDARIES, before, list(recipe), f"{key} in {path.name}")
        return
    ledger.know(BOUNDARIES, recipe, "config", f"{key} in {path.name}, in the numbering of {trainer.name}")


def _size(ledger: Ledger, field: str, value: Json, note: str) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        ledger.fill(field, value, "config", note)


def _text(ledger: Ledger, field: str, value: Json, note: str) -> None:
    if isinstance(value, str) and value:
        ledger.fill(field, value, "config", note)


def _find(tree: Any, key: str) -> Json:
    """The first value of a key in a mapping or the mappings right inside it."""
    if not isinstance(tree, Mapping):
        return None
    if key in tree:
        return tree[key]
    return next((part[key] for part in tree.values() if isinstance(part, Mapping) and key in part), None)
