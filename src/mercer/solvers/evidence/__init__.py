"""The evidence of Gaussian processes: what is asked of an engine, and the engines."""
