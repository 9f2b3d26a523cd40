"""Write the table of cases in docs/conformance.md: ``python -m tools.conformance.page [--check]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from eagle3_contract.drafter.drafter import rotary_dim
from eagle3_contract.model.wiring import Attention, LaterLayerNorm, Wiring
from eagle3_contract.readings.engines import read
from eagle3_contract.readings.forward import CannotRun, to_reading
from eagle3_contract.readings.load import load_drafter
from tools.conformance.variants import PLAIN, VARIANTS, differs
from tools.conformance.words import wiring_json

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "conformance.md"
CASES: Final = ROOT / "specs" / "conformance"
BEGIN: Final = "<!-- cases: made by python -m tools.conformance.page -->\n"
END: Final = "<!-- end of cases -->\n"
ENGINES: Final = ("vllm[v1]==0.32.0", "sglang==0.5.23")


def table() -> str:
    """The cases, where each differs from the plain one, and what the readings of engines make of its files."""
    rows = [f"| case | differs in | {' | '.join(f'`{e}`' for e in ENGINES)} |", "|---|---|" + "---|" * len(ENGINES)]
    for name, wiring in VARIANTS.items():
        stated, plain = wiring_json(wiring), wiring_json(PLAIN)
        changed = ", ".join(f"`{f}` {_text(stated[f], plain[f])}" for f in differs(name)) or "nothing"
        rows.append(f"| {name} | {changed} | {' | '.join(_as_read(name, wiring, engine) for engine in ENGINES)} |")
    return "\n".join(rows) + "\n"


def _text(value: Any, plain: Any) -> str:
    if isinstance(value, dict) and isinstance(plain, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items() if v != plain[k])
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)
    return ", ".join(value) if isinstance(value, list) else str(value)


def _as_read(name: str, wiring: Wiring, engine: str) -> str:
    """``as training``, or what the engine would do instead."""
    reading = read(load_drafter(CASES / name / "drafter"), engine, target_config(wiring))[0]
    made = to_reading(reading)
    if isinstance(made, CannotRun):
        return made.reason.removeprefix(reading.reader).lstrip(": ").replace("|", "/")
    ours, theirs = _comparable(wiring), _comparable(made.wiring)
    wrong = [f.name for f in fields(Wiring) if getattr(ours, f.name) != getattr(theirs, f.name)]
    words = wiring_json(theirs)
    return "as training" if not wrong else "runs with " + ", ".join(f"`{n}` {_text(words[n], wiring_json(ours)[n])}" for n in wrong)


def _comparable(wiring: Wiring) -> Wiring:
    """Without what makes no difference to a forward: a default that is written out, a norm of layers that there are not."""
    if wiring.attention is Attention.MLA:
        wiring = replace(wiring, head_dim=0)
    if wiring.layers == 1:
        wiring = replace(wiring, later_layer_norm=LaterLayerNorm.NONE)
    return replace(wiring, rope=replace(wiring.rope, rotary_dim=rotary_dim(wiring), table_length=None))


def target_config(wiring: Wiring) -> dict[str, Any]:
    """The config.json of a target that fits: Llama, or DeepSeek for latent attention."""
    latent = wiring.attention is Attention.MLA
    return {
        "architectures": ["DeepseekV3ForCausalLM" if latent else "LlamaForCausalLM"],
        "model_type": "deepseek_v3" if latent else "llama",
        "num_hidden_layers": 8,
        "hidden_size": wiring.target_hidden_size,
        "vocab_size": wiring.target_vocab_size,
        "max_position_embeddings": 64,
        "torch_dtype": "float32",
    }


def page() -> str:
    """The page with its table made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


def main(arguments: Sequence[str]) -> int:
    made = page()
    if "--check" in arguments:
        return int(made != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
