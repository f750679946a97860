"""Kernel ridge on the span of a few centres, from sums over the data that are additive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError

from mercer.arrays import as_numpy, backend, like, namespace, to_device_of
from mercer.operators import GramOperator
from mercer.solvers.conjugate_gradients import conjugate_gradients, relative
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.result import Monitor, Result, Status
from mercer.solvers.ridge_problem import EPS, FLOAT32_PAYS, rounding_advice


class Block(NamedTuple):
    """Some of the points: their kernel with the centres ``(b, M)``, targets, weights or None.

    Targets and weights are tensors where the kernel's values are.
    """

    gram: GramOperator
    Y: np.ndarray
    weight: np.ndarray | None = None


class Totals:
    """Numbers and arrays that add up over points: those of two sets of points can be merged."""

    def merged(self, other: Any, sign: int = 1) -> Any:
        """The totals of both sets of points or, with sign -1, without the other's."""
        both = copy(self)
        for name, value in vars(other).items():
            setattr(both, name, getattr(self, name) + sign * value)
        return both


class Sums(Protocol):
    """What is summed over the points: how to begin, and how to add a block to the totals."""

    def start(self, whitening: CentreWhitening) -> Any: ...

    def add(self, totals: Any, block: Block, whitening: CentreWhitening) -> None: ...


def summed(blocks: Any, whitening: CentreWhitening, sums: Sums) -> Any:
    """The totals over all blocks; blocks that are elsewhere are summed there."""
    if hasattr(blocks, "summed"):
        return blocks.summed(sums)
    totals = sums.start(whitening)
    for block in blocks:
        sums.add(totals, block, whitening)
    return totals


class FeatureMoments(Totals):
    """``Phi^T S Phi``, ``Phi^T S Y`` and the sums that an intercept needs: additive over points.

    Parameters
    ----------
    r, t : int
        Numbers of features and of targets.
    near : tensor, optional
        Where ``Phi^T S Phi`` is to be; all else is on the host.

    Attributes
    ----------
    exact : bool
        Whether the sums are over all points in float64; if not, ``features`` is an estimate.
    """

    exact = True

    def __init__(self, r: int, t: int, near: Any = None):
        # The upper triangle.
        self.features: Any = to_device_of(np.zeros((r, r), order="F"), near)
        self.cross = np.zeros((r, t))
        self.squares = np.zeros(t)
        self.sums = np.zeros(r)
        self.target_sums = np.zeros(t)
        self.weight = 0.0
        self.n = 0

    def add(self, Phi: Any, Y: Any, weight: Any) -> None:
        """Points more: features (b, r) in float32 or float64, targets (b, t), weights (b,)."""
        s = ones_of(Y) if weight is None else weight
        root = s[:, None] ** 0.5
        if weight is not None:
            Phi = Phi * like(root, Phi)
        targets = like(root * with_ones(Y), Phi)
        arrays = backend(Phi)
        self.features = arrays.add_inner_products(self.features, Phi)
        pulled = arrays.transposed_product(Phi, targets)
        self.cross += pulled[:, :-1]
        self.sums += pulled[:, -1]
        self.add_targets(Y, s)

    def add_targets(self, Y: Any, s: Any) -> None:
        """The sums over more points that need no features: targets (b, t), weights (b,)."""
        self.squares += as_numpy(s @ Y**2)
        self.target_sums += as_numpy(s @ Y)
        self.weight += float(s.sum())
        self.n += int((s != 0).sum())

    def of_targets(self, columns: list[int]) -> FeatureMoments:
        """The same with some of the targets."""
        some = copy(self)
        some.cross = self.cross[:, columns]
        some.squares, some.target_sums = self.squares[columns], self.target_sums[columns]
        return some

    def with_target(self, place: int) -> FeatureMoments:
        """The same with one target more, which has been -1 at every point so far."""
        more = copy(self)
        more.cross = np.insert(self.cross, place, -self.sums, axis=1)
        more.squares = np.insert(self.squares, place, self.weight)
        more.target_sums = np.insert(self.target_sums, place, -self.weight)
        return more

    def system(self, fit_intercept: bool) -> tuple[Any, np.ndarray, np.ndarray]:
        """The normal matrix (r, r), right-hand sides (r, t) and sums of squares (t,), centred."""
        xp = namespace(self.features)
        H = xp.triu(self.features) + xp.triu(self.features, 1).T
        if not fit_intercept or self.weight == 0:
            return H, self.cross.copy(), self.squares.copy()
        mean, target = like(self.sums / self.weight, H), self.target_sums / self.weight
        H -= self.weight * xp.outer(mean, mean)
        squares = self.squares - self.weight * target**2
        return H, self.cross - np.outer(self.sums, target), np.maximum(squares, 0.0)

    def intercept(
        self, w: np.ndarray, fit_intercept: bool, targets: np.ndarray | slice = slice(None)
    ) -> np.ndarray:
        """What goes with the weights w (r, t) of all targets, or of some: shape (t,)."""
        if not fit_intercept or self.weight == 0:
            return np.zeros(w.shape[1])
        return (self.target_sums[targets] - self.sums @ w) / self.weight


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


