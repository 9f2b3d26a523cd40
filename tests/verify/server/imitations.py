"""Servers on the loopback that answer as vLLM 0.32.0 and SGLang 0.5.23 do. Their texts were recorded from the running engines (data/).

The answers to the demo contract's prompts are the real ones: 8 requests, greedy, drafter-a in both engines' recipe, 3 drafts a step; both
engines counted the same verify steps.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

DATA = Path(__file__).parent / "data"
ANSWERS: list[dict[str, Any]] = json.loads((DATA / "sglang_answers.json").read_text())
SERVER_INFO: dict[str, Any] = json.loads((DATA / "sglang_server_info.json").read_text())
MODEL_INFO: dict[str, Any] = json.loads((DATA / "sglang_model_info.json").read_text())
METRICS = (DATA / "vllm_metrics.txt").read_text()
NOT_FOUND = {"detail": "Not Found"}
KEY = "sesame-12345"
CERTIFICATE = DATA / "loopback.pem"
"""Of 127.0.0.1, signed by itself, with its key: made for these tests, and trusted by nobody else."""


class Imitation:
    """What both have in common: answers in the order of the prompts, a key, a log of what was asked."""

    owner = ""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers = ANSWERS
        self.key: str | None = None
        self.max_model_len = 256
        self.drafting = True
        self.weaker: Callable[[int], int] = int
        """Accepted drafts of an answer, from those that were recorded: the rest of its tokens then needs steps of their own."""

    def counts(self, index: int) -> tuple[int, int, list[int]]:
        """Verify steps, accepted drafts and the histogram of an answer."""
        meta = self.answers[index % len(self.answers)]["meta_info"]
        accepted = self.weaker(meta["spec_num_correct_drafts"])
        lost = meta["spec_num_correct_drafts"] - accepted
        if not lost:
            return meta["spec_verify_ct"], accepted, meta["spec_correct_drafts_histogram"]
        rounds = meta["spec_verify_ct"] + lost
        return rounds, accepted, [rounds - accepted, accepted, 0, 0]

    def models(self) -> dict[str, Any]:
        card: dict[str, Any] = {"id": "demo", "object": "model", "created": 1795979192, "owned_by": self.owner, "root": "demo/target"}
        return {"object": "list", "data": [card | {"parent": None, "max_model_len": self.max_model_len}]}

    def get(self, path: str) -> tuple[int, Any]:
        raise NotImplementedError

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        raise NotImplementedError


class Vllm(Imitation):
    """vLLM. ``foreign`` adds other clients' tokens while a request runs, ``lag`` is how many readings an answer is late in the counters."""

    owner = "vllm"

    def __init__(self) -> None:
        super().__init__()
        self.totals = dict.fromkeys(("drafts", "draft_tokens", "accepted", "generated", "prompt", "requests"), 0)
        self.positions = [0, 0, 0]
        self.version = "0.32.0"
        self.foreign: Callable[[int], int] = lambda _: 0
        self.lag = 0
        self.restart_at: int | None = None
        self.statistics = True
        self.development: dict[str, Any] | None = None
        self.page: Callable[[str], str] = str
        self._late: list[tuple[int, Callable[[], None]]] = []

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"version": self.version}
        if path == "/v1/models":
            return 200, self.models()
        if path.startswith("/server_info") and self.development is not None:
            return 200, {"vllm_config": self.development, "vllm_env": {}, "system_env": {}}
        if path == "/metrics":
            return 200, self.page(self._metrics())
        return 404, NOT_FOUND

    def _metrics(self) -> str:
        due, self._late = self._late, []
        for left, count in due:
            if left:
                self._late.append((left - 1, count))
            else:
                count()
        t = self.totals
        values = {
            "vllm:spec_decode_num_drafts_total": t["drafts"],
            "vllm:spec_decode_num_draft_tokens_total": t["draft_tokens"],
            "vllm:spec_decode_num_accepted_tokens_total": t["accepted"],
            "vllm:generation_tokens_total": t["generated"],
            "vllm:prompt_tokens_total": t["prompt"],
            'vllm:request_success_total{engine="0",finished_reason="length"': t["requests"],
        }
        values |= {f'position="{i}"': n for i, n in enumerate(self.positions)}
        lines = []
        for line in METRICS.splitlines():
            if not self.statistics and "vllm:" in line:
                continue
            if not self.drafting and "spec_decode" in line:
                continue
            if not line.startswith("#") and "_created" not in line:
                for key, value in values.items():
                    if (line.startswith(key) or ("per_pos_total" in line and key in line)) and value:
                        line = re.sub(r" [^ ]+$", f" {float(value)}", line)
            lines.append(line)
        return "\n".join(lines) + "\n"

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path != "/v1/completions":
            return 404, NOT_FOUND
        index = len(self.bodies) - 1
        answer = self.answers[index % len(self.answers)]
        rounds, accepted, histogram = self.counts(index)
        tokens, foreign = len(answer["output_ids"]), self.foreign(index)
        if self.restart_at == index:
            self.totals = dict.fromkeys(self.totals, 0)
            self.positions = [0, 0, 0]

        def count() -> None:
            t = self.totals
            t["generated"] += tokens + foreign
            t["prompt"] += len(body["prompt"])
            t["requests"] += 1 + bool(foreign)
            if self.drafting:
                t["drafts"] += rounds + foreign
                t["draft_tokens"] += 3 * (rounds + foreign)
                t["accepted"] += accepted
                for i in range(3):
                    self.positions[i] += sum(histogram[i + 1 :])

        self._late.append((self.lag, count))
        usage = {"prompt_tokens": len(body["prompt"]), "total_tokens": len(body["prompt"]) + tokens, "completion_tokens": tokens}
        choice = {"index": 0, "text": answer["text"], "finish_reason": "stop", "token_ids": answer["output_ids"]}
        return 200, {"id": f"cmpl-{index}", "object": "text_completion", "model": "demo", "choices": [choice], "usage": usage}


