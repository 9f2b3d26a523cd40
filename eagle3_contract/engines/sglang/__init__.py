"""What runs inside SGLang: hooks through its own plugin registry that record what its drafter is fed, and check it at start."""
