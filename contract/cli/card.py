"""``contract card SPEC``."""

from __future__ import annotations

import re
from typing import Final

import click

from contract.answers import Answer, Result
from contract.cli.params import Output, engines_option, formats_option, target_option
from contract.cli.perform import perform, subject_of
from contract.errors import InputRejected
from contract.files.atomic import atomic_write
from contract.files.paths import open_path
from contract.findings import Where
from contract.gate import judge
from contract.kinds import kind_of_spec
from contract.report.escape import visible
from contract.requests import CardRequest

BEGIN: Final = "<!-- eagle3-contract:begin -->"
END: Final = "<!-- eagle3-contract:end -->"
CARD_BYTES: Final = 4 * 1024 * 1024
_SECTION: Final = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)


@click.command("card")
@click.argument("spec")
@engines_option()
@target_option
@click.option(
    "--into", metavar="FILE", help=f"Write it into a model card, between the marks {BEGIN} and {END}; added at the end if missing."
)
@formats_option
def command(spec: str, engines: tuple[str, ...], target: str | None, into: str | None, outputs: tuple[Output, ...]) -> int:
    """Write what a model card says about the drafter of SPEC, as Markdown: recipe, wiring, vocabulary map, serving, figures."""
    request = CardRequest(spec=spec, engines=engines, target=target)

    def body() -> Result:
        result = judge(kind_of_spec(spec), request)
        if into is None or not isinstance(result, Answer):
            return result
        section = "\n".join(visible(line) for line in result.text.split("\n"))
        atomic_write(into, placed(_card(into), section))
        return Answer(text=f"{into}: the section is written", data=result.data, exit_code=result.exit_code)

    return perform("card", body, outputs, subject=subject_of(request))


def placed(card: str, section: str) -> str:
    """A model card with the section in its place. Everything outside the marks stays as it is.

    Raises:
        InputRejected: the marks do not make one pair.
    """
    marked = f"{BEGIN}\n{section}\n{END}"
    if BEGIN in section or END in section:
        raise InputRejected("the contract itself holds a mark", rule="cli.card-marks", fix="Remove the mark from the contract.")
    if card.count(BEGIN) == card.count(END) == 0:
        return f"{card.rstrip()}\n\n{marked}\n" if card.strip() else f"{marked}\n"
    if card.count(BEGIN) != 1 or card.count(END) != 1 or _SECTION.search(card) is None:
        raise InputRejected(
            f"the model card has {card.count(BEGIN)} marks {BEGIN} and {card.count(END)} marks {END}",
            rule="cli.card-marks",
            fix="Keep one pair of marks, the beginning before the end, or remove all of them.",
        )
    return _SECTION.sub(lambda _: marked, card)


def _card(path: str) -> str:
    """The card as it is; empty if there is none."""
    try:
        with open_path(path) as opened:
            if opened.size > CARD_BYTES:
                raise _unreadable(path, f"it is larger than {CARD_BYTES} bytes")
            return opened.read_all().decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(error)) from error
    except InputRejected as error:
        if error.rule == "files.not-found":
            return ""
        raise


def _unreadable(path: str, why: str) -> InputRejected:
    text = f"cannot read {path}: {why}"
    return InputRejected(text, rule="cli.card-unreadable", fix="Name a model card in UTF-8.", where=Where(file=path))
