"""Linear systems of kernel ridge."""
