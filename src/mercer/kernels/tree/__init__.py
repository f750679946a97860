"""Kernels on ordered trees."""
