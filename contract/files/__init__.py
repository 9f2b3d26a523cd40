"""Everything read from and written to disk. Every byte that comes in is hostile; only ``torch_tensors`` imports torch."""
