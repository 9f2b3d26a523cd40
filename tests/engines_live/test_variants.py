"""The variants that the job runs are those whose outcomes are committed; their files say what the row says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from tests.readings.test_further import FURTHER
from tools.engines import variants_sglang, variants_vllm
from tools.engines.drafters import DRAFT_VOCAB, VOCAB, Variant, config_of, kept, offsets, seen, tensors_of, write
from tools.engines.observe import headers, own_tensors
from tools.engines.target_configs import TARGETS

VARIANTS = {"sglang": variants_sglang.VARIANTS, "vllm": variants_vllm.VARIANTS}


@pytest.mark.parametrize("engine", sorted(VARIANTS))
def test_every_variant_is_recorded_as_it_is_today(engine: str) -> None:
    recorded = {r["id"]: r for r in FURTHER[engine]}
    assert sorted(recorded) == sorted(v.name for v in VARIANTS[engine])
    for variant in VARIANTS[engine]:
        row = recorded[variant.name]
        assert row["drafter_config"] == json.loads(json.dumps(config_of(variant))), variant.name
        assert row["target_config"] == TARGETS[variant.target], variant.name
        assert row["flags"] == variant.flags, variant.name
        held = {(t["name"], tuple(t["shape"])) for t in row["drafter_header"]}
        assert held == {(n, tuple(t.shape)) for n, t in tensors_of(variant).items()}, variant.name


def test_the_map_is_one_map() -> None:
    assert kept().tolist() == sorted(set(kept().tolist()))
    assert seen().nonzero().flatten().tolist() == kept().tolist()
    assert [i + d for i, d in enumerate(offsets().tolist())] == kept().tolist()
    assert len(kept()) == DRAFT_VOCAB
    assert len(seen()) == VOCAB


def test_a_second_file_has_the_same_name_and_other_values(tmp_path: Path) -> None:
    variant = Variant(name="twice", files=lambda n: ("a.safetensors", "b.safetensors") if n == "fc.weight" else ("a.safetensors",))
    write(variant, tmp_path / "d", tmp_path)
    own = own_tensors(tmp_path / "d")
    assert own["fc.weight"].shape == own["fc.weight [b.safetensors]"].shape
    assert not own["fc.weight"].equal(own["fc.weight [b.safetensors]"])
    assert sum(h["name"] == "fc.weight" for h in headers(tmp_path / "d")) == 2


def test_a_sharded_drafter_has_its_index(tmp_path: Path) -> None:
    write(Variant(name="shards", files=variants_sglang.sharded), tmp_path / "d", tmp_path)
    index = json.loads((tmp_path / "d" / "model.safetensors.index.json").read_text())["weight_map"]
    for name, file in index.items():
        with safe_open(tmp_path / "d" / file, "pt") as held:
            assert name in held.keys()  # noqa: SIM118 - safe_open is no mapping
