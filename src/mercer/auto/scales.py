r"""A sum of kernels with one scale per coordinate, learnt by the leave-one-out error.

The kernel is :math:`k = \sum_c \beta_c k_c(w_c \circ x, w_c \circ z)` with rates :math:`w_c`, one
per coordinate, for the Laplacian and the Gaussian kernel. With :math:`G = (K + \alpha I)^{-1}`,
:math:`a = GY` and residuals :math:`e_i = a_i / G_{ii}` the error
:math:`\tfrac1n \sum e_i^2` changes with K by

.. math:: S = \tfrac2n \left(G\,\mathrm{diag}(e^2)\,\mathrm{diag}(G)^{-1} G
          - G\,\mathrm{diag}(G)^{-1} e\, a^\top\right).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, get_lapack_funcs
from scipy.linalg.blas import ssyrk
from scipy.optimize import minimize

from mercer import kernels as K
from mercer.auto.leave_one_out import weighed
from mercer.kernels import Kernel

LAPLACIAN, GAUSSIAN = "Laplacian", "Gaussian"
_FAMILIES: dict[str, Callable[..., Kernel]] = {
    LAPLACIAN: lambda scales=None: K.Laplacian(1.0, scales=scales),
    GAUSSIAN: lambda scales=None: K.RBF(1.0, scales=scales),
}
# Rows of a block of differences, so that it stays in the cache.
_BLOCK = 96


class Part(NamedTuple):
    """One kernel of the sum: amplitude times the family's kernel of ``rates * x``."""

    family: str
    rates: np.ndarray
    amplitude: float


def kernel_of(parts: list[Part]) -> Kernel:
    """The sum as a kernel of points."""
    terms = [part.amplitude * _FAMILIES[part.family](1 / part.rates) for part in parts]
    return sum(terms[1:], terms[0])


def widened(parts: list[Part], factor: float) -> list[Part]:
    """The same with all scales multiplied by a factor."""
    return [part._replace(rates=part.rates / factor) for part in parts]


