"""Kernels on finite sets."""
