"""Kernels given by the user: a Gram matrix, a matrix on indices, features, a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_dense, as_vectors, n_rows
from mercer.expressions import Check, Expression, Map, PairStatistic, Statistic, View
from mercer.kernels import feature_maps as maps
from mercer.kernels.domains import ANYTHING, INDICES, Domain
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import (
    ROUNDINGS,
    STATED,
    Validity,
    is_clearly_negative,
    shrink,
    smallest_eigenvalue,
    tolerance,
    valid,
)
from mercer.kernels.vector.dot_product import Linear

# How far k(x, z) and k(z, x) may differ, relative to the largest entry.
ASYMMETRY = 1e-10
# What to say where a function of the user's fails, by whether it was called with pairs of points.
CALLED_WITH = {
    True: "The function was called with two single points; if it takes two arrays of points, pass "
    "kernel=kernels.FromFunction(f, pairwise=False).",
    False: "The function was called with two arrays of points; if it takes two single points, pass "
    "kernel=kernels.FromFunction(f).",
}
_GRAM_ROWS = Domain("rows of a Gram matrix", as_vectors, is_vectors=True)


class Precomputed(Kernel):
    """The points are rows of a Gram matrix computed beforehand.

    Estimators then take K(train, train) in fit and K(test, train) in predict.

    Examples
    --------
    >>> Precomputed()([[2.0, 1.0], [1.0, 2.0]]).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    is_precomputed = True

    @property
    def domain(self) -> Domain:
        return _GRAM_ROWS

    def build(self, view: View, path: str) -> Expression:
        raise TypeError("Precomputed() cannot be combined; combine the matrices instead")

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """X itself: the matrix of the points asked for with the points fitted on."""
        K = as_dense(as_vectors(X))
        if Y is None and K.shape[0] != K.shape[1]:
            raise ValueError(
                f"X has shape {K.shape}; a precomputed kernel needs the square Gram matrix "
                "of the points with themselves"
            )
        return K

    def diag(self, X: Any) -> np.ndarray:
        return np.diagonal(self(X)).copy()

    def rounding(self, X: Any) -> np.ndarray:
        return last_digits(self(X))

    def judge(self) -> Validity:
        return Validity(
            "unknown", reason="it depends on the matrix; check_kernel(matrix) looks at one"
        )


class FromMatrix(Kernel):
    """k(i, j) = A[i, j], a kernel on the indices of a positive semidefinite matrix.

    Parameters
    ----------
    A : (n, n) symmetric array

    Examples
    --------
    >>> FromMatrix([[2.0, 1.0], [1.0, 2.0]])([0, 1], [1]).tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, A: Any):
        self.A = A

    @property
    def domain(self) -> Domain:
        return INDICES

    def matrix(self) -> np.ndarray:
        A = as_dense(as_vectors(self.A, "the matrix"))
        if A.shape[0] != A.shape[1]:
            raise ValueError(f"the matrix has shape {A.shape}; a Gram matrix is square")
        refuse_asymmetric(A, last_digits(A))
        return A

    def build(self, view: View, path: str) -> Expression:
        A = self.matrix()
        at = _Lookup(A)
        kind = PairStatistic("A", at.block, at.diagonal, magnitude=at.magnitude)
        return Statistic(kind, view.then(Check(self.domain), Below(len(A))))

    def judge(self) -> Validity:
        A = self.matrix()
        E = last_digits(A)
        if is_clearly_negative(A, E):
            found = shrink(np.arange(len(A)), A, E)
            return Validity("indefinite", counterexample=found, reason="A has this submatrix")
        if smallest_eigenvalue(A) >= -tolerance(E):
            return valid("A is positive semidefinite", "its eigenvalues, up to rounding")
        return Validity(
            "unknown",
            reason="the smallest eigenvalue is below zero by no more than numbers of seven digits "
            "may cause",
        )

    def feature_map(self) -> maps.FeatureMap:
        if self.judge().status != "valid":
            return super().feature_map()
        return maps.MatrixMap(self.matrix())


@dataclass(frozen=True)
class Below:
    """A view's step: refuse indices that are not rows of an (n, n) matrix."""

    n: int

    def apply(self, X: np.ndarray, name: str) -> np.ndarray:
        if X.size and (X.min() < 0 or X.max() >= self.n):
            raise ValueError(f"{name} has an index outside 0..{self.n - 1}, the rows of A")
        return X


