"""Hooks of mkdocs: pages that are generated, and files outside docs/ that pages link to (the forge shows these links as they are)."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tools.docs_site import decisions, engines, report, rules, trainers

ROOT: Final = Path(__file__).parents[2]
SHARED: Final = ("specs", "examples")
"""Folders beside docs/ whose files are published with the site."""
PAGES: Final = ("BREAKING_CHANGES.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages that stand at the top of the repository."""
READING: Final = "## What it reads of a checkpoint: "
"""In front of an engine's generated page, where it follows a written one."""
_FRONT: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LINK: Final = re.compile(r"\]\((?P<target>\.\./[^)#\s]+)(?P<rest>#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not written by hand, and what stands elsewhere."""
    for path, markdown in chain(rules.pages(), engines.pages(), trainers.pages(), report.pages(), decisions.pages()):
        held = files.get_file_from_path(path)
        if held is not None:  # what somebody wrote about it comes first
            markdown = held.content_string.rstrip() + "\n\n" + _FRONT.sub("", markdown).replace("# ", READING, 1)
            files.remove(held)
        files.append(File.generated(config, path, content=markdown))
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for folder in SHARED:
        for found in sorted((ROOT / folder).glob("*.*")):
            if found.suffix != ".md":
                files.append(File.generated(config, f"{folder}/{found.name}", abs_src_path=str(found)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link that leaves docs/ leads to the published copy. mkdocs itself warns of one that leads nowhere."""
    folder = dirname(page.file.src_uri)

    def inside(found: re.Match[str]) -> str:
        at_root = normpath(f"docs/{folder}/{found['target']}")
        if at_root.startswith("docs/"):
            return found[0]
        return f"]({relpath(at_root, folder or '.')}{found['rest'] or ''})"

    return _LINK.sub(inside, markdown)
