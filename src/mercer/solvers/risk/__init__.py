"""Regularised risk with any convex loss."""
