"""The section of a model card: what it says, that nothing in it acts, and that the rest of the card stays."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from factory import pair
from hypothesis import given
from hypothesis import strategies as st

from contract.cli.card import BEGIN, END, placed
from contract.cli.main import main
from contract.errors import InputRejected

ENGINES = ("--engine", "sglang==0.5.23", "--engine", "vllm==0.32.0")
GOLDEN = Path(__file__).parent / "golden" / "tiny.md"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def card(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = main(["card", *argv])
    return code, capfd.readouterr().out


def test_the_golden_card(tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    tiny = pair()
    tiny.contract["acceptance"]["baselines"] = [{"engine": "sglang==0.5.23", "value": 2.4, "source": "200 prompts of MT-Bench"}]
    tiny.write(tmp_path)
    code, text = card(capfd, "contract.yaml", "--engine", "sglang==0.5.23")
    assert code == 0
    if request.config.getoption("--update-goldens"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "look at it after pytest --update-goldens"


def test_only_engines_that_serve_it_as_trained_get_a_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair(ids=(2, 4, 5)).write(tmp_path)
    _, text = card(capfd, "contract.yaml", *ENGINES)
    assert "contract guard DRAFTER/contract.yaml --engine 'vllm" in text
    assert "sglang.launch_server" not in text
    assert "| sglang\\=\\=0\\.5\\.23 | **no** | sglang\\=\\=0\\.5\\.23 uses hidden\\_states\\.boundaries \\[3, 5, 6\\]" in text


def test_every_engine_that_is_read_is_in_it_by_default(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from eagle3_contract.readings.profiles import PROFILES

    pair().write(tmp_path)
    code, text = card(capfd, "contract.yaml")
    rows = "\n".join(line for line in text.replace("\\", "").splitlines() if line.startswith("| "))
    assert code == 0
    assert all(f"| {name}" in rows for name in PROFILES)


def test_nothing_from_a_contract_acts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hostile = pair()
    hostile.contract["target"]["id"] = "a|b `x` <script>alert(1)</script> [l](http://e) $(touch hacked)"
    hostile.contract["training"]["commit"] = {"unknown": "<img src=x> **bold** | cell\n# heading"}
    hostile.write(tmp_path)
    _, text = card(capfd, "contract.yaml", *ENGINES)
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert "<script>" not in prose
    assert "<img" not in prose
    assert not re.search(r"(?<!\\)`", prose)
    assert "\n# heading" not in text
    line = next(line for line in text.splitlines() if "sglang.launch_server" in line)
    shown = subprocess.run(
        ["sh", "-c", line.replace("contract guard", "printf '%s\\n'", 1)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert hostile.contract["target"]["id"] in shown.stdout.splitlines()
    assert not (tmp_path / "hacked").exists()


def test_the_name_of_a_contract_is_one_word_of_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair().write(tmp_path)
    name = "a;touch hacked $(touch hacked).yaml"
    (tmp_path / "contract.yaml").rename(tmp_path / name)
    _, text = card(capfd, name, "--engine", "sglang==0.5.23")
    line = next(line for line in text.splitlines() if "sglang.launch_server" in line)
    assert shlex.split(line)[:3] == ["contract", "guard", f"DRAFTER/{name}"]


def test_into_a_model_card(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair().write(tmp_path)
    readme = tmp_path / "MODEL.md"
    readme.write_text("---\nlicense: mit\n---\n# Mine\n")
    assert card(capfd, "contract.yaml", *ENGINES, "--into", "MODEL.md") == (0, "MODEL.md: the section is written\n")
    first = readme.read_text()
    assert first.startswith("---\nlicense: mit\n---\n# Mine\n\n" + BEGIN)
    readme.write_text(first + "\nbelow\n")
    card(capfd, "contract.yaml", *ENGINES, "--into", "MODEL.md")
    assert readme.read_text() == first + "\nbelow\n"
    readme.write_text(first + BEGIN)
    assert card(capfd, "contract.yaml", *ENGINES, "--into", "MODEL.md")[0] == 2
    assert readme.read_text() == first + BEGIN
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe")
    assert card(capfd, "contract.yaml", "--into", "bad.md")[0] == 2
    assert card(capfd, "contract.yaml", *ENGINES, "--into", "no/such/folder.md")[0] == 2
    os.mkfifo(tmp_path / "pipe.md")
    assert card(capfd, "contract.yaml", *ENGINES, "--into", "pipe.md")[0] == 2


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="<>")), st.text(alphabet=st.characters(exclude_characters="<>")))
def test_only_the_section_changes(before: str, one: str, other: str) -> None:
    if BEGIN in before or END in before:
        return
    first = placed(before, one)
    assert placed(first, one) == first
    assert placed(placed(first, other), one) == first
    assert first.startswith(before.rstrip())


def test_a_section_with_a_mark_in_it_is_refused() -> None:
    with pytest.raises(InputRejected):
        placed("", f"x {END}")


def test_no_torch(tmp_path: Path) -> None:
    pair().write(tmp_path)
    run = "from contract.cli.main import main\nmain(['card', 'contract.yaml'])"
    code = f"{run}\nimport sys\nassert not {{'torch', 'transformers'}} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False).returncode == 0
