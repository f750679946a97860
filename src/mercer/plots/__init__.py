"""Displays in scikit-learn's way: ``Display.from_estimator(estimator, ...)``; needs matplotlib."""

from mercer.plots.smoothing import BandwidthDisplay, DensityDisplay, RegressionDisplay

__all__ = ["BandwidthDisplay", "DensityDisplay", "RegressionDisplay"]
