"""``contract guard SPEC --engine E -- COMMAND...``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import cast

import click

from contract.answers import Result
from contract.cli.gate_options import policies, policy_option
from contract.cli.params import Output, formats_option, serve_args_option, target_option
from contract.cli.perform import perform
from contract.cli.say import say, say_error
from contract.errors import ToolError
from contract.findings import ExitCode
from contract.kinds import kind_of_spec
from contract.requests import Integrity


@click.command("guard", options_metavar="--engine E [OPTIONS] --")
@click.argument("spec")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
@click.option("--engine", required=True, metavar="NAME[RUNNER]==VERSION", help="The engine that COMMAND starts.")
@target_option
@serve_args_option
@click.option(
    "--integrity",
    type=click.Choice(["headers", "values", "digests"]),
    default="headers",
    show_default=True,
    help="How much of the weights to read: headers only, sampled values, or every byte.",
)
@click.option("--verify", "deep", is_flag=True, help="Run `contract verify` as well, on --capture or --samples.")
@click.option("--capture", metavar="BUNDLE", help="With --verify: what the engine fed the drafter, recorded.")
@click.option("--samples", metavar="PATH", help="With --verify: training samples.")
@click.option(
    "--on-unknown",
    type=click.Choice(["refuse", "warn"]),
    default="refuse",
    show_default=True,
    help="What to do where the verdict is unknown (exit 3).",
)
@policy_option
@formats_option
def command(
    spec: str,
    command: tuple[str, ...],
    engine: str,
    target: str | None,
    serve_args: Mapping[str, str],
    integrity: str,
    deep: bool,
    capture: str | None,
    samples: str | None,
    on_unknown: str,
    outputs: tuple[Output, ...],
) -> int:
    """Verify the drafter of the contract SPEC as COMMAND is about to serve it; then become COMMAND, or refuse.

    The report goes to stderr. The serving flags are those of COMMAND where it is a command line of SGLang or vLLM. Where the contract is
    not kept, COMMAND is not started, and the exit code is the report's.
    """
    if capture is not None and not deep:
        raise click.UsageError("--capture needs --verify")

    def body() -> Result:
        from contract.guarding.examine import Guarded, examine

        asked = Guarded(
            spec=spec,
            engine=engine,
            command=command,
            target=target,
            serve_args=serve_args,
            integrity=cast(Integrity, integrity),
            verify=deep,
            capture=capture,
            samples=samples,
        )
        return examine(asked, kind_of_spec(spec), policies=policies)

    with redirect_stdout(sys.stderr):  # the server's stdout is the server's
        code = perform("guard", body, outputs, subject={"spec": spec, "engine": engine})
    if code == ExitCode.KEPT or (code == ExitCode.UNKNOWN and on_unknown == "warn"):
        if code == ExitCode.UNKNOWN:
            say("warning: the verdict is unknown; starting the command all the same (--on-unknown warn)")
        return _become(command)
    say(f"refused: {command[0]} is not started (exit {code})")
    return code


def _become(command: tuple[str, ...]) -> int:
    """Replace this process by the command: same process id, same streams, signals as the shell left them. Returns only on failure."""
    # Python ignores these, and a new program inherits that. If there is no new program, this one goes on as it was: with the default, the
    # next write to a socket whose other end has gone would end it without a word.
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in (signal.SIGPIPE, signal.SIGXFSZ)]
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        say_error(ToolError(f"cannot start {command[0]}: {reason}", rule="guard.exec", fix="Check the name and the permissions."))
        return int(ExitCode.UNUSABLE)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
