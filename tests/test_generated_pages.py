"""Generated pages are current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_contract_reference_is_current() -> None:
    command = [sys.executable, "-m", "tools.generate_contract_reference", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run python -m tools.generate_contract_reference"
