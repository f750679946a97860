"""What ridge regressions warn of: data that leave the solution undetermined."""

from __future__ import annotations

import numpy as np

from mercer.estimators.fitting import warn_of_convergence
from mercer.solvers.eigensystem import Eigensystem


def warn_if_undetermined(system: Eigensystem, lam: np.ndarray) -> None:
    """Warn where the smallest regulariser is below the rounding error of eigenvalues."""
    in_use = int(np.count_nonzero(system.weight)) - system.fit_intercept
    if system.rank < in_use and np.any(lam <= system.cutoff):
        warn_undetermined(lam, system.rank, in_use)


def warn_undetermined(lam: np.ndarray, rank: int, n: int) -> None:
    """Warn that the Gram matrix has a rank below n, and alpha does not make up for it."""
    warn_of_convergence(
        f"alpha={np.min(lam):.3g} leaves the solution undetermined: the Gram matrix has numerical "
        f"rank {rank} of {n}. The least squares solution of minimum norm is returned; a larger "
        "alpha gives a stable one."
    )
