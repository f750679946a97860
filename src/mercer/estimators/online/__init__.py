"""Estimators that learn from one point at a time."""
