"""The Dockerfile, without a container engine: its stages, what it copies, the wheel it builds, and its entry point."""

from __future__ import annotations

import fnmatch
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .conftest import ROOT, Workspace

LINES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
INSTRUCTIONS = [line.split(None, 1) for line in LINES if line.strip() and not line.startswith("#")]


def of(name: str) -> list[str]:
    return [rest for word, rest in INSTRUCTIONS if word == name]


def test_stages() -> None:
    stages = {words[2]: words[0] for words in (rest.split() for rest in of("FROM")) if words[1] == "AS"}
    assert list(stages) == ["build", "base", "full", "static"]
    assert (stages["full"], stages["static"]) == ("base", "base")
    assert of("USER") == ["contract", "contract"], "neither image runs as root"


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [word for rest in of("COPY") if not rest.startswith("--from") for word in rest.split()[:-1]]
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the command of the build stage, from just the files that it copies."""
    folder = tmp_path_factory.mktemp("src")
    for rest in of("COPY")[:3]:
        for source in rest.split()[:-1]:
            place = ROOT / source
            if place.is_dir():
                shutil.copytree(place, folder / source, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(place, folder / source)
    words = shlex.split(of("RUN")[0].replace("/wheels", str(folder / "wheels")))
    assert words[0] == "python"
    subprocess.run([sys.executable, *words[1:], "--no-build-isolation", "--quiet"], cwd=folder, check=True)
    (built,) = (folder / "wheels").glob("*.whl")
    return built


def test_the_wheel_has_both_packages_and_the_demo_and_needs_no_torch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith("METADATA"))
        points = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    for wanted in ("contract/py.typed", "contract/cli/main.py", "eagle3_contract/kind.py", "eagle3_contract/demo/data/target/config.json"):
        assert wanted in names, wanted
    assert not [name for name in names if name.startswith(("tests/", "tools/", "docs/"))]
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert required
    assert not [line for line in required if "torch" in line or "transformers" in line]
    assert all(group in points for group in ("[contract.kinds]", "[pytest11]", "[console_scripts]"))


def test_the_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import contract; print(contract.__file__)\n"
    code += "from contract.cli.main import main; sys.exit(main(['doctor']))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith(str(tmp_path))


@pytest.mark.slow
def test_the_static_image_in_a_fresh_environment(wheel: Path, workspace: Workspace, tmp_path: Path) -> None:
    """What the static stage installs, by its own command: checks drafters, has no torch."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    line = of("RUN")[-1].partition("&&")[0]
    line = line.replace("/wheels/*.whl", str(wheel)).replace("/tmp/constraints.txt", str(ROOT / "constraints.txt"))
    words = shlex.split(line)
    assert words[:4] == ["python", "-m", "pip", "install"]
    subprocess.run([str(environment / "bin" / "python"), *words[1:], "--quiet"], check=True)
    contract = environment / "bin" / "contract"
    ran = subprocess.run([contract, "check", "drafter/contract.yaml", "--engine", "sglang==0.5.23"], cwd=workspace.root, check=False)
    assert ran.returncode == 0
    doctor = subprocess.run([contract, "doctor"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "torch not installed" in doctor.stdout


def test_the_entry_point(workspace: Workspace) -> None:
    entry, default = {tuple(json.loads(rest)) for rest in of("ENTRYPOINT")}, {tuple(json.loads(rest)) for rest in of("CMD")}
    assert (entry, default) == ({("contract",)}, {("--help",)})
    assert workspace.run("contract --help").returncode == 0
