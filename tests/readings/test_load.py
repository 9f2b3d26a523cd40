"""From a folder to what a reading looks at."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from contract.errors import InputRejected
from contract.files.writing import write_safetensors
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.load import load_config, load_drafter, load_target
from eagle3_contract.readings.rules import Fate
from tests.readings.drafters import config, headers, target


def write(folder: Path, name: str, tensors: dict[str, tuple[str, list[int]]], offsets: list[int] | None = None) -> None:
    sizes = {"BF16": 2, "I64": 8, "BOOL": 1}
    arrays = {}
    for tensor, (dtype, shape) in tensors.items():
        count = 1
        for size in shape:
            count *= size
        data = struct.pack(f"<{count}q", *offsets) if tensor == "d2t" and offsets else bytes(count * sizes[dtype])
        arrays[tensor] = (dtype, shape, data)
    write_safetensors(folder / name, arrays)


def test_a_folder_is_read_with_the_span_of_its_map(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config()))
    write(tmp_path, "model.safetensors", headers(), offsets=[2 * i for i in range(128)])
    view = load_drafter(tmp_path)
    assert view.name == tmp_path.name
    assert view.d2t_span == (0, 3 * 127)
    (reading,) = read(view, "sglang==0.5.23", target())
    assert reading.outcome == "error_at_first_request"
    assert "outside the target's vocabulary" in str(reading.error)


def test_a_second_file_with_the_same_tensor_wins_and_the_first_is_shadowed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config()))
    write(tmp_path, "model.safetensors", headers())
    write(tmp_path, "zz.safetensors", {"lm_head.weight": ("BF16", [128, 64])})
    (reading,) = read(load_drafter(tmp_path), "sglang==0.5.23", target())
    fates = {t.file: t.fate for t in reading.tensors if t.name == "lm_head.weight"}
    assert fates == {"model.safetensors": Fate.SHADOWED, "zz.safetensors": Fate.LOADED}


def test_a_target_is_its_folder_or_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"num_hidden_layers": 61}, "architectures": ["A"]}))
    for place in (tmp_path, tmp_path / "config.json"):
        found = load_target(place)
        assert (found.get("num_hidden_layers"), found.get("architecture")) == (61, "A")


def test_a_config_that_is_no_object_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputRejected) as caught:
        load_config(tmp_path)
    assert caught.value.rule == "drafter.config-not-object"
    with pytest.raises(InputRejected) as caught:
        load_target(tmp_path)
    assert caught.value.rule == "target.config-not-object"
