"""What training left behind, read as each trainer means it. A leaf file per trainer, found by entry point."""
