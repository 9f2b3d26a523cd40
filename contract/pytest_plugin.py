"""pytest plugin: the fixtures ``contract_check`` and ``contract_verify``, for people who test their training code.

    def test_the_drafter_keeps_its_contract(contract_verify):
        contract_verify("drafter/contract.yaml", samples="drafter/samples", target="target")

A contract that is not kept fails the test with the whole report as text. What is given besides the contract is what
``contract.check`` and ``contract.verify`` take. The plugin is found through the entry point group ``pytest11``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contract.reporting import Report


@pytest.fixture
def contract_check() -> Callable[..., Report]:
    """``contract_check(spec, **options)``: fails unless the files, and the engines' reading of them, keep the contract."""

    def run(spec: str | os.PathLike[str], **options: Any) -> Report:
        from contract.api import check

        return _required(check(spec, **options))

    return run


@pytest.fixture
def contract_verify() -> Callable[..., Report]:
    """``contract_verify(spec, **options)``: fails unless training path and inference path agree as the contract says."""

    def run(spec: str | os.PathLike[str], **options: Any) -> Report:
        from contract.api import verify

        return _required(verify(spec, **options))

    return run


def _required(report: Report) -> Report:
    if int(report.exit_code) != 0:
        from contract.report import render

        pytest.fail(render(report, "text"), pytrace=False)
    return report
