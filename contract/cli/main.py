"""The console script, and the outermost boundary: every way out of it is one of the four exit codes."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from contract import __version__
from contract.cli.group import ContractGroup
from contract.cli.say import forget_stdout, say, say_fault
from contract.findings import ExitCode


@click.group(cls=ContractGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="eagle3-contract", message="%(prog)s %(version)s")
def cli() -> None:
    """Prove, before serving, that the engine feeds and runs a drafter as training did.

    Exit codes: 0 kept, 1 violated, 2 unusable input or failed tool, 3 unknown.
    """


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        # Without standalone mode click neither exits by itself nor turns Ctrl-C into its own exit code 1.
        code = cli.main(args=list(argv), prog_name="contract", standalone_mode=False)
    except click.ClickException as error:
        told = io.StringIO()
        error.show(file=told)  # it quotes the command line
        for line in told.getvalue().rstrip("\n").split("\n"):
            say(line)
        return int(ExitCode.UNUSABLE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("error: interrupted, fix: run it again to its end", err=True)
        return int(ExitCode.UNUSABLE)
    except SystemExit as ended:
        # click does this: with 0 after completing a line for a shell, with 1 when whoever read the help page has gone.
        return int(ExitCode.KEPT if ended.code == 0 else ExitCode.UNUSABLE)
    except Exception as error:  # noqa: BLE001 -- the outermost boundary: an uncaught fault would exit 1, which means "violated"
        say_fault(error)
        return int(ExitCode.UNUSABLE)
    return code if isinstance(code, int) else int(ExitCode.KEPT)


def run() -> None:
    """The console script ``contract``."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it, and is obeyed
        signal.signal(signal.SIGHUP, _interrupt)
    code = main(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        code = int(ExitCode.UNUSABLE)
    sys.exit(code)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # SIGTERM and a closed terminal end a run as Ctrl-C does: with a report that is marked incomplete, and nothing left behind.
    raise KeyboardInterrupt
