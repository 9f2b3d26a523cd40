"""One target under Atheris: ``python -m tools.fuzz.atheris_run TARGET [libFuzzer options] CORPUS``. The corpus is read, never written."""

from __future__ import annotations

import shutil
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["contract", "eagle3_contract"]):
    from tools.fuzz.targets import TARGETS


def main() -> None:
    """Never returns: Atheris ends the process."""
    name, *options, corpus = sys.argv[1:]
    # libFuzzer adds what it finds to the first corpus folder.
    copy = shutil.copytree(corpus, tempfile.mkdtemp(prefix="fuzz-"), dirs_exist_ok=True)
    atheris.Setup([sys.argv[0], *options, str(copy)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
