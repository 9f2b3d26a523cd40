"""The embedded pair: a small target and two drafters, really trained (docs/demo-pair.md), with samples and contracts."""
