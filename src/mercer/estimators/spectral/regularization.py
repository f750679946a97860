"""The regularisation of canonical correlations: given, or chosen by leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.solvers.spectral.canonical import WhitenedView
from mercer.solvers.spectral.held_out_correlation import leave_one_out_correlation

# Candidates of "loo".
REGULARIZATIONS = tuple(float(f"{value:.3g}") for value in np.logspace(-4, 1, 11))


def penalties(spectra: list[WhitenedView], regularization: float) -> list[float]:
    """c_v = n kappa_v = rho tr(K_v)."""
    return [regularization * view.trace for view in spectra]


def choose_regularization(cca: Any, spectra: list[WhitenedView]) -> float:
    """The number given, or the candidate with the best leave-one-out correlation."""
    if cca.regularization != "loo":
        return float(cca.regularization)
    n = len(spectra[0].vectors)
    if n < 3:
        raise ValueError(f"regularization='loo' needs at least 3 points, found {n}; give a number")
    cca.regularizations_ = np.array(REGULARIZATIONS)
    cca.loo_scores_ = np.array(
        [leave_one_out_correlation(spectra, penalties(spectra, rho)) for rho in REGULARIZATIONS]
    )
    return REGULARIZATIONS[int(np.argmax(cca.loo_scores_))]
