"""The text of ``contract read``: every default, every ignored key and every tensor that does not arrive is marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eagle3_contract.readings.engines import read
from eagle3_contract.readings.reading import TensorFate
from eagle3_contract.readings.rules import Fate
from eagle3_contract.readings.text import differences_text, reading_text, readings_text
from tests.readings.drafters import drafter, target


def marked(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if line.startswith("!")]


def test_defaults_ignored_keys_and_tensors_are_marked() -> None:
    view = drafter(
        eagle_aux_hidden_state_layer_ids=[1, 3, 5],
        norm_before_residual=True,
        tensors={"fc.weight": ..., "extra.weight": ("BF16", [3]), "embed_tokens.weight": ("BF16", [256, 64])},
    )
    (reading,) = read(view, "sglang==0.5.23", target())
    found = marked(reading_text(reading))
    for name in (
        "hidden_states.boundaries",
        "eagle_aux_hidden_state_layer_ids",
        "norm_before_residual",
        "fc.weight",
        "extra.weight",
        "embed_tokens.weight",
    ):
        assert name in found
    for name in ("rope.theta", "wiring.norm_before_residual", "layers", "t2d", "d2t"):
        assert name not in found


def test_a_refusal_is_said_first_with_its_source() -> None:
    (reading,) = read(drafter(architectures=["Nobody"]), "sglang==0.5.23", target())
    lines = reading_text(reading).splitlines()
    assert lines[0].endswith("error_at_load")
    assert "Cannot find model module" in lines[1]
    assert "models/registry.py" in lines[2]


def test_two_readings_end_with_what_differs() -> None:
    readings = read(drafter(eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 9, 20]}), "vllm", target())
    text = readings_text(readings)
    row = next(line for line in text[text.index("where the readings differ") :].splitlines() if line.startswith("hidden_states.boundaries"))
    assert row.split(None, 1)[1].replace("  ", "") == "[1, 9, 20][2, 16, 29]"
    assert "agree in every field" in readings_text([readings[0], readings[0]])


def test_two_versions_show_what_the_upgrade_changes() -> None:
    """SGLang 0.5.13 stopped adding one to the ids of a DeepSeek target; 0.5.12 was the first to know tensors called layers.0."""
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}}
    kimi = target("DeepseekV3ForCausalLM", 61)
    both = [r for e in ("sglang==0.5.12", "sglang==0.5.13") for r in read(drafter(**ids), e, kimi)]
    text = differences_text(both)
    assert text.startswith("what the upgrade changes for this drafter")
    row = next(line for line in text.splitlines() if line.startswith("hidden_states.boundaries"))
    assert "[3, 31, 59]" in row
    assert "[2, 30, 58]" in row
    same = [r for e in ("sglang==0.5.22", "sglang==0.5.23") for r in read(drafter(), e, target("Qwen3ForCausalLM"))]
    assert "changes nothing" in differences_text(same)


class Counted(tuple[TensorFate, ...]):
    """Fates that count how often they are gone through."""

    passes = 0

    def __iter__(self) -> Iterator[TensorFate]:
        type(self).passes += 1
        return super().__iter__()


def test_the_fate_that_counts_is_found_without_a_search_for_each_tensor() -> None:
    shadowed = [TensorFate(name=f"t{i}", fate=Fate.SHADOWED, file="a") for i in range(300)]
    counted = Counted([*shadowed, *(replace(t, fate=Fate.LOADED, file="b") for t in shadowed[1:]), replace(shadowed[2], fate=Fate.DROPPED)])
    readings = [replace(read(drafter(), engine, target())[0], tensors=counted) for engine in ("vllm", "sglang")]
    fates = readings[0].fates()
    assert (len(fates), fates["t0"], fates["t1"], fates["t2"]) == (300, Fate.SHADOWED, Fate.LOADED, Fate.LOADED)
    assert (readings[0].fate("t1"), readings[0].fate("none")) == (Fate.LOADED, None)
    Counted.passes = 0
    differences_text(readings)
    assert Counted.passes < 10
