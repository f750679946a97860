"""Eigenvectors of the normalised graph Laplacian of a similarity, without storing it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.operators import GramOperator, ScaledGram
from mercer.solvers.result import Result
from mercer.solvers.spectral.eigenpairs import leading_eigenpairs


def laplacian_embedding(
    K: GramOperator, k: int, *, tol: float = 0.0, random_state: int | None = 0
) -> Result:
    r"""The k smallest eigenpairs of the normalised Laplacian.

    .. math:: L = I - D^{-1/2} K D^{-1/2}, \qquad D = \mathrm{diag}(K 1)

    Parameters
    ----------
    K : GramOperator of shape (n, n)
        With non-negative values.
    k : int
    tol : float
        Relative accuracy; 0 is about machine precision.
    random_state : int or None

    Returns
    -------
    Result
        ``value`` is an `Eigenpairs` with the eigenvalues of L, increasing.
    """
    degrees = np.asarray(K.double() @ np.ones((K.shape[0], 1)), dtype=np.float64)[:, 0]
    if not degrees.min() > 0:
        i = int(np.argmin(degrees))
        raise ValueError(
            f"point {i} has similarities that sum to {degrees[i]:.3g}, and spectral clustering "
            "needs a positive sum; use a kernel with positive values, such as a Gaussian, or a "
            "smaller gamma"
        )
    found = leading_eigenpairs(
        ScaledGram(K, 1 / np.sqrt(degrees)), k, tol=tol, random_state=random_state
    )
    return replace(found, value=replace(found.value, values=1 - found.value.values))
