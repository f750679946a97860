"""Training points on a Dask cluster, as the solvers of one machine see them."""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from mercer._sklearn import check_feature_names, check_n_features
from mercer.arrays import memory_budget, n_rows, take_rows, to_float64
from mercer.arrays.remote import RemotePoints
from mercer.distributed.keeping import Kept, kept
from mercer.distributed.reduction import fused, reduced
from mercer.distributed.rows import is_table, places_of, row_blocks_of
from mercer.distributed.sizing import resized, rows_per_block
from mercer.distributed.spans import RemoteFeatureSpan, Sample, hold, vector
from mercer.distributed.survey import Diagonal, Places, Preparation, Survey, Taken, Weighed
from mercer.estimators.centres import Centres, default_centres
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.labels import class_labels, class_weights, require_targets
from mercer.estimators.measured import MULTIPLICATIONS_PER_VALUE
from mercer.kernels import Kernel
from mercer.solvers.nystrom.sums import Sums
from mercer.solvers.risk.feature_span import FeatureSpan

# Bytes from which on what all tasks need is no part of the graph, but sent to the workers.
LARGE = 2**20
# Points per centre that precondition Newton steps by products; how many products a pass for the
# curvature must take as long as for these to be quicker; and centres from which on M x M numbers
# are too many to travel in every step.
SAMPLE, PRODUCTS_PAY, MANY = 10, 20, 2000


