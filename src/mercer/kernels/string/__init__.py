"""Kernels on sequences."""
