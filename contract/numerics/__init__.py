"""Comparing tensors: one-pass statistics, per row and pooled, sinks, tolerances and attribution. Imports torch; knows no EAGLE."""
