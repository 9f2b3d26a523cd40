"""Fuzzing of everything that reads a stranger's bytes: ``python -m tools.fuzz`` (``make fuzz``)."""
