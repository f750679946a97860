"""Bounds on the evidence that are closer than those of the inducing points alone."""

from __future__ import annotations

import numpy as np

from mercer.solvers.conjugate_gradients import dots
from mercer.solvers.evidence.inducing import InducingEngine
from mercer.solvers.evidence.mean_coefficients import profiled
from mercer.solvers.evidence.problem import Evidence
from mercer.solvers.evidence.quadrature import solve_with_logs
from mercer.solvers.evidence.system import System, bounded


def certified(
    engine: InducingEngine, theta: np.ndarray, *, tol: float = 1e-2, max_iter: int = 100
) -> Evidence:
    r"""The lower bound of inducing points with bounds from conjugate gradients for the targets.

    Only the determinant is then left to the inducing points, in

    .. math::
        \log |Q + D| \le \log |K + D| \le \log |Q + D| + n \log (1 + \tfrac1n \operatorname{tr}
        D^{-1} (K - Q)).

    Parameters
    ----------
    engine : InducingEngine
    theta : (p,) array
    tol : float
        Of the residual relative to the targets, in the norm of :math:`(Q + D)^{-1}`.
    max_iter : int
        Products with K at most; what is left unsolved widens the bounds.

    Returns
    -------
    Evidence
        ``value`` is that of the engine; ``lower`` is at least that.

    References
    ----------
    Artemev, Burt and van der Wilk (2021), "Tighter bounds on the log marginal likelihood of
    Gaussian process regression using conjugate gradients".
    """
    problem, own = engine.problem, engine.evidence(theta, gradient=False)
    system = System(problem, problem.covariance.at(theta), engine.Z)
    P, R, shape = system.P, system.R, problem.Y.shape
    goal = tol**2 * dots(R, P.solve(R))
    solved = solve_with_logs(system.quick_product, P.solve, R, goal, max_iter)
    low, slack = bounded(system, R, solved.X)
    least, most = profiled(low, system.t), profiled(low + slack, system.t)
    return Evidence(
        own.value,
        lower=max(own.lower, most.log_evidence(shape, P.log_det + P.log_det_slack)),
        upper=min(own.upper, least.log_evidence(shape, P.log_det)),
    )
