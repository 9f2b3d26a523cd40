"""What a server's command line says, in every way in which it can be written."""

from __future__ import annotations

import pytest

from contract.guarding.served import Served, served

VLLM = '{"method": "eagle3", "model": "/d", "num_speculative_tokens": 3}'


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "python3 -m sglang.launch_server --model-path /t --speculative-draft-model-path /d",
            Served(engine="sglang", target="/t", drafter="/d", elsewhere=False),
        ),
        (
            "env A=1 python -m sglang.launch_server --model=/t --speculative_draft_model=/d --config c.yaml",
            Served(engine="sglang", target="/t", drafter="/d", elsewhere=True),
        ),
        ("/usr/bin/sglang serve --model-path /a --model-path /t", Served(engine="sglang", target="/t", drafter=None, elsewhere=False)),
        ("vllm serve /t", Served(engine="vllm", target="/t", drafter=None, elsewhere=False)),
        ("vllm serve /t --speculative-config.model /d", Served(engine="vllm", target="/t", drafter="/d", elsewhere=False)),
        (
            'python -m vllm.entrypoints.cli.main serve /t --speculative_config={"model":"/d"}',
            Served(engine="vllm", target="/t", drafter="/d", elsewhere=False),
        ),
        ("python -m vllm.entrypoints.openai.api_server --model /t", Served(engine="vllm", target="/t", drafter=None, elsewhere=False)),
        ("vllm bench serve", None),
        ("./start.sh vllm", None),
        ("python -m http.server", None),
        ("python -m", None),
        ("vllm", None),
    ],
)
def test_command_lines(command: str, expected: Served | None) -> None:
    assert served(command.split()) == expected


@pytest.mark.parametrize(
    ("value", "drafter"), [(VLLM, "/d"), ("{", None), ("[]", None), ('{"model": 3}', None), ('{"model":"a","model":"b"}', None)]
)
def test_the_speculative_config(value: str, drafter: str | None) -> None:
    found = served(["vllm", "serve", "/t", "-sc", value])
    assert found is not None
    assert found.drafter == drafter


def test_a_flag_without_its_value() -> None:
    assert served(["vllm", "serve", "/t", "--speculative-config"]) == Served(engine="vllm", target="/t", drafter=None, elsewhere=False)
