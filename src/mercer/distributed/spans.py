"""Features of points on a cluster, and vectors over the points that stay there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from mercer.arrays import row_blocks, row_major, take_rows
from mercer.arrays.remote import numbers
from mercer.distributed.keeping import Kept
from mercer.distributed.reduction import mapped, reduced
from mercer.distributed.survey import Preparation
from mercer.solvers.losses import Loss, PointwiseLoss
from mercer.solvers.nystrom.sums import ProductSums, Pulled, Totals
from mercer.solvers.nystrom.whitening import CentreWhitening
from mercer.solvers.risk.feature_span import FeatureSpan, solve_scaled

# Rows that a loss is evaluated at together.
ROWS_AT_ONCE = 2048
# Biases that one pass over the targets tries, and passes after the first.
TRIALS, ROUNDS = 64, 4
# A Newton step is solved for until the residual is this share of the gradient.
ACCURACY = 1e-4


class RemoteFeatureSpan(FeatureSpan):
    """A `FeatureSpan` of points on a cluster: a pass goes to them, and p or p x p numbers return.

    Vectors over the points are Dask arrays cut as the blocks of points are, computed where these
    are, and kept there.

    Parameters
    ----------
    blocks : list of Dask objects
    lengths : ndarray of shape (n_blocks,)
    preparation : Preparation
    centres : Kept
    whitening : CentreWhitening
    fit_intercept : bool
    sample : Sample, optional
        Newton steps are then solved for by products, preconditioned with the curvature of these
        points, so that p numbers return from each; without it by the curvature of all.
    """

    # Passes cost more than steps: fifteen of them are tried at a time.
    moves = 3

    def __init__(
        self,
        blocks: list[Any],
        lengths: np.ndarray,
        preparation: Preparation,
        centres: Kept,
        whitening: CentreWhitening,
        fit_intercept: bool,
        sample: Sample | None = None,
    ):
        super().__init__(list, int(lengths.sum()), len(whitening.kept), fit_intercept, keep=False)
        self.data, self.lengths, self.whitening = blocks, lengths, whitening
        self.task, self.sample = Task(centres, preparation, fit_intercept), sample
        self._at: tuple[np.ndarray, Any] = np.zeros(0), None
        self._curvature: tuple[Any, np.ndarray] = None, np.zeros((0, 0))

    def predict(self, z: np.ndarray) -> Any:
        w = z[: self.r].reshape(self.r, -1)
        given = self.task, self.whitening.apply(w), z[self.r :].sum(axis=0)
        if not np.array_equal(self._at[0], z):
            blocks, width = [(block,) for block in self.data], z.shape[1:]
            f = hold(vector("predict", _predicted, (*given, width), blocks, self.lengths, *width))
            self._at = z.copy(), f
        return self._at[1]

    def gather(self, u: Any) -> np.ndarray:
        total = self._gathered(_gathered, u)
        return total[:, 0] if u.ndim == 1 else total

    def gather_sides(self, u: Any) -> np.ndarray:
        return self._gathered(_gathered_sides, u)

    def _gathered(self, piece: Callable, u: Any) -> np.ndarray:
        found = self._summed("GatherSums", piece, u)
        pulled = self.whitening.pull(found.pulled)
        return np.vstack([pulled, found.total[None]]) if self.fit_intercept else pulled

    def total(self, function: Callable[..., Sequence[float]], loss: Loss, *vectors: Any) -> Any:
        if not isinstance(loss, PointwiseLoss):  # it may be no sum over points
            return numbers(*function(loss, *vectors))
        weight = () if loss._weight is None else (loss._weight,)
        parts = [_parts(each) for each in (*vectors, *weight)]
        given = function, loss.weighted(None), bool(weight)
        return reduced("sums", _total, given, list(zip(*parts, strict=True))).value

    def curvature(self, h: Any, single: bool = False) -> np.ndarray:
        if self._curvature[0] is not h:
            self._curvature = h, self._summed("CurvatureSums", _curved, h).value
        return self._curvature[1].copy()

    def squares(self, h: Any) -> float:
        if self.sample is not None:
            return self.sample.share(self.n) * self.sample.span.squares(self.sample.of(h))
        return float(np.trace(self.curvature(h)[: self.r, : self.r]))

    def estimate(self, h: Any, single: bool = False) -> np.ndarray:
        if self.sample is None:
            return self.curvature(h)
        return self.sample.share(self.n) * self.sample.span.curvature(self.sample.of(h), single)

    def newton_step(
        self, h: Any, penalty: np.ndarray, v: np.ndarray, single: bool = False
    ) -> np.ndarray:
        if self.sample is None:
            return super().newton_step(h, penalty, v, single)
        h = hold(h)
        border, P = self.gather(h), self.estimate(h, single)
        P[np.diag_indices_from(P)] += penalty

        def product(z: np.ndarray) -> np.ndarray:
            b = z[self.r :].sum()
            sums = ProductSums(self.whitening.apply(z[: self.r, None]))
            found = self._summed("ProductSums", _multiplied, h, sums)
            pulled = self.whitening.pull(found.pulled)[:, 0]
            return np.append(pulled, found.total[: self.p - self.r]) + b * border + penalty * z

        A, M = (
            LinearOperator((self.p, self.p), matvec=each, dtype=np.float64)
            for each in (product, lambda z: solve_scaled(P, z))
        )
        d, failed = cg(A, v, rtol=ACCURACY, maxiter=self.sample.products, M=M)
        return super().newton_step(h, penalty, v, single) if failed else d

    def intercept(self, loss: Any, y: Any) -> float:
        """Nearly the best bias where all else is zero: a start, for which few passes are enough."""
        reach = 2.0 ** np.arange(TRIALS // 2)
        trials = np.concatenate([-reach[::-1], reach])
        low = high = 0.0
        for _ in range(1 + ROUNDS):
            slopes = np.array(self.total(partial(_slopes, trials=trials), loss, y))
            if not (slopes[0] <= 0 <= slopes[-1]):
                return 0.0
            low = trials[slopes <= 0].max()
            high = trials[slopes >= 0].min()
            trials = np.linspace(low, high, TRIALS)
        return 0.5 * (low + high)

    def _summed(self, name: str, piece: Callable, vector: Any, *more: Any) -> Any:
        given = (self.task, *more) if more else self.task
        return reduced(name, piece, given, list(zip(self.data, _parts(vector), strict=True)))


@dataclass(frozen=True)
class Sample:
    """Some of the points, brought here.

    Attributes
    ----------
    positions : ndarray of shape (m,)
        Rising.
    span : FeatureSpan
        Their features.
    products : int
        How many products take as long as the curvature of all points.
    """

    positions: np.ndarray
    span: FeatureSpan
    products: int

    def of(self, vector: Any) -> np.ndarray:
        """The entries of a vector over all points, shape (m,)."""
        return vector[self.positions].compute(optimize_graph=False)

    def share(self, n: int) -> float:
        """What sums over these points are multiplied by to stand for those over n."""
        return n / len(self.positions)


@dataclass(frozen=True)
class Task:
    """What workers need to make features of a block."""

    centres: Kept
    preparation: Preparation
    fit_intercept: bool


class Summed(Totals):
    """An array that adds up."""

    def __init__(self, value: np.ndarray):
        self.value = value


def _total(given: tuple[Callable, PointwiseLoss, bool], *vectors: np.ndarray) -> Summed:
    """Sums over a block, the last vector being the weights, if there are any.

    Some rows at a time: workers give large arrays back to the system at once, and to be given the
    pages of another takes it longer than to fill them.
    """
    function, loss, weighted = given
    found = []
    for few in row_blocks(len(vectors[0]), bytes_per_row=1, budget=ROWS_AT_ONCE):
        part = [vector[few] for vector in vectors]
        each = loss.weighted(part.pop()) if weighted else loss
        found.append(function(each, *part))
    return Summed(np.sum(found, axis=0))


def _slopes(loss: Loss, y: np.ndarray, trials: np.ndarray) -> Any:
    """The slope of the loss at each of some constant predictions."""
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = [np.sum(loss.gradient(y, np.full_like(y, b))) for b in trials]
    return np.nan_to_num(slopes, nan=np.inf, posinf=np.inf, neginf=-np.inf)


def _predicted(given: tuple[Task, np.ndarray, np.ndarray, tuple], block: tuple) -> np.ndarray:
    """``K coef + level``, shape (b, c) or (b,)."""
    task, coef, level, width = given
    X, Y, _ = task.preparation(*block)
    parts = task.centres.value.blocks(X, Y, None, dense=False)
    return (np.vstack([part.gram @ coef for part in parts]) + level).reshape(-1, *width)


def _gathered(task: Task, block: tuple, u: np.ndarray) -> Pulled:
    """``K^T u`` and the sums of u (b, c)."""
    u, centres = row_major(u.reshape(len(u), -1)), task.centres.value
    totals = Pulled(len(centres.whitening.kept), u.shape[1])
    on = np.flatnonzero(u.any(axis=1))
    if len(on):
        X = take_rows(task.preparation(*block)[0], on)
        for part in centres.blocks(X, u[on], None, dense=False):
            totals.pulled += part.gram.T @ part.Y
            totals.total += part.Y.sum(axis=0)
    return totals


def _gathered_sides(task: Task, block: tuple, u: np.ndarray) -> Pulled:
    return _gathered(task, block, np.column_stack([np.maximum(u, 0.0), np.minimum(u, 0.0)]))


def _multiplied(given: tuple[Task, ProductSums], block: tuple, h: np.ndarray) -> Pulled:
    """``K^T diag(h) K coef``, and the sum of ``diag(h) K coef``."""
    task, sums = given
    centres = task.centres.value
    totals = sums.start(centres.whitening)
    X = task.preparation(*block)[0]
    for part in centres.blocks(X, h[:, None], h, dense=False):
        sums.add(totals, part, centres.whitening)
    return totals


def _curved(task: Task, block: tuple, h: np.ndarray) -> Summed:
    """``Phi^T diag(h) Phi``, as a span of these points alone has it."""
    centres = task.centres.value
    r = len(centres.whitening.kept)
    on = np.flatnonzero(h)  # few points where corners are rounded little
    p = r + task.fit_intercept
    if not len(on):
        return Summed(np.zeros((p, p)))
    X = take_rows(task.preparation(*block)[0], on)
    span = FeatureSpan(lambda: centres.features(X), len(on), r, task.fit_intercept, keep=False)
    return Summed(span.curvature(h[on]))


def vector(
    name: str,
    piece: Callable,
    common: Any,
    blocks: list[tuple],
    lengths: np.ndarray,
    *width: int,
) -> Any:
    """``piece(common, *block)`` of every block as one Dask array of shape (n,) or (n, width)."""
    parts = mapped(name, piece, common, blocks, (0,) * len(width))
    chunks = tuple(int(length) for length in lengths), *((each,) for each in width)
    array: Any = da.Array
    return array(parts[0].dask, parts[0].key[0], chunks, meta=np.zeros((0,) * len(chunks)))


def hold(vector: Any) -> Any:
    """The vector, computed where its blocks are and kept there."""
    return vector.persist(optimize_graph=False)


def _parts(vector: Any) -> Any:
    """Its blocks, by tasks that have the same names and contents whatever else is made of them."""
    whole = vector.rechunk({1: -1}) if vector.ndim == 2 else vector
    return whole.to_delayed(optimize_graph=False).ravel()
