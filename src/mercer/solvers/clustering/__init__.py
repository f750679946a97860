"""Partitions of points in feature space."""