def accumulated(
    blocks: Iterable[Block], whitening: CentreWhitening, n_targets: int, *, single: bool = False
) -> FeatureMoments:
    """The moments of all blocks.

    With ``single`` features are computed in float32, and their products summed in float64 across
    blocks.
    """
    return summed(blocks, whitening, FeatureSums(n_targets, single))


@dataclass(frozen=True)
class FeatureSums:
    """The moments of t targets."""

    t: int
    single: bool = False

    def start(self, whitening: CentreWhitening) -> FeatureMoments:
        return FeatureMoments(len(whitening.kept), self.t, whitening.W)

    def add(self, totals: FeatureMoments, block: Block, whitening: CentreWhitening) -> None:
        totals.add(whitening.features(block.gram, self.single), block.Y, block.weight)


@dataclass(frozen=True)
class TargetSums:
    """The moments that need no features, and ``K_Mn S (Y, 1)`` in place of the others."""

    t: int

    def start(self, whitening: CentreWhitening) -> FeatureMoments:
        moments = FeatureMoments(0, self.t)
        moments.cross = np.zeros((len(whitening.kept), self.t))
        moments.sums = np.zeros(len(whitening.kept))
        return moments

    def add(self, totals: FeatureMoments, block: Block, whitening: CentreWhitening) -> None:
        s = ones_of(block.Y) if block.weight is None else block.weight
        pulled = as_numpy(block.gram.T @ (s[:, None] * with_ones(block.Y)))
        totals.cross += pulled[:, :-1]
        totals.sums += pulled[:, -1]
        totals.add_targets(block.Y, s)


def estimated(
    blocks: Iterable[Block], whitening: CentreWhitening, part: FeatureMoments
) -> FeatureMoments:
    """The moments of all blocks, with ``Phi^T S Phi`` made up from the moments of a part of them.

    Its covariance is that of the part, its mean that of all. The other sums take one product with
    the transposed kernel per block, which is far less.
    """
    t = part.cross.shape[1]
    moments = summed(blocks, whitening, TargetSums(t))
    pulled = whitening.pull(np.column_stack([moments.cross, moments.sums]))
    moments.cross, moments.sums = pulled[:, :t], pulled[:, t]
    H, _, _ = part.system(fit_intercept=True)
    H *= moments.weight / part.weight if part.weight > 0 else 0.0
    sums = like(moments.sums, H)
    H += namespace(H).outer(sums, sums) / max(moments.weight, EPS)
    moments.features = H
    moments.exact = False
    return moments


class Pulled(Totals):
    """``K^T S R`` of shape (r, t) and the sums of ``S R``, for some R at the points."""

    def __init__(self, r: int, t: int):
        self.pulled, self.total = np.zeros((r, t)), np.zeros(t)


@dataclass(frozen=True)
class ProductSums:
    """``K^T S K coef`` or, for the targets of a mask, ``K^T S (Y - K coef - level)``."""

    coef: np.ndarray
    columns: np.ndarray | None = None
    level: float | np.ndarray = 0.0
    single: bool = False

    def start(self, whitening: CentreWhitening) -> Pulled:
        return Pulled(*self.coef.shape)

    def add(self, totals: Pulled, block: Block, whitening: CentreWhitening) -> None:
        K = block.gram.single() if self.single else block.gram
        targets = None
        if self.columns is not None:
            targets = block.Y[:, self.columns] - like(self.level, block.Y)
        pulled, total = K.normal_product(self.coef, targets, block.weight)
        totals.pulled += pulled
        totals.total += total


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
    """Whether rounding of the kernel, random over its entries, is small beside lam.

    ``W^T E^T`` takes it to the gradient, where E has n rows, and vectors of the length of the
    features of n points. ``largest`` is that of the kernel's values, ``eps`` their precision.
    """
    error = eps * largest * whitening.reach * np.sqrt(weight * largest)
    return bool(error <= FLOAT32_PAYS * lam and eps * weight * largest <= lam)


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


def ones_of(Y: Any) -> Any:
    """A one for each of the rows of Y."""
    return namespace(Y).ones(len(Y), dtype=Y.dtype, device=Y.device)


def with_ones(Y: Any) -> Any:
    """Targets (b, t), and a column of ones."""
    return namespace(Y).hstack([Y, ones_of(Y)[:, None]])
