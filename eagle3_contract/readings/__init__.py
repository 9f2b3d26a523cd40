"""Readings: what each engine makes of a drafter, as data (``profiles``) executed by one interpreter."""
