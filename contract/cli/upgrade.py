"""``contract upgrade SPEC``."""

from __future__ import annotations

import click

from contract.answers import Answer
from contract.cli.params import Output, formats_option
from contract.cli.perform import perform
from contract.files.atomic import atomic_write
from contract.source import read_yaml
from contract.upgrading import upgraded


@click.command("upgrade")
@click.argument("spec")
@click.option("-o", "--out", metavar="FILE", help="Where to write the upgraded contract. Default: in place.")
@formats_option
def command(spec: str, out: str | None, outputs: tuple[Output, ...]) -> int:
    """Bring the contract SPEC to the newest version of the file. A current one stays as it is."""
    return perform("upgrade", lambda: _upgrade(spec, out), outputs, subject={"spec": spec})


def _upgrade(spec: str, out: str | None) -> Answer:
    found = upgraded(read_yaml(spec))
    data = {"spec": spec, "old": found.old, "new": found.new, "changes": list(found.changes), "written": None}
    if found.text is None:
        return Answer(text=f"{spec} is current: version {found.old} of the contract file", data=data)
    place = out or spec
    atomic_write(place, found.text)
    lines = [f"{place}: upgraded from version {found.old} to {found.new}", *(f"  {change}" for change in found.changes)]
    return Answer(text="\n".join(lines), data={**data, "written": place})
