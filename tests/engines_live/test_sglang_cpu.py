"""What lets SGLang run on a CPU is made ready when SGLang is imported, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tools" / "engines" / "sglang_cpu"
IMPORT = """
import sys
print("torch" in sys.modules)
try:
    import sglang
except ModuleNotFoundError:
    pass
import torch
print(hasattr(torch.ops.torchvision, "nms"), torch.cuda.synchronize() is None)
"""


def run(code: str) -> list[str]:
    env = os.environ | {"PYTHONPATH": str(FOLDER)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split()


def test_the_first_search_for_sglang_prepares_torch() -> None:
    assert run(IMPORT) == ["False", "True", "True"]


def test_other_programs_are_left_alone() -> None:
    assert run("import sys, json\nprint('torch' in sys.modules)") == ["False"]
