"""``contract diff``: what changed between two contracts, and what of it breaks a promise."""
