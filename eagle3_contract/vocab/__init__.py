"""The vocab map as values: told apart by value, loaded from what trainers leave behind, and what it covers."""
