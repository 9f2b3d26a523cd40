"""The same job through an HTTP server: a small one stands in for SGLang's."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from eagle3_contract.engines.job import Job, Prompt, Submission
from eagle3_contract.engines.sglang import server

STAND_IN = """
    import json, sys
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Handler(BaseHTTPRequestHandler):
        def answer(self, body):
            self.send_response(200); self.end_headers(); self.wfile.write(json.dumps(body).encode())
        def do_GET(self):
            self.note("GET"); self.answer({})
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.note(asked)
            self.answer([{"meta_info": {"spec_verify_ct": 2, "completion_tokens": 5}} for _ in asked["rid"]])
        def note(self, what):
            with open(sys.argv[2], "a") as log: log.write(json.dumps(what) + "\\n")
        def log_message(self, *_): pass
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def job(**flags: Any) -> Job:
    prompts = [Prompt("p", [1, 2], None), Prompt("q", [3], None)]
    submissions = [Submission("", [0]), Submission("batched", [0, 1])]
    return Job("/t", "/d", "/s", None, False, flags, prompts, submissions, max_new_tokens=5, record_prompts_max=None)


def test_flags_become_a_command_line() -> None:
    words = server.command(job(dtype="float32", enable_metrics=True, disable_radix_cache=False, page_size=1, served_model_name=None), 30001)
    assert words[:3] == [sys.executable, "-m", "sglang.launch_server"]
    line = " ".join(words)
    for part in (
        "--model-path /t", "--speculative-draft-model-path /d", "--dtype float32", "--enable-metrics", "--page-size 1", "--host 127.0.0.1",
        "--port 30001", "--speculative-algorithm EAGLE3", "--disable-decode-cuda-graph --disable-prefill-cuda-graph",
    ):  # fmt: skip
        assert part in line
    for part in ("radix", "served", "--disable-cuda-graph"):
        assert part not in line


def test_a_server_is_asked_and_ended(tmp_path: Path) -> None:
    script, log = tmp_path / "server.py", tmp_path / "log"
    script.write_text(textwrap.dedent(STAND_IN))
    port = server.free_port()
    with server.serving([sys.executable, str(script), str(port), str(log)], port) as url:
        counters = server.run(job(), url)
    assert counters["rounds"] == 6
    assert counters["output_tokens"] == 15
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    posts = [a for a in asked if a != "GET"]
    assert [(p["input_ids"], p["rid"]) for p in posts] == [([[1, 2]], ["p"]), ([[1, 2], [3]], ["p@batched", "q@batched"])]
    assert posts[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 5, "ignore_eos": True}
    assert asked[-1] == "GET", "the scheduler has written everything before it is ended"
    assert not server._answers(url)


def test_a_server_that_ends_is_said_so() -> None:
    with (
        pytest.raises(server.ServerFailed, match="ended with exit code 3"),
        server.serving([sys.executable, "-c", "raise SystemExit(3)"], server.free_port()),
    ):
        pass


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "START_SECONDS", 0)
    with (
        pytest.raises(server.ServerFailed, match="did not answer within 0 seconds"),
        server.serving([sys.executable, "-c", "import time; time.sleep(60)"], server.free_port()),
    ):
        pass


def test_the_job_is_the_only_argument() -> None:
    with pytest.raises(SystemExit, match="usage"):
        server.main([])
