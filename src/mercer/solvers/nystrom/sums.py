"""Sums over the points that Nyström fits need, taken block by block."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer.arrays import as_numpy, backend, like, namespace, to_device_of
from mercer.operators import GramOperator
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.ridge_problem import EPS


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
    """The totals over all blocks; remote blocks are summed where they are."""
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


def ones_of(Y: Any) -> Any:
    """A one for each of the rows of Y."""
    return namespace(Y).ones(len(Y), dtype=Y.dtype, device=Y.device)


def with_ones(Y: Any) -> Any:
    """Targets (b, t), and a column of ones."""
    return namespace(Y).hstack([Y, ones_of(Y)[:, None]])
