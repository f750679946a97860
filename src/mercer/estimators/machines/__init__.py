"""Kernel machines: any convex loss."""
