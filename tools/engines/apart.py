"""One job in a forked process of its own, with its own log. Runs in an engine's environment."""

import contextlib
import os
import pathlib
import signal
import sys
import time
import traceback


def apart(job, body, limit_s):
    """Run ``body(job)`` in a fork whose output goes to the folder's log.txt; end it and all it started after ``limit_s`` seconds."""
    started, folder = time.monotonic(), pathlib.Path(job["folder"])
    (folder / "outcome.json").write_text("{}")
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            log = os.open(folder / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            body(job)
        finally:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    ended = False
    while not ended and time.monotonic() - started < limit_s:
        ended = os.waitpid(child, os.WNOHANG) != (0, 0)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also the engine's own processes, which outlive it where it died
    print(f"{job['name']}: {time.monotonic() - started:.1f} s", flush=True)
