"""`contract diff` starts at once: no torch, no transformers on the way to its report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from factory import pair, write_contract

CODE = """
import sys
from contract.cli.main import main
code = main(["diff", sys.argv[1], sys.argv[2]])
assert not {"torch", "transformers", "numpy.random"} & set(sys.modules), sorted(sys.modules)
raise SystemExit(code)
"""


def test_no_heavy_import(tmp_path: Path) -> None:
    contract = pair().contract
    old = write_contract(tmp_path / "a.yaml", contract)
    contract["wiring"]["feedback"] = "post_norm"
    new = write_contract(tmp_path / "b.yaml", contract)
    ran = subprocess.run([sys.executable, "-c", CODE, str(old), str(new)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "diff.wiring" in ran.stdout
