r"""The exact gradient of log |P| less its estimate by probes, which takes most of their error away.

.. math::
    \operatorname{tr} P^{-1} \partial P - \tfrac1s \sum_c u_c^T\, \partial P\, u_c, \qquad
    u_c = P^{-1} b_c,

whose expectation is zero. With :math:`P = Q + D`, :math:`Q = \Phi \Phi^T`, :math:`\Phi = K_{nm}
U^{-1}` and :math:`E = P^{-1} - \tfrac1s \sum_c u_c u_c^T` it is

.. math::
    \langle E, \partial P \rangle = 2 \langle E \Phi U^{-T}, \partial K_{nm} \rangle
    - \langle U^{-1} \Phi^T E \Phi U^{-T}, \partial K_{mm} \rangle + \langle E, \partial D \rangle

References
----------
Wenger, Pleiss, Hennig, Cunningham and Gardner (2022), "Preconditioning for scalable Gaussian
process hyperparameter optimization".
"""

from __future__ import annotations

from typing import cast

import numpy as np

from mercer.arrays import take_rows
from mercer.arrays.memory import row_blocks
from mercer.solvers.evidence.problem import KernelDerivatives
from mercer.solvers.evidence.system import System
from mercer.solvers.evidence.whitening import JITTER

# Bytes of the weights of a block of points and the preconditioner's points.
BLOCK_BYTES = 2**25


def control_variate(system: System, u: np.ndarray) -> np.ndarray:
    """The difference by theta: (p,).

    Parameters
    ----------
    system : System
    u : (n, s) array, P^-1 b for each probe
    """
    covariance, X = cast(KernelDerivatives, system.covariance), system.problem.X
    P, Z, s = system.P, system.Z, u.shape[1]
    n, m = P.G.shape
    B_inverse = -P.of_inverse
    pulled = P.root * u
    pulled = P.G.T @ pulled  # Phi^T u
    right = B_inverse @ P.inverse.T
    low = P.inverse @ pulled / s
    found = np.zeros(len(covariance.theta))
    for rows in row_blocks(n, 8 * m, BLOCK_BYTES):
        G, root = P.G[rows], P.root[rows]
        W = 2 * (G @ right / root - u[rows] @ low.T)
        some = take_rows(X, rows)
        found += covariance.cross_contracted(some, Z, W)
        known = np.einsum("ij,ij->i", G @ B_inverse, G)
        on_diagonal = (1 - known) / root[:, 0] ** 2 - (u[rows] ** 2).sum(1) / s
        found += covariance.errors_contracted(some, on_diagonal)
    inner = np.eye(m) - B_inverse - pulled @ pulled.T / s
    W = -(P.inverse @ inner @ P.inverse.T)
    W.reshape(-1)[:: m + 1] *= 1 + JITTER
    return found + covariance.cross_contracted(Z, None, W)
