"""``python -m contract`` is ``contract``."""

from contract.cli.main import run

run()
