"""The NumPy twins of the native routines."""
