"""Everything read from and written to disk. Every byte that comes in is hostile; only ``*_tensors`` modules import torch."""
