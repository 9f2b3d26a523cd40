"""Conformance vectors: a tiny checkpoint for every wiring, with inputs, and the logits that training would have given."""
