"""A workspace as the examples know it: drafter/, target/, and on the path `contract` and servers that only say that they ran."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from factory import pair

ROOT = Path(__file__).parents[2]
TARGET = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 8, "hidden_size": 32, "vocab_size": 96}
TARGET |= {"max_position_embeddings": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 64}
STUB = '#!/bin/sh\nprintf "%s\\n" "$0" "$@" > "{started}"\nexit 0\n'


@dataclass
class Workspace:
    """``run(script)`` runs a shell script in it, as a CI job or a reader would."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def started(self) -> list[str]:
        """The words of the last server command; empty if none was started."""
        path = self.root / "started.txt"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, script: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        found = {**self.environ, **(environ or {})}
        return subprocess.run(line, cwd=self.root, env=found, capture_output=True, text=True, check=False)

    def miswire(self) -> None:
        """Write layer ids that SGLang reads otherwise than training meant; the contract lists the file as it is now."""
        shutil.rmtree(self.root / "drafter")
        pair(ids=(2, 4, 5)).write(self.root / "drafter")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    pair().write(root / "drafter")
    (root / "target").mkdir()
    (root / "target" / "config.json").write_text(json.dumps(TARGET))
    return root


@pytest.fixture
def workspace(template: Path, tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    shutil.copytree(template, root)
    programs = tmp_path / "bin"
    programs.mkdir()
    _program(programs / "contract", f"#!/bin/sh\nexec '{sys.executable}' -m contract \"$@\"\n")
    for name in ("vllm", "sglang"):
        _program(programs / name, STUB.format(started=root / "started.txt"))
    # `python -m sglang.launch_server` is a server; every other `python` is this one.
    server = STUB.format(started=root / "started.txt").removeprefix("#!/bin/sh\n")
    _program(programs / "python", f'#!/bin/sh\nif [ "$2" != sglang.launch_server ]; then exec \'{sys.executable}\' "$@"; fi\n{server}')
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("CONTRACT_", "GITHUB_"))}
    return Workspace(root, {**environ, "PATH": f"{programs}:{os.environ['PATH']}"})


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def validate(schema: str, *files: Path, more: Sequence[str] = ()) -> None:
    """Against a schema that check-jsonschema carries (SchemaStore's, by which editors judge these files)."""
    line = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *more, *map(str, files)]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
