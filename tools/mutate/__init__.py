"""What would a wrong contract, or a damaged file, have to look like to pass? ``python -m tools.mutate`` (``make mutate``)."""