class Slopes:
    """The leave-one-out error on some rows, and its derivatives.

    Parameters
    ----------
    X : (n, d) array
    Y : (n, t) array
        Multiplied by the roots, where there are some.
    roots : (n,) array, optional
        Square roots of the weights, as for `mercer.auto.leave_one_out.weighed`.
    """

    def __init__(self, X: np.ndarray, Y: np.ndarray, roots: np.ndarray | None = None):
        self.X, self.Y, self.roots = np.asarray(X, dtype=np.float32), Y, roots
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        self.is_binary = np.all((low == self.X) | (high == self.X), axis=0)

    def at(
        self, parts: list[Part], alpha: float
    ) -> tuple[float, list[np.ndarray], np.ndarray, float]:
        """The error, and its derivatives by the logarithms of rates, amplitudes and alpha."""
        grams = [np.asarray(_FAMILIES[p.family]()(self._scaled(p))) for p in parts]
        whole = sum(p.amplitude * G.astype(np.float64) for p, G in zip(parts, grams, strict=True))
        S, error, trace = self._by_gram(weighed(np.asarray(whole), self.roots), alpha)
        if self.roots is not None:
            S = weighed(S, self.roots.astype(np.float32))
        by_rates, by_amplitude = [], []
        for part, G in zip(parts, grams, strict=True):
            M = S * G
            M *= np.float32(part.amplitude)
            by_amplitude.append(float(M.sum(dtype=np.float64)))
            by_rates.append(-self._by_rates(part, M))
        return error, by_rates, np.array(by_amplitude), trace * alpha

    def _scaled(self, part: Part) -> np.ndarray:
        return self.X * part.rates.astype(np.float32)

    def _by_rates(self, part: Part, M: np.ndarray) -> np.ndarray:
        Z = self._scaled(part)
        if part.family == GAUSSIAN:
            return 2 * squared_differences(M, Z)
        found = np.empty(Z.shape[1])
        two = self.is_binary
        spans = np.ptp(Z[:, two], axis=0)
        # Of two values |x - z| is (x - z)² over their difference.
        squares = squared_differences(M, Z[:, two])
        found[two] = squares / np.where(spans > 0, spans, 1)
        found[~two] = absolute_differences(M, Z[:, ~two])
        return found

    def _by_gram(self, gram: np.ndarray, alpha: float) -> tuple[np.ndarray, float, float]:
        """S in float32, the error and the trace of S."""
        potrf, potri = get_lapack_funcs(("potrf", "potri"), (gram,))
        gram.flat[:: len(gram) + 1] += alpha
        U, failed = potrf(gram.T, lower=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite after rounding")
        a = cho_solve((U, False), self.Y, check_finite=False)
        upper = potri(U, lower=0, overwrite_c=1)[0]
        g = upper.diagonal()[:, None].copy()
        e = a / g
        G = _mirrored(upper.astype(np.float32))
        roots = np.sqrt(np.sum(e**2, axis=1) / g[:, 0]).astype(np.float32)
        other = (G @ (e / g).astype(np.float32)) @ a.T.astype(np.float32)
        S = _mirrored(ssyrk(1.0, (G * roots).T, trans=1))
        other += other.T
        S -= np.float32(0.5) * other
        S *= np.float32(2 / a.size)
        return S, float(np.mean(e**2)), float(np.trace(S, dtype=np.float64))


def _mirrored(upper: np.ndarray) -> np.ndarray:
    """The symmetric matrix of which the upper triangle is given."""
    whole = np.triu(upper, 1)
    whole += whole.T
    whole.flat[:: len(whole) + 1] = upper.diagonal()
    return whole


def squared_differences(M: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ_ij M_ij (x_ik - x_jk)² for every k, with M symmetric."""
    X = X - X.mean(axis=0)
    sums = M.sum(axis=1) @ X**2 - np.einsum("ik,ik->k", X, M @ X)
    return 2 * sums.astype(np.float64)


def absolute_differences(M: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Σ_ij M_ij |x_ik - x_jk| for every k, with M symmetric."""
    n, d = X.shape
    found = np.zeros(d)
    columns = np.ascontiguousarray(X.T)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        W = M[start:stop, :stop].copy()
        W[:, start:] = np.tril(W[:, start:])  # zeros on the diagonal count nothing
        differences = np.empty_like(W)
        for k, x in enumerate(columns):
            np.subtract(x[start:stop, None], x[:stop], out=differences)
            np.abs(differences, out=differences)
            found[k] += 2 * float(np.vdot(differences, W))
    return found


# Learning.

# Rates begin so that each coordinate has a typical |x - z| of one, but no larger than this.
_LARGEST_RATE = 5.0
# Amplitudes and the regulariser that the search begins with: the Gaussian kernel is wide and large,
# nearly a polynomial, and the Laplacian kernel adds what is rough.
_AMPLITUDES = {LAPLACIAN: 1.0, GAUSSIAN: 10.0}
_ALPHA = 0.3
# The penalty on squared logarithms of rates at so many rows, with so much more per coordinate. It
# falls with the square of the rows, faster than for independent errors: on small tables the
# leave-one-out error itself was the less reliable.
_PENALTY, _PENALTY_BY_COORDINATE, _PENALTY_ROWS = 2e-3, 2e-5, 900
# How far logarithms go: of rates, of amplitudes and of alpha.
_RATES, _AMPLITUDE, _REGULARISER = 4.5, 3.0, 9.0


class Learnt(NamedTuple):
    """The parts found, their regulariser, the error at the start and at the end."""

    parts: list[Part]
    alpha: float
    before: float
    after: float


def start(X: np.ndarray, random: np.random.RandomState) -> list[Part]:
    """Parts in which all coordinates count the same."""
    n, d = X.shape
    typical = np.abs(X - X[random.permutation(n)]).mean(axis=0)
    rates = np.minimum(1 / np.where(typical > 0, typical, 1.0), _LARGEST_RATE)
    divisors = {LAPLACIAN: d, GAUSSIAN: 8 * np.sqrt(d)}
    return [Part(f, rates / divisors[f], _AMPLITUDES[f]) for f in (LAPLACIAN, GAUSSIAN)]


def learn(
    slopes: Slopes,
    parts: list[Part],
    steps: int,
    is_late: Callable[[], bool] = lambda: False,
    alpha: float | None = None,
) -> Learnt:
    """Descend by L-BFGS on the logarithm of the error.

    The logarithms of rates are drawn to the start, the more so the more coordinates there are.
    ``is_late()`` ends the descent; the best point so far is returned.
    """
    n, d = slopes.X.shape
    F = len(parts)
    penalty = np.zeros(F * d + F + 1)
    penalty[: F * d] = (_PENALTY + _PENALTY_BY_COORDINATE * d) * (_PENALTY_ROWS / n) ** 2
    seen: list[tuple[float, float, np.ndarray]] = []

    def at(u: np.ndarray) -> tuple[list[Part], float]:
        moved = [
            Part(
                part.family,
                part.rates * np.exp(u[c * d : (c + 1) * d]),
                part.amplitude * float(np.exp(u[F * d + c])),
            )
            for c, part in enumerate(parts)
        ]
        return moved, (_ALPHA if alpha is None else alpha) * float(np.exp(u[-1]))

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        if seen and is_late():
            raise TimeoutError
        error, by_rates, by_amplitude, by_alpha = slopes.at(*at(u))
        error = max(error, 1e-300)
        gradient = np.concatenate([*by_rates, by_amplitude, [by_alpha]]) / error
        value = float(np.log(error) + 0.5 * penalty @ u**2)
        seen.append((value, error, u.copy()))
        return value, gradient + penalty * u

    # One amplitude is fixed: only their ratio to alpha counts.
    limits = [_RATES] * (F * d) + [0.0] + [_AMPLITUDE] * (F - 1) + [_REGULARISER]
    bounds = [(-limit, limit) for limit in limits]
    options = {"maxiter": steps, "maxfun": steps + steps // 2}
    try:
        first = np.zeros(len(penalty))
        minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    except (TimeoutError, np.linalg.LinAlgError):
        pass
    if not seen:
        return Learnt(parts, _ALPHA, np.inf, np.inf)
    _, error, u = min(seen, key=lambda found: found[0])
    return Learnt(*at(u), seen[0][1], error)
