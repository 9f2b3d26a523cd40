"""Contracts of older versions of the file, brought to the newest one step by step."""

from contract.upgrading.migrations import MIGRATIONS, Migration
from contract.upgrading.upgrade import Upgraded, upgraded

__all__ = ["MIGRATIONS", "Migration", "Upgraded", "upgraded"]
