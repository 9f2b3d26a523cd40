"""The contract core: contracts, findings, files, captures, reports and the command line. Knows no drafter family."""

from __future__ import annotations

__version__ = "0.1.0"
