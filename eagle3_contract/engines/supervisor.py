"""Runs one command in a session of its own and leaves nothing of it behind, whatever becomes of the process that asked for it.

A script for the standard library alone (``python -I -S supervisor.py COMMAND ...``). Its standard input is a pipe that nobody writes to:
when the other end closes, because the parent is done, was interrupted or was killed, the whole process group of the command ends.
"""

import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 5.0
"""Between asking the group to end and ending it."""
POLL_S = 0.1


def end_group(group: int, process: "subprocess.Popen[bytes]") -> None:
    """Ask every process of the group to end, then end what is left."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + patience
        while time.monotonic() < until:
            process.poll()  # a zombie would keep the group alive
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(POLL_S / 2)


def main(command: list[str]) -> int:
    """The command's exit code; 128 + n if signal n ended it, 127 if it cannot be started."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror or error}\n")
        return 127
    try:
        while process.poll() is None:
            readable, _, _ = select.select([0], [], [], POLL_S)
            if readable and not os.read(0, 1):
                break
    finally:
        end_group(process.pid, process)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
