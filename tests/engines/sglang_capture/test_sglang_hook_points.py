"""Whether this SGLang has what is hooked."""

from __future__ import annotations

import importlib.metadata

import pytest

from eagle3_contract.engines.sglang import hook_points


def everything(name: str) -> str:
    return name


def test_an_engine_that_has_everything_passes() -> None:
    hook_points.require(hook_points.FOR_CAPTURE + hook_points.FOR_GATE, version="0.5.23", resolve=everything)


@pytest.mark.parametrize("gone", hook_points.FOR_CAPTURE + hook_points.FOR_SWEEP)
@pytest.mark.parametrize("how", [ImportError, AttributeError])
def test_what_is_missing_is_named_with_the_version(gone: str, how: type[Exception]) -> None:
    def resolve(name: str) -> str:
        if name == gone:
            raise how(name)
        return name

    with pytest.raises(hook_points.HookPointsMissing) as raised:
        hook_points.require(hook_points.FOR_CAPTURE + hook_points.FOR_SWEEP, version="0.4.1", resolve=resolve)
    assert raised.value.missing == (gone,)
    assert str(raised.value) == f"SGLang 0.4.1 has no {gone}; hooks are written for SGLang 0.5.23"


def test_an_environment_without_sglang_is_named_as_one() -> None:
    with pytest.raises(hook_points.HookPointsMissing, match=r"SGLang \(not installed\) has no sglang"):
        hook_points.require(hook_points.FOR_GATE)


def test_the_version_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"sglang": "9.9"}[name])
    assert hook_points.installed_version() == "9.9"
