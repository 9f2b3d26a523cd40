"""Configuration in rising order: pyproject.toml, contract.toml, environment, flags."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contract.errors import UsageError
from contract.settings import defaults_of, effective
from contract.settings.effective import configured_policies
from contract.settings.options import OPTIONS
from contract.settings.sources import unknown_variables


def values(start: Path, environ: dict[str, str] | None = None) -> dict[str, tuple[object, str | None]]:
    return {s.option.name: (s.value, s.origin) for s in effective(start, environ or {}) if s.origin is not None}


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_nothing_is_configured_by_default(tmp_path: Path) -> None:
    assert values(tmp_path) == {}
    write(tmp_path / "pyproject.toml", "[project]\nname = 'x'\n")
    assert values(tmp_path) == {}


def test_rising_order(tmp_path: Path) -> None:
    pyproject = write(tmp_path / "pyproject.toml", "[tool.eagle3-contract]\nintegrity = 'values'\ndevice = 'cpu'\nlog = 'json'\n")
    toml = write(tmp_path / "contract.toml", "integrity = 'digests'\ndevice = 'cuda'\n")
    found = values(tmp_path, {"CONTRACT_DEVICE": "cuda:1", "CONTRACT_LOG": ""})
    assert found == {"integrity": ("digests", toml), "device": ("cuda:1", "CONTRACT_DEVICE"), "log": ("json", pyproject)}


def test_paths_start_at_the_file_that_names_them(tmp_path: Path) -> None:
    write(tmp_path / "contract.toml", "target = 'models/t'\nsamples = '/abs'\nengines = ['vllm', 'sglang==0.5.23']\n")
    found = values(tmp_path)
    assert (found["target"][0], found["samples"][0]) == (str(tmp_path / "models/t"), "/abs")
    assert found["engines"][0] == ["vllm", "sglang==0.5.23"]
    assert values(tmp_path, {"CONTRACT_TARGET": "t", "CONTRACT_ENGINES": "vllm  sglang"})["engines"][0] == ["vllm", "sglang"]


def test_policies_add_up(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.eagle3-contract]\npolicy = ['a.yaml']\n")
    write(tmp_path / "contract.toml", "policy = ['b.yaml']\n")
    settings = effective(tmp_path, {"CONTRACT_POLICY": "/c.yaml:/d.yaml"})
    assert configured_policies(settings) == [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), "/c.yaml", "/d.yaml"]
    assert "policy" not in defaults_of("check", settings)


def test_the_nearest_folder_up_to_the_repository_counts(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "drafters" / "one"
    inner.mkdir(parents=True)
    write(tmp_path / "contract.toml", "device = 'outside'\n")
    write(tmp_path / "repo" / "contract.toml", "device = 'root'\n")
    assert values(inner) == {}, "outside a repository no parent folder configures a run"
    (tmp_path / "repo" / ".git").mkdir()
    assert values(inner)["device"][0] == "root"
    write(inner / "contract.toml", "log = 'json'\n")
    assert values(inner).keys() == {"log"}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("integritee = 'values'\n", "settings.unknown-key"),
        ("allow_pickle = true\n", "settings.unknown-key"),
        ("on_unknown = 'warn'\n", "settings.unknown-key"),
        ("integrity = 'some'\n", "settings.bad-value"),
        ("integrity = 3\n", "settings.bad-value"),
        ("engines = 'vllm'\n", "settings.bad-value"),
        ("engines = ['']\n", "settings.bad-value"),
        ("device = [\n", "settings.unreadable"),
        ("device = 'a'\ndevice = 'b'\n", "settings.unreadable"),
        ("x = " + "[" * 100_000, "settings.unreadable"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, rule: str) -> None:
    write(tmp_path / "contract.toml", text)
    with pytest.raises(UsageError) as refused:
        effective(tmp_path, {})
    assert refused.value.rule == rule
    assert refused.value.where is not None
    assert refused.value.where.file == str(tmp_path / "contract.toml")


@pytest.mark.parametrize("name", ["contract.toml", "pyproject.toml"])
def test_a_file_names_no_file_that_is_written(name: str, tmp_path: Path) -> None:
    """A stranger's folder may say how reports look, not which of the visitor's files they replace."""
    head = "" if name == "contract.toml" else "[tool.eagle3-contract]\n"
    write(tmp_path / name, f"{head}format = ['text', 'json']\n")
    assert values(tmp_path)["format"][0] == ["text", "json"]
    write(tmp_path / name, f"{head}format = ['json=/home/someone/.profile']\n")
    with pytest.raises(UsageError, match="names a file to be written") as refused:
        effective(tmp_path, {})
    assert refused.value.rule == "settings.bad-value"
    (tmp_path / name).unlink()
    assert values(tmp_path, {"CONTRACT_FORMAT": "json=mine.json"})["format"][0] == ["json=mine.json"]


def test_odd_files(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool]\neagle3-contract = 3\n")
    with pytest.raises(UsageError):
        effective(tmp_path, {})
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError):
        effective(tmp_path, {})
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "contract.toml").mkdir()
    with pytest.raises(UsageError):
        effective(tmp_path, {})
    (tmp_path / "contract.toml").rmdir()
    os.mkfifo(tmp_path / "contract.toml")  # opened the plain way, it would be waited for
    with pytest.raises(UsageError, match="FIFO"):
        effective(tmp_path, {})
    (tmp_path / "contract.toml").unlink()
    (tmp_path / "contract.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(UsageError, match="larger"):
        effective(tmp_path, {})
    with pytest.raises(UsageError):
        effective(tmp_path / "repo", {"CONTRACT_INTEGRITY": "some"})


def test_every_setting_is_an_option_of_its_commands() -> None:
    from importlib import import_module

    for option in OPTIONS:
        for command in option.commands:
            parameters = {p.name for p in import_module(f"contract.cli.{command}").command.params}
            assert option.parameter in parameters, (command, option.name)


def test_variables_that_look_like_settings() -> None:
    assert unknown_variables({"CONTRACT_TARGT": "x", "CONTRACT_TARGET": "t", "HOME": "/"}) == ["CONTRACT_TARGT"]
