"""The Python API."""

from __future__ import annotations

from typing import Any

import pytest

from contract import verify
from contract.errors import UsageError
from verify.server.conftest import DEMO, Case
from verify.server.imitations import Sglang, served


def test_a_server_from_python(case: Case) -> None:
    server = Sglang()
    with served(server) as url:
        report = verify(case.spec, server=url, prompts=DEMO / "prompts.jsonl", max_new_tokens=120)
    assert report.exit_code == 0
    assert report.measurements["server"]["requests"] == 8
    assert {body["sampling_params"]["max_new_tokens"] for body in server.bodies} == {120}


@pytest.mark.parametrize(
    "given",
    [
        {"server": "http://x", "capture": "b"},
        {"server": "http://x", "engine": "vllm"},
        {"server": "http://x", "workers": 3},
        {"prompts": "p"},
        {"max_new_tokens": 3, "capture": "b"},
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], case: Case) -> None:
    with pytest.raises(UsageError) as caught:
        verify(case.spec, **given)
    assert caught.value.rule == "cli.not-together"