class DaskPoints(RemotePoints):
    """Points on a cluster: how many there are, some of them, and sums over all.

    It has what the Nyström fits ask of an array: ``shape``, ``dtype``, ``var()``, rows by position
    and, in place of the rows themselves, ``blocks`` that are summed where they are.

    Parameters
    ----------
    estimator : its ``n_features_in_`` is set
    X, y, weight : Dask collections; the last two may be None
    check : dict, optional
        For `validate_supervised`.
    labels : bool
        Whether targets are class labels; ``classes`` has them then.
    squares, newton : bool
        Whether passes over all points sum M x M numbers; and whether Newton steps do so unless
        products pay.

    Attributes
    ----------
    data, lengths : list, ndarray of shape (n_blocks,)
        Blocks of rows worth about a second, and how many rows they have.
    targets : ndarray of shape (n, t)
        Stands for the targets, and has nothing but their shape.
    weights : Weights or None
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        weight: Any = None,
        *,
        check: dict | None = None,
        labels: bool = False,
        squares: bool = False,
        newton: bool = False,
    ):
        if labels or check is not None:
            require_targets(estimator, y)
        self.estimator, self.data = estimator, row_blocks_of(X, y, weight)
        example = X._meta if is_table(X) else np.empty((0, X.shape[1]), X.dtype)
        check_feature_names(estimator, example, reset=True)
        check_n_features(estimator, example, reset=True)
        stub = type(estimator)(**estimator.get_params(deep=False))  # without its callbacks
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(stub, name, getattr(estimator, name))
        if hasattr(stub, "centers"):
            stub.centers = "uniform"  # centres that were given go another way
        self.preparation = Preparation(stub, check or {}, y is not None)
        self.dtype = getattr(example, "dtype", np.dtype(np.float64))
        self._open = ExitStack()
        self._kept: list[tuple[Centres, Kept]] = []
        self._known_diagonal: Diagonal | None = None
        self._seen: tuple[np.ndarray, Any] | None = None
        given = list(zip(self.data, places_of(X), strict=True))
        self.survey: Survey = reduced("survey", Survey, (self.preparation, labels), given)
        filled = np.flatnonzero(self.survey.lengths)
        if not len(filled):
            raise ValueError("X has no rows; expected at least one")
        n, d = int(self.survey.lengths.sum()), example.shape[1]
        if labels:
            self._settle_classes()
        columns = len(self.classes) if labels and len(self.classes) > 2 else self.survey.columns
        self.shape, t = (n, d), max(columns, int(y is not None))
        self.targets = np.broadcast_to(0.0, (n, t))
        M = _centres_of(estimator, n)
        rows = rows_per_block(n, M, d, t, squares or (newton and not _products_pay(M, d)))
        given = [self.data[i] for i in filled], self.survey.lengths[filled]
        blocks, self.lengths = resized(*given, rows)
        self.data = fused(blocks)
        self.alone = [(block,) for block in self.data]
        self.ends = np.cumsum(self.lengths)
        self.weights = None
        if weight is not None or self.preparation.class_weight is not None:
            self.weights = Weights(self)
            if weight is not None and not self.weights.any():
                raise ValueError(
                    "sample_weight is zero for every row; give one of them some weight"
                )

    def __enter__(self) -> DaskPoints:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()

    def _settle_classes(self) -> None:
        survey, asked = self.survey, self.estimator.class_weight
        self.classes, _ = class_labels(self.estimator, survey.labels)
        factors = None
        if asked is not None:
            totals = survey.label_weights
            weighed = np.asarray(class_weights(asked, self.classes, totals))
            factors = np.divide(weighed, totals, out=np.zeros(len(totals)), where=totals > 0)
        self.preparation = replace(self.preparation, classes=self.classes, class_weight=factors)

    def class_totals(self) -> np.ndarray:
        """The weight of each class."""
        factors = self.preparation.class_weight
        return self.survey.label_weights * (1.0 if factors is None else factors)

    def kernel(self) -> Kernel:
        """The kernel to fit with, which must be proved valid: there is no matrix to look at."""
        kernel = resolve_kernel(self.estimator, self)
        if kernel.validity.status != "valid":
            raise ValueError(
                f"kernel={kernel!r} is not proved positive semidefinite, and of a Dask collection "
                "there is no matrix that could be corrected; choose another kernel"
            )
        return kernel

    def var(self) -> float:
        """The variance of all entries, each counted as often as its row weighs."""
        return self.survey.squares / self.survey.mass if self.survey.mass > 0 else 0.0

    def trace(self, kernel: Kernel) -> float:
        """The sum of k(x, x) over the points."""
        return self._diagonal(kernel).total

    def diagonal(self, kernel: Kernel) -> np.ndarray:
        """The largest k(x, x) alone, which is what fits ask the diagonal for."""
        return np.array([self._diagonal(kernel).largest])

    def _diagonal(self, kernel: Kernel) -> Diagonal:
        found = self._known_diagonal
        if found is None:
            found = reduced("diagonal", Diagonal, (self.preparation, kernel), self.alone)
            self._known_diagonal = found
        return found

    def with_positions(self, positions: np.ndarray, ends: np.ndarray) -> list[tuple]:
        """Every block, and which of rising positions lie in it, where blocks end there."""
        parts = np.split(positions, np.searchsorted(positions, ends[:-1]))
        starts = np.append(0, ends[:-1])
        within = [part - start for part, start in zip(parts, starts, strict=True)]
        return list(zip(self.data, within, strict=True))

    def __getitem__(self, positions: np.ndarray) -> Any:
        """The points at these positions, from one pass; those of the last pass are at hand."""
        wanted = np.unique(positions)
        if self._seen is None or np.setdiff1d(wanted, self._seen[0]).size:
            blocks = self.with_positions(wanted, self.ends)
            self._seen = wanted, reduced("rows", Taken, self.preparation, blocks).rows
        there, rows = self._seen
        return take_rows(rows, np.searchsorted(there, positions))

    def blocks(self, centres: Centres, among: np.ndarray | None, dense: bool) -> Blocks:
        """All points or those at rising positions, with their kernel with the centres."""
        return Blocks(self, self._sent(centres), among, dense)

    def span(self, centres: Centres, fit_intercept: bool) -> RemoteFeatureSpan:
        """The features of all points."""
        given = self.preparation, self._sent(centres), centres.whitening, fit_intercept
        return RemoteFeatureSpan(
            self.data, self.lengths, *given, self._sample(centres, fit_intercept)
        )

    def _sample(self, centres: Centres, fit_intercept: bool) -> Sample | None:
        """Points that precondition Newton steps, where products pay."""
        (n, d), r = self.shape, len(centres.whitening.kept)
        m = SAMPLE * r
        over = centres.kernel.over(to_float64(centres.points), to_float64(centres.points))
        if not _products_pay(r, d) or n < 4 * m or not over.native:
            return None
        rng = check_random_state(self.estimator.random_state)
        drawn = np.sort(sample_without_replacement(n, m, random_state=rng))
        points = self[drawn]
        keep = 8 * m * r <= memory_budget()
        span = FeatureSpan(lambda: centres.features(points), m, r, fit_intercept, keep)
        return Sample(drawn, span, max(r // (d + MULTIPLICATIONS_PER_VALUE), PRODUCTS_PAY))

    def vectors(self) -> tuple[Any, Any]:
        """Targets (n, t) and weights (n,) or None as Dask arrays, which stay with the points."""
        lengths, t = self.lengths, self.targets.shape[1]
        targets = hold(vector("targets", _target, self.preparation, self.alone, lengths, t))
        if self.weights is None:
            return targets, None
        return targets, hold(vector("weights", _weight, self.preparation, self.alone, lengths))

    def _sent(self, centres: Centres) -> Kept:
        for known, handle in self._kept:
            if known is centres:
                return handle
        identity = centres.kernel, centres.points, centres.whitening.kept
        handle = self._open.enter_context(kept(centres, *identity))
        self._kept.append((centres, handle))
        return handle


def _centres_of(estimator: Any, n: int) -> int:
    """How many centres there are going to be, or a few more."""
    given = getattr(estimator, "centers", "pivoted")
    if not isinstance(given, str):
        return n_rows(given)
    return default_centres(n) if estimator.n_centers is None else estimator.n_centers


def _products_pay(centres: int, features: int) -> bool:
    """Whether Newton steps are better solved for by products than with the curvature."""
    return centres // (features + MULTIPLICATIONS_PER_VALUE) >= PRODUCTS_PAY or centres >= MANY


def _target(preparation: Preparation, block: tuple) -> np.ndarray:
    return preparation(*block)[1]


def _weight(preparation: Preparation, block: tuple) -> Any:
    weight = preparation(*block)[2]
    assert weight is not None
    return weight


class Blocks:
    """Blocks of points that are summed where they are."""

    def __init__(self, points: DaskPoints, centres: Kept, among: np.ndarray | None, dense: bool):
        self.points, self.centres, self.dense = points, centres, dense
        self.data = points.alone if among is None else points.with_positions(among, points.ends)

    def summed(self, sums: Sums) -> Any:
        work = Pass(sums, self.centres, self.points.preparation, self.dense)
        name = type(sums).__name__
        if len(pickle.dumps(work)) <= LARGE:
            return reduced(name, _run, work, self.data)
        with kept(work, work) as handle:
            return reduced(name, _run, handle, self.data)


@dataclass(frozen=True)
class Pass:
    """What workers do with a block: prepare it, and add its parts to the totals."""

    sums: Sums
    centres: Kept
    preparation: Preparation
    dense: bool

    def __call__(self, block: tuple, among: np.ndarray | None = None) -> Any:
        centres = self.centres.value
        totals = self.sums.start(centres.whitening)
        if among is None or len(among):
            for part in centres.blocks(*self.preparation(*block), among, self.dense):
                self.sums.add(totals, part, centres.whitening)
        return totals


def _run(work: Pass | Kept, *block: Any) -> Any:
    return work.value(*block) if isinstance(work, Kept) else work(*block)


class Weights:
    """The weights of points on a cluster, as far as the choice of centres asks about them."""

    def __init__(self, points: DaskPoints):
        self.points = points
        self.found: Weighed = reduced("weights", Weighed, points.preparation, points.alone)
        self.ends = np.cumsum(self.found.counts)

    def any(self) -> bool:
        return self.found.total > 0

    def sum(self) -> float:
        return self.found.total

    def nonzero(self) -> tuple[Weights]:
        """As of an array: what gives positions of rows that have weight, by their rank."""
        return (self,)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, ranks: np.ndarray) -> np.ndarray:
        points, blocks = self.points, self.points.with_positions(ranks, self.ends)
        places = reduced("places", Places, points.preparation, blocks).places
        sizes = [len(within) for _, within in blocks]
        return places + np.repeat(points.ends - points.lengths, sizes)
