"""Every command and every Python example on the pages about integrations is run; every link leads somewhere."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Workspace

PAGES = sorted((ROOT / "docs" / "integrations").glob("*.md"))
BLOCK = re.compile(r"(?:<!-- exit: (\d) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


def blocks(language: str) -> list[tuple[str, str, int]]:
    """Page, text and expected exit code of every block in a language."""
    return [(p.name, text, int(code or 0)) for p in PAGES for code, found, text in BLOCK.findall(p.read_text()) if found == language]


@pytest.fixture
def reader(workspace: Workspace) -> Workspace:
    shutil.copy(ROOT / "examples" / "policy.yaml", workspace.root)
    return workspace


@pytest.mark.parametrize(("page", "script", "code"), blocks("sh"))
def test_commands(reader: Workspace, page: str, script: str, code: int) -> None:
    ran = reader.run(script)
    assert ran.returncode == code, (page, ran.stdout, ran.stderr)


@pytest.mark.parametrize(("page", "script", "code"), [b for b in blocks("python") if "def test_" not in b[1]])
def test_python(reader: Workspace, page: str, script: str, code: int) -> None:
    (reader.root / "example.py").write_text(script)
    ran = reader.run(f"'{sys.executable}' -W error example.py")
    assert ran.returncode == code, (page, ran.stdout, ran.stderr)
    assert ran.stdout == "kept 0\n[2, 4, 5] key\n"


def test_the_fixtures_on_the_page_exist(reader: Workspace) -> None:
    (script,) = [text for _, text, _ in blocks("python") if "def test_" in text]
    (reader.root / "test_example.py").write_text(script)
    ran = reader.run(f"'{sys.executable}' -m pytest -q -p no:cacheprovider test_example.py", {"PYTHONDONTWRITEBYTECODE": "1"})
    assert "1 failed, 1 passed" in ran.stdout, "there are no samples in this workspace"
    assert "samples" in ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_examples_on_the_pages_are_the_examples() -> None:
    from contract.source import parse_yaml
    from contract.source.nodes import to_plain

    for page, example in (("waivers.md", "contract.waivers.yaml"), ("policy.md", "policy.yaml")):
        shown = next(text for name, text, _ in blocks("yaml") if name == page)
        whole = to_plain(parse_yaml((ROOT / "examples" / example).read_text()).root)
        said = to_plain(parse_yaml(shown).root)
        said["waivers"] = said["waivers"] if page == "policy.md" else [*said["waivers"], *whole["waivers"][1:]]
        assert said == whole
