"""The static commands, on files that they really read to the end, import neither torch nor transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from factory import pair

PROBE = """
import sys
from contract.cli.main import main
code = main(sys.argv[1:])
heavy = sorted(m for m in ("torch", "transformers", "tokenizers") if m in sys.modules)
print(f"exit {code} heavy {heavy}", file=sys.stderr)
"""
TARGET = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96}


@pytest.fixture(scope="module")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import json

    folder = tmp_path_factory.mktemp("static") / "drafter"
    pair().write(folder)
    (folder.parent / "target.json").write_text(json.dumps(TARGET))
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["check", "{d}/contract.yaml"], 0),
        (["check", "{d}/contract.yaml", "--integrity", "digests", "--format", "json"], 0),
        (["check", "{d}/contract.yaml", "--engine", "sglang==0.5.23", "--target", "{d}/../target.json"], 0),
        (["read", "{d}", "--engine", "sglang==0.5.23", "--engine", "vllm==0.32.0", "--target", "{d}/../target.json"], 0),
        (["show", "{d}/contract.yaml"], 0),
        (["explain", "states.recipe"], 0),
        (["explain"], 0),
        (["schema"], 0),
        (["version"], 0),
    ],
    ids=lambda v: " ".join(v[:2]) if isinstance(v, list) else "",
)
def test_no_torch(drafter: Path, arguments: list[str], code: int) -> None:
    command = [a.replace("{d}", str(drafter)) for a in arguments]
    done = subprocess.run([sys.executable, "-c", PROBE, *command], capture_output=True, text=True, check=False)
    assert f"exit {code} heavy []" in done.stderr, done.stderr[-2000:] + done.stdout[-2000:]
