"""Quadratic programs of support vector machines."""
