"""Waivers: failures that somebody has looked at and accepted for a time, in a file of their own beside the contract."""

from contract.waivers.apply import apply_waivers
from contract.waivers.load import Waivers, load_waivers, waivers_path
from contract.waivers.rules import WAIVER_RULES

__all__ = ["WAIVER_RULES", "Waivers", "apply_waivers", "load_waivers", "waivers_path"]
