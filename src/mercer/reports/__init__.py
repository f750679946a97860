"""The report of a fitted model."""
