r"""LIBSVM's five support vector machines as quadratic programs, and back.

Each form is written in signed coefficients, so that the model is always
:math:`f(x) = \sum_i \beta_i k(x, x_i) + b`. With an intercept the coefficients sum to zero, in the
one-class machine to a given total; the problem's multipliers hold b and, in the ``nu`` forms, the
width of the margin or of the tube.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.arrays import as_numpy
from mercer.estimators.labels import weight_unit
from mercer.solvers.qp.quadratic_program import QuadraticProgram, Solution

EPS = np.finfo(np.float64).eps
SMALLEST = np.finfo(np.float64).tiny  # a bound may not be rounded to zero


class Expansion(NamedTuple):
    """``f(x) = sum_i coefficients_i k(x, x_i) + intercept``, ``||w||``, and a width.

    The width is half the distance between the levels of f of the problem's two groups: the rho
    of `nu_svc` and minus the epsilon of `nu_svr`; zero in the other forms.
    """

    coefficients: np.ndarray
    intercept: float
    norm: float
    width: float = 0.0

    @property
    def margin(self) -> float:
        """``1 / ||w||``, infinite for w = 0."""
        return 1.0 / self.norm if self.norm > 0 else np.inf


class Form(NamedTuple):
    """A problem, whether its multipliers make an intercept, and the unit of its variables."""

    program: QuadraticProgram
    has_intercept: bool
    unit: float = 1.0

    def expansion(self, solution: Solution) -> Expansion:
        """The model at a solution: b is minus the mean multiplier."""
        levels = self.unit * solution.multipliers
        intercept = -float(levels.sum() / len(levels)) if self.has_intercept else 0.0
        width = 0.0
        if len(levels) > self.has_intercept:
            width = float(levels[0] - levels[1]) / 2 if self.has_intercept else float(levels[0])
        norm = self.unit * float(np.sqrt(solution.squared_norm))
        return Expansion(self.unit * solution.coefficients, intercept, norm, width)


def c_svc(K: Any, y: np.ndarray, C: np.ndarray, fit_intercept: bool) -> Form:
    r"""``min ½ ‖w‖² + sum_i C_i max(0, 1 - y_i f(x_i))``.

    Parameters
    ----------
    K : Gram matrix or operator of shape (m, m)
    y : ndarray of shape (m,)
        Labels -1 and +1.
    C : ndarray of shape (m,)
        Price of each point, infinite for the hard margin.
    fit_intercept : bool
    """
    signed = y * _bounds(K, C, 1.0)
    lo, hi = np.minimum(signed, 0.0), np.maximum(signed, 0.0)
    return Form(
        QuadraticProgram(K, -y, lo, hi, **_sums_to_zero(len(y), fit_intercept)), fit_intercept
    )


def nu_svc(K: Any, y: np.ndarray, nu: float, weight: np.ndarray, fit_intercept: bool) -> Form:
    """``min ½ ‖w‖² - nu rho sum_i W_i + sum_i W_i max(0, rho - y_i f(x_i))``.

    LIBSVM then divides f by rho, which is left to the caller; f / rho depends on ratios of weights
    only.
    """
    weight = weight / weight_unit(weight)
    total = nu * weight.sum()
    zero = np.zeros(len(y))
    if not fit_intercept:
        one = np.zeros(len(y), dtype=int)
        return Form(QuadraticProgram(K, zero, zero, weight, one, np.array([total]), y), False)
    lo, hi = np.where(y < 0, -weight, 0.0), np.where(y > 0, weight, 0.0)
    totals = np.array([total / 2, -total / 2])
    return Form(QuadraticProgram(K, zero, lo, hi, (y < 0).astype(int), totals), True)


def epsilon_svr(K: Any, t: np.ndarray, epsilon: float, C: np.ndarray, fit_intercept: bool) -> Form:
    """``min ½ ‖w‖² + sum_i C_i max(0, |t_i - f(x_i)| - epsilon)``; two variables a point."""
    zero, C = np.zeros(len(t)), _bounds(K, C, float(np.max(np.abs(t))) + epsilon)
    program = QuadraticProgram(
        K,
        np.concatenate([epsilon - t, -epsilon - t]),
        np.concatenate([zero, -C]),
        np.concatenate([C, zero]),
        **_sums_to_zero(2 * len(t), fit_intercept),
    )
    return Form(program, fit_intercept)


def nu_svr(K: Any, t: np.ndarray, nu: float, C: np.ndarray, fit_intercept: bool) -> Form:
    """``min ½ ‖w‖² + nu epsilon sum_i C_i + sum_i C_i max(0, |t_i - f(x_i)| - epsilon)``."""
    C = _bounds(K, C, float(np.max(np.abs(t))))
    if np.isinf(C).any():
        raise ValueError(
            "C times sample_weight is so large that the rounding error of nu C sum(sample_weight), "
            "to which the coefficients of NuSVR sum, exceeds the targets; choose a smaller C, or "
            "smaller weights"
        )
    m, total = len(t), nu * C.sum()
    zero, both = np.zeros(m), np.concatenate([C, C])
    if not fit_intercept:
        signs = np.repeat([1.0, -1.0], m)
        one = np.zeros(2 * m, dtype=int)
        p = np.concatenate([-t, t])
        program = QuadraticProgram(K, p, 0.0 * both, both, one, np.array([total]), signs)
        return Form(program, False)
    program = QuadraticProgram(
        K,
        np.concatenate([-t, -t]),
        np.concatenate([zero, -C]),
        np.concatenate([C, zero]),
        np.repeat([0, 1], m),
        np.array([total / 2, -total / 2]),
    )
    return Form(program, True)


def one_class(K: Any, nu: float, weight: np.ndarray) -> Form:
    """``min ½ ‖w‖² - nu rho sum_i W_i + sum_i W_i max(0, rho - w·phi(x_i))``; b is -rho."""
    m, unit = len(weight), weight_unit(weight)
    weight = weight / unit
    total = np.array([nu * weight.sum()])
    one = np.zeros(m, dtype=int)
    return Form(QuadraticProgram(K, np.zeros(m), np.zeros(m), weight, one, total), True, unit)


def _bounds(K: Any, C: np.ndarray, size: float) -> np.ndarray:
    """C as bounds of coefficients, for a function f of about the given size.

    A coefficient C changes f by C K_ii. Where that is beyond size / eps², no digit of f is left of
    a point at its bound, and only a model with none, that of C = inf, can be found.
    """
    C, size = np.maximum(C, SMALLEST), size or 1.0
    if EPS * np.max(C) <= size:  # whatever K is
        return C
    return np.where(EPS**2 * C * np.max(as_numpy(K.diagonal())) > size, np.inf, C)


def _sums_to_zero(n: int, fit_intercept: bool) -> dict[str, Any]:
    if not fit_intercept:
        return {}
    return {"groups": np.zeros(n, dtype=np.int32), "totals": np.zeros(1)}
