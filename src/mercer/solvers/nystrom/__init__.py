"""Ridge on the span of a few centres."""
