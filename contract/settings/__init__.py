"""Configuration in rising order: pyproject.toml, contract.toml, environment (``CONTRACT_*``), flags. It can never loosen a policy."""

from contract.settings.effective import Setting, defaults_of, effective
from contract.settings.rules import SETTINGS_RULES

__all__ = ["SETTINGS_RULES", "Setting", "defaults_of", "effective"]
