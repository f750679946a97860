"""One point at a time."""