class _Lookup:
    def __init__(self, A: np.ndarray):
        self.A = A

    def block(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self.A[np.ix_(i, j)]

    def diagonal(self, i: np.ndarray) -> np.ndarray:
        return np.diagonal(self.A)[i]

    def magnitude(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        # Kernels on indices are computed in float64, and A may have been rounded to float32.
        return last_digits(self.block(i, j)) / np.finfo(np.float64).eps


class FromFeatures(Kernel):
    """k(x, z) = phi(x)·phi(z) for features of the user's.

    Parameters
    ----------
    phi : callable or transformer
        From n points to an (n, D) array, or an object with ``transform``.

    Examples
    --------
    >>> psi = FromFeatures(lambda x: np.hstack([x, x**2]))
    >>> psi(np.array([[1.0]]), np.array([[2.0]])).item()
    6.0
    """

    def __init__(self, phi: Any):
        self.phi = phi

    @property
    def domain(self) -> Domain:
        return ANYTHING

    def embed(self, X: Any) -> Any:
        if not callable(self.phi) and not hasattr(self.phi, "transform"):
            raise TypeError(f"phi must be a function or a transformer; got {self.phi!r}")
        F = self.phi.transform(X) if hasattr(self.phi, "transform") else self.phi(X)
        F = as_vectors(F, "phi(X)")
        if n_rows(F) != n_rows(X):
            raise ValueError(
                f"phi returned {n_rows(F)} rows for {n_rows(X)} points; it is called with all "
                "points at once and must return one row for each"
            )
        return F

    def build(self, view: View, path: str) -> Expression:
        return Linear().build(view.then(Map(self.embed)), path)

    def judge(self) -> Validity:
        return valid(f"{self!r} is a kernel", "inner product of explicit features")

    def feature_map(self) -> maps.FeatureMap:
        return maps.FunctionMap(self.embed)


class FromFunction(Kernel):
    """k(x, z) = f(x, z) for a function of the user's.

    Parameters
    ----------
    f : callable
        ``f(x, z)`` of two points, or of two sets of points with ``pairwise=False``.
    pairwise : bool, default=True
        Whether f takes two points (True) or two sets of points and returns their Gram (False).
    valid : bool or None, default=None
        What the user knows about f; None says nothing.

    Examples
    --------
    >>> FromFunction(lambda x, z: float(x[0] * z[0]))([[2.0]], [[3.0]]).item()
    6.0
    """

    _parameter_constraints: dict = {
        "f": [callable],
        "pairwise": ["boolean"],
        "valid": ["boolean", None],
    }

    def __init__(self, f: Callable, pairwise: bool = True, valid: bool | None = None):
        self.f = f
        self.pairwise = pairwise
        self.valid = valid

    @property
    def domain(self) -> Domain:
        return ANYTHING

    def _validate_params(self) -> None:
        plain = type(self.pairwise) is bool and (self.valid is None or type(self.valid) is bool)
        if not (plain and callable(self.f)):  # scikit-learn's check takes longer
            super()._validate_params()

    def build(self, view: View, path: str) -> Expression:
        self._validate_params()
        kind = PairStatistic("f", self.block, self._diagonal, whole=True, shares=not self.pairwise)
        return Statistic(kind, view.then(Check(self.domain)))

    def block(self, A: Any, B: Any) -> np.ndarray:
        """What f says of two sets of points, checked: shape (n, m), in float64."""
        n, m = n_rows(A), n_rows(B)
        try:
            if self.pairwise and A is B:
                return self._symmetric_block(_rows(A))
            if self.pairwise:
                A, B = _rows(A), _rows(B)
                return np.array([[_number(self.f(a, b)) for b in B] for a in A]).reshape(n, m)
            K = np.ascontiguousarray(as_dense(self.f(A, B)), dtype=float)
        except Exception as error:
            if CALLED_WITH[self.pairwise] not in str(error):
                error.add_note(CALLED_WITH[self.pairwise])
            raise
        if K.shape != (n, m):
            raise ValueError(
                f"the kernel function returned shape {K.shape} for {n} and {m} points; expected "
                f"({n}, {m}). {CALLED_WITH[False]}"
            )
        return K

    def _symmetric_block(self, A: Any) -> np.ndarray:
        """All pairs of one set of points: one half, where some of the other half are the same."""
        f, points = self.f, list(A)
        n = len(points)
        K = np.empty((n, n))
        step = max(1, n // MIRRORED)
        pairs = ((points[i], points[(i + 1) % n]) for i in range(0, n, step))
        mirrored = ((_number(f(a, b)), _number(f(b, a))) for a, b in pairs)
        if all(math.isclose(one, other, rel_tol=1e-12) for one, other in mirrored):
            for i, a in enumerate(points):
                K[i, i:] = [_number(f(a, b)) for b in points[i:]]
                K[i:, i] = K[i, i:]
            return K
        for i, a in enumerate(points):
            K[i] = [_number(f(a, b)) for b in points]
        return K

    def _diagonal(self, A: Any) -> np.ndarray:
        if self.pairwise:
            return np.array([_number(self.f(a, a)) for a in _rows(A)])
        return np.array([self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(n_rows(A))])

    def judge(self) -> Validity:
        self._validate_params()
        if self.valid:
            return valid(f"{self!r} is a kernel", STATED)
        said = (
            "stated by the user not to be one" if self.valid is False else "nothing is known of f"
        )
        return Validity("unknown", reason=f"{said}; check_kernel(k, X) looks at its Gram on X")


# So many pairs are computed both ways round before a function counts as symmetric.
MIRRORED = 64


def _rows(X: Any) -> Any:
    """X as a collection of points: a DataFrame would give its column names instead."""
    return X.to_numpy() if hasattr(X, "columns") else X


def _number(value: Any) -> float:
    """What a function of two points returned."""
    if type(value) in (float, np.float64):
        return value
    if np.size(value) != 1:
        raise TypeError(
            f"the kernel function returned shape {np.shape(value)} for two points; expected a "
            f"number. {CALLED_WITH[True]}"
        )
    return float(np.reshape(value, ())[()])


def asymmetry_allowed(largest: float, E: Any) -> Any:
    """What entries (i, j) and (j, i) may differ by: largest is max |K_ij|, E their errors."""
    return ASYMMETRY * largest + ROUNDINGS * E


def asymmetric_pair(K: np.ndarray, E: np.ndarray) -> tuple[int, int] | None:
    """The pair (i, j) whose K_ij and K_ji differ most, if they differ beyond errors E."""
    gap = np.abs(K - K.T)
    if not np.any(gap > asymmetry_allowed(float(np.abs(K).max()), E)):
        return None
    i, j = np.unravel_index(np.argmax(gap), K.shape)
    return int(i), int(j)


def refuse_asymmetric(K: np.ndarray, E: np.ndarray) -> None:
    """Raise a ValueError that names the worst pair, where K is not symmetric up to errors E."""
    pair = asymmetric_pair(K, E)
    if pair is not None:
        i, j = pair
        raise ValueError(
            f"not symmetric: entries ({i}, {j}) and ({j}, {i}) are {K[i, j]:g} and {K[j, i]:g}; "
            "a kernel has k(x, z) = k(z, x)"
        )


def last_digits(K: np.ndarray) -> np.ndarray:
    """The rounding of numbers that were given."""
    return np.finfo(K.dtype).eps * np.abs(K)
