"""``python -m tools.conformance [-o FOLDER]``: write every case anew."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from eagle3_contract.model.wiring import Wiring
from tools.conformance.make import Case, make, target_tensors
from tools.conformance.variants import VARIANTS, differs
from tools.conformance.words import config_json, wiring_json

ROOT = Path(__file__).parents[2]
FORMAT = {"format": "eagle3-conformance", "format_version": 1}
TOLERANCE = 1e-5
"""Of max(1, max|logit|) of a row: float32 against float32."""


def write(folder: Path) -> None:
    """Every case, the target's tables, and the index."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(target_tensors(), folder / "target.safetensors")
    for name, wiring in VARIANTS.items():
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        _write_case(place, name, wiring, make(name, wiring))
    _json(folder / "index.json", {**FORMAT, "cases": list(VARIANTS), "tolerance": TOLERANCE, "target": "target.safetensors"})


def _write_case(place: Path, name: str, wiring: Wiring, case: Case) -> None:
    stored = {n.replace("layers.0.", "midlayer.") if wiring.layers == 1 else n: t for n, t in case.tensors.items()}
    drafter = place / "drafter"  # a folder of its own: engines load every safetensors file beside config.json
    drafter.mkdir()
    save_file(stored, drafter / "model.safetensors", metadata={"format": "pt"})
    save_file(case.inputs | case.expected, place / "vectors.safetensors")
    _json(drafter / "config.json", config_json(wiring))
    stated = wiring_json(wiring)
    _json(
        place / "case.json", {**FORMAT, "name": name, "seed": case.seed, "differs": {f: stated[f] for f in differs(name)}, "wiring": stated}
    )


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.conformance")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "specs" / "conformance")
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
