"""Reports: one renderer per format, each a pure function from a report to text."""

from contract.report.registry import FORMATS, render
from contract.report.style import PLAIN, Style

__all__ = ["FORMATS", "PLAIN", "Style", "render"]
