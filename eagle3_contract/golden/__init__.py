"""Golden rows made by this tool: a regression test of a contract's forward, not a proof of its wiring."""