class Sglang(Imitation):
    """SGLang. ``info`` changes what /server_info says; ``old`` knows the older endpoints only."""

    owner = "sglang"

    def __init__(self) -> None:
        super().__init__()
        self.info: dict[str, Any] = {}
        self.old = False

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, self.models()
        if path == ("/get_server_info" if self.old else "/server_info"):
            return 200, SERVER_INFO | {"api_key": self.key, "launch_command": f"--api-key {self.key}"} | self.info
        if path == ("/get_model_info" if self.old else "/model_info"):
            return 200, MODEL_INFO
        return 404, NOT_FOUND

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path != "/generate":
            return 404, NOT_FOUND
        index = len(self.bodies) - 1
        answer = self.answers[index % len(self.answers)]
        rounds, accepted, histogram = self.counts(index)
        meta = {k: v for k, v in answer["meta_info"].items() if not k.startswith("spec_")} | {"prompt_tokens": len(body["input_ids"])}
        if self.drafting:
            meta |= {
                "spec_accept_rate": accepted / (3 * rounds),
                "spec_accept_length": meta["completion_tokens"] / rounds,
                "spec_num_correct_drafts": accepted,
                "spec_num_proposed_drafts": 3 * rounds,
                "spec_verify_ct": rounds,
                "spec_correct_drafts_histogram": histogram,
            }
        return 200, answer | {"meta_info": meta}


class _Handler(BaseHTTPRequestHandler):
    imitation: ClassVar[Imitation]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _serve(self, body: dict[str, Any] | None) -> None:
        one = self.imitation
        one.asked.append((self.command, self.path))
        one.headers.append(dict(self.headers))
        if one.key is not None and self.headers.get("Authorization") != f"Bearer {one.key}":
            status, answer = 401, {"error": "Unauthorized"}
        elif body is None:
            status, answer = one.get(self.path)
        else:
            one.bodies.append(body)
            status, answer = one.post(self.path, body)
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients that hang up are part of the tests."""


@contextmanager
def served(imitation: Imitation, *, certificate: Path | None = None) -> Iterator[str]:
    """The URL of an imitation that is served while the block lasts; over TLS with a certificate."""
    handler = type("Handler", (_Handler,), {"imitation": imitation})
    with _Server(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
