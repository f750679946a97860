"""Eigenpairs and canonical variates."""
