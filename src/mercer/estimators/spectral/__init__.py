"""Kernel PCA and canonical correlations."""
