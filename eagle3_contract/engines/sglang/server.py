"""Runs one job through SGLang's HTTP server, as ``runner`` does through its Engine.

``python -m eagle3_contract.engines.sglang.server JOB.json``

The server is SGLang's own (``python -m sglang.launch_server``) on a free port of the loopback interface; the plugin inside it is switched
on by environment variables alone, and what is recorded is the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from eagle3_contract.engines.job import Job, job_of
from eagle3_contract.engines.sglang.runner import arguments_of, finish, prepared, submit

LOOPBACK: Final = "127.0.0.1"
START_SECONDS: Final = 600
ANSWER_SECONDS: Final = 600
STOP_SECONDS: Final = 20
POLL_SECONDS: Final = 0.5


class ServerFailed(RuntimeError):
    """The server ended, or did not come up in time."""


def main(arguments: list[str]) -> int:
    """Run the job that the only argument names."""
    job = job_of(arguments, "eagle3_contract.engines.sglang.server")
    with prepared(job), serving(command(job, port := free_port()), port) as url:
        counters = run(job, url)
    finish(Path(job.spool), counters)
    return 0


def command(job: Job, port: int) -> list[str]:
    """The command line of the server, from a job's flags."""
    flags = arguments_of(job) | {"host": LOOPBACK, "port": port}
    words = [sys.executable, "-m", "sglang.launch_server"]
    for name, value in flags.items():
        option = "--" + name.replace("_", "-")
        if name == "disable_cuda_graph":  # a keyword of the Engine only; servers name the graphs (0.5.23, arg_groups/fields/exec_.py:670)
            words += ["--disable-decode-cuda-graph", "--disable-prefill-cuda-graph"] if value else []
        elif value is True:
            words.append(option)
        elif value is not False and value is not None:
            words += [option, str(value)]
    return words


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(words: list[str], port: int) -> Iterator[str]:
    """Start a server and yield its address once it answers; it and all its processes are ended whatever happens.

    Raises:
        ServerFailed: it ended, or did not answer within ``START_SECONDS``.
    """
    url = f"http://{LOOPBACK}:{port}"
    server = subprocess.Popen(words, start_new_session=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(url):
            if server.poll() is not None:
                raise ServerFailed(f"the server ended with exit code {server.returncode}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"the server did not answer within {START_SECONDS} seconds")
            time.sleep(POLL_SECONDS)
        yield url
    finally:
        _end(server)


def run(job: Job, url: str) -> dict[str, float]:
    """Submit everything; the sum of what the server counted."""
    counters = submit(job, lambda **asked: _call(f"{url}/generate", asked))
    # Answers leave the scheduler before it has written its events down; it answers this one after that.
    _call(f"{url}/server_info", None)
    return counters


def _call(url: str, body: Mapping[str, Any] | None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:
        return json.load(response)


def _answers(url: str) -> bool:
    try:
        _call(f"{url}/server_info", None)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
    return True


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server's session: asked first, then killed, so that no process of it is left."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(STOP_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
