"""Engines that can be made to show what they feed their drafter, one module each. They run a forward and import torch."""
