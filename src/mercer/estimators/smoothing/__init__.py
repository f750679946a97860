"""Densities and local regression."""
