"""Kernel ridge on the span of a few centres, from sums over the data that are additive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays import as_numpy, like
from mercer.solvers.conjugate_gradients import conjugate_gradients, relative
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.nystrom.sums import Block, FeatureMoments, ProductSums, summed
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import EPS, FLOAT32_ERROR_OVER_LAM, rounding_advice


class NystromSolution(NamedTuple):
    """Weights of the features and what follows from them.

    Attributes
    ----------
    weights : ndarray of shape (r, t)
        ``||f||_H`` is their norm.
    coef : ndarray of shape (r, t)
        Coefficients of the kernel at the centres kept.
    intercept : ndarray of shape (t,)
    """

    weights: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


class _NormalEquations:
    """``Phi^T S Phi + lam I``, the features centred where there is an intercept, by passes.

    Parameters
    ----------
    blocks : callable
    whitening : CentreWhitening
    moments : FeatureMoments
    lam : ndarray of shape (t,)
    fit_intercept : bool
    """

    def __init__(
        self,
        blocks: Callable[[], Iterable[Block]],
        whitening: CentreWhitening,
        moments: FeatureMoments,
        lam: np.ndarray,
        fit_intercept: bool,
    ):
        self.blocks, self.whitening, self.moments, self.lam = blocks, whitening, moments, lam
        self.centred = fit_intercept and moments.weight > 0

    def product(self, V: np.ndarray, columns: np.ndarray, single: bool = False) -> np.ndarray:
        """The product with V for the targets of this mask; ``single`` is of float32 accuracy."""
        out = self._pulled(V, single=single)
        return out + self.lam[columns] * V

    def residual(self, V: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """``Phi^T S (Y - Phi V - b) - lam V``: what is pulled back is small where V is good."""
        level = self.moments.intercept(V, self.centred, columns)
        return self._pulled(V, columns, level) - self.lam[columns] * V

    def _pulled(
        self,
        V: np.ndarray,
        columns: np.ndarray | None = None,
        level: float | np.ndarray = 0.0,
        single: bool = False,
    ) -> np.ndarray:
        """``Phi^T S Phi V`` or, for the targets of a mask, ``Phi^T S (Y - Phi V - level)``."""
        coef = self.whitening.apply(V)
        sums = ProductSums(coef, columns, level, single)
        found = summed(self.blocks(), self.whitening, sums)
        out = self.whitening.pull(found.pulled)
        if self.centred:
            out -= np.outer(self.moments.sums, found.total / self.moments.weight)
        return out

    def quick(self, V: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.product(V, columns, single=True)


def solve_nystrom(
    blocks: Callable[[], Iterable[Block]] | None,
    whitening: CentreWhitening,
    moments: FeatureMoments,
    lam: np.ndarray,
    *,
    fit_intercept: bool = False,
    single: bool = False,
    tol: float = 1e-6,
    max_iter: int = 100,
    max_time: float | None = None,
    report: Callable[[int, float], bool | None] | None = None,
) -> Result:
    r"""Minimise over ``w`` the ridge objective with features ``Phi = K_nM W``.

    Exact moments alone give w, and a pass over the data in float64 computes the gradient, which is
    the certificate. Estimated moments precondition conjugate gradients, one pass per step.

    Parameters
    ----------
    blocks : callable or None
        ``blocks()`` goes through the data once more, in any order. None where the data are gone:
        then the gradient is that of the moments.
    whitening : CentreWhitening
    moments : FeatureMoments
        Of all the data, or `estimated`.
    lam : ndarray of shape (t,)
    fit_intercept : bool
    single : bool
        Whether steps may take products of float32 accuracy, corrected by some in float64.
    tol : float
    max_iter : int
        Passes at most, the one for the moments included.
    max_time, report
        As for the other solvers.

    Returns
    -------
    Result
        ``value`` is a `NystromSolution`; ``gap`` is ``||grad J(w)|| / ||grad J(0)||``, the worst
        over targets.

    References
    ----------
    Williams and Seeger (2001), "Using the Nyström method to speed up kernel machines", NIPS.
    Rudi, Carratino and Rosasco (2017), "FALKON: an optimal large scale kernel method", NIPS.
    Avron, Maymounkov and Toledo (2010), "Blendenpik: supercharging LAPACK's least-squares solver".
    """
    monitor = Monitor(tol=tol, max_iter=max_iter, max_time=max_time, report=report)
    monitor.n_iter = 1
    H, G, _ = moments.system(fit_intercept)
    inverse = _Inverse(whitening, H, lam)
    w = inverse(G, np.ones(len(lam), dtype=bool)) if moments.exact else np.zeros_like(G)
    if blocks is None:
        gradient = G - as_numpy(H @ like(w, H)) - lam * w
        stalled = not monitor.record(relative(gradient, G), steps=0)
    else:
        equations = _NormalEquations(blocks, whitening, moments, lam, fit_intercept)
        quick = equations.quick if single else None
        gradient, stalled = conjugate_gradients(
            equations.residual, equations.product, inverse, G, w, monitor, quick
        )
    solution = NystromSolution(w, whitening.apply(w), moments.intercept(w, fit_intercept))
    result = monitor.result(
        solution,
        relative(gradient, G),
        status=Status.STALLED if stalled else None,
        method=f"nystrom with {len(whitening.kept)} centres",
    )
    return result.advised(rounding_advice(float(H.trace()), lam)) if stalled else result


def rounding_is_small(
    whitening: CentreWhitening, weight: float, largest: float, lam: float, eps: float
) -> bool:
    """Whether rounding of the kernel, random over its entries, is small compared with lam.

    ``W^T E^T`` takes it to the gradient, where E has n rows, and vectors of the length of the
    features of n points. ``largest`` is that of the kernel's values, ``eps`` their precision.
    """
    error = eps * largest * whitening.reach * np.sqrt(weight * largest)
    return bool(error <= FLOAT32_ERROR_OVER_LAM * lam and eps * weight * largest <= lam)


def distance_bound(
    K: Any, weights: np.ndarray, fitted: np.ndarray, residual: np.ndarray, lam: np.ndarray
) -> np.ndarray:
    r"""A bound on ``||f - f_exact||_H`` for each target, at the cost of one product with K.

    The exact ridge solution is the fixed point of ``T f = sum_i s_i (y_i - f(x_i)) / lam k_i``,
    and ``I - T`` is the identity plus a positive operator, so the distance is at most
    ``||f - T f||_H``.

    Parameters
    ----------
    K : operator of shape (n, n)
    weights : ndarray of shape (r, t)
        Their norm is that of f.
    fitted : ndarray of shape (n, t)
        f at the points, without the intercept.
    residual : ndarray of shape (n, t)
        ``s (y - f - b)``, with b the intercept that is best for f.
    lam : ndarray of shape (t,)
    """
    e = residual / lam
    terms = [np.einsum("ij,ij->j", *pair) for pair in ((weights, weights), (e, fitted), (e, K @ e))]
    squared = terms[0] - 2 * terms[1] + terms[2]
    rounding = 100 * EPS * (np.abs(terms[0]) + 2 * np.abs(terms[1]) + np.abs(terms[2]))
    return np.sqrt(np.maximum(squared, 0.0) + rounding)


class _Inverse:
    """``(H + lam I)^{-1} G``, of minimum norm where lam is lost in the rounding of H.

    Parameters
    ----------
    H : ndarray or tensor of shape (r, r)
    lam : ndarray of shape (t,)
    """

    def __init__(self, whitening: CentreWhitening, H: Any, lam: np.ndarray):
        self.lam, self._system, self._factors = lam, None, {}
        if np.any(lam <= len(H) * EPS * float(H.trace())):
            self._system = Eigensystem(H)
            return
        try:
            for value in np.unique(lam):
                self._factors[value] = whitening.shifted_inverse(H, value)
        except LinAlgError:  # an estimate in float32 may not be positive definite
            self._system = Eigensystem(H)

    def __call__(self, G: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """For the columns of this mask, G having these only."""
        lams = self.lam[columns]
        if self._system is not None:
            return self._system.coefficients(G, lams)
        solution = np.empty_like(G)
        for value in np.unique(lams):
            at = lams == value
            solution[:, at] = self._factors[value](G[:, at])
        return solution
