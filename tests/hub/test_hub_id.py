"""Which texts name a repository of the Hub, and which a path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from contract.errors import UsageError
from contract.files.hub_id import HubId, hub_id, shadowed

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"hf:org/name@{COMMIT}", HubId("org/name", COMMIT)),
        (f"org/name@{COMMIT}", HubId("org/name", COMMIT)),
        ("hf:org/name", HubId("org/name")),
        ("hf:org/name@main", HubId("org/name", "main")),
        ("org/na.me-1@v0.1", HubId("org/na.me-1", "v0.1")),
        ("hf:org/name@refs/pr/7", HubId("org/name", "refs/pr/7")),
        (f"hf:org/name@{COMMIT}/sub/contract.yaml", HubId("org/name", COMMIT, "sub/contract.yaml")),
        *(
            (path, None)
            for path in ("org/name", "./org/name@x/..", "name@main", "/org/name@main", "../org/name@main", "a/b/c@main", "a/..@main", "")
        ),
    ],
)
def test_ids_and_paths(text: str, found: HubId | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert hub_id(text) == found
    if found is not None:
        assert hub_id(str(found)) == found
        assert found.pinned == (found.revision == COMMIT)


@pytest.mark.parametrize(
    "text",
    ["hf:", "hf:name", "hf:org/name@", "hf:../name", "hf:org/..", "hf:org/na--me", "hf:org/name@a b", "hf:org/name/x", "hf:o/n@../x"],
)
def test_a_misspelt_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        hub_id(text)
    assert raised.value.rule == "hub.id"


def test_what_exists_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (hub_id("org/name@main"), shadowed("org/name@main")) == (HubId("org/name", "main"), False)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "name@main").symlink_to("nowhere")
    assert (hub_id("org/name@main"), shadowed("org/name@main")) == (None, True)
    assert (hub_id("hf:org/name@main"), shadowed("hf:org/name@main")) == (HubId("org/name", "main"), False)
    assert not shadowed("org")


def test_the_library_is_imported_for_the_hub_only(tmp_path: Path) -> None:
    program = (
        "import sys; from contract.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, sorted(m for m in sys.modules if m.partition('.')[0] in ('huggingface_hub', 'httpx', 'httpx2', 'requests')))"
    )
    folder = Path(__file__).parents[2] / "eagle3_contract" / "demo" / "data" / "drafter-a"
    for line in (["--help"], ["check", str(folder / "contract.yaml")], ["read", str(folder), "--engine", "sglang==0.5.23"]):
        ran = subprocess.run([sys.executable, "-c", program, *line], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert ran.stdout.splitlines()[-1] == "0 []", ran.stderr
