"""Displays in scikit-learn's way: ``Display.from_estimator(estimator, ...)``; needs matplotlib."""

from mercer.plots.smoothing import BandwidthDisplay, DensityDisplay, RegressionDisplay
from mercer.plots.spectral import (
    CanonicalDisplay,
    PreImageDisplay,
    ProjectionDisplay,
    ScreeDisplay,
)

__all__ = [
    "BandwidthDisplay",
    "CanonicalDisplay",
    "DensityDisplay",
    "PreImageDisplay",
    "ProjectionDisplay",
    "RegressionDisplay",
    "ScreeDisplay",
]
