"""Bundles of real engines: the same prompts in several runs, and the acceptance that was measured against the predicted one."""
