"""``contract export``: one folder that every named engine reads as training meant it, proved by reading it back."""
