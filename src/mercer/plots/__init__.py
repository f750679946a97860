"""Displays in scikit-learn's way: ``Display.from_estimator(estimator, ...)``; needs matplotlib."""

from mercer.plots.evidence import EvidenceDisplay
from mercer.plots.kernels import GramDisplay, ProofDisplay, SpectrumDisplay
from mercer.plots.machines import DecisionDisplay, GapDisplay, RegularizationDisplay
from mercer.plots.parts import PartsDisplay
from mercer.plots.regression import RegressionDisplay
from mercer.plots.smoothing import BandwidthDisplay, DensityDisplay
from mercer.plots.spectral import CanonicalDisplay, PreImageDisplay, ProjectionDisplay, ScreeDisplay

__all__ = [
    "BandwidthDisplay",
    "CanonicalDisplay",
    "DecisionDisplay",
    "DensityDisplay",
    "EvidenceDisplay",
    "GapDisplay",
    "GramDisplay",
    "PartsDisplay",
    "PreImageDisplay",
    "ProjectionDisplay",
    "ProofDisplay",
    "RegressionDisplay",
    "RegularizationDisplay",
    "ScreeDisplay",
    "SpectrumDisplay",
]
