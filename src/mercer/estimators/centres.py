"""Centres, passes over the data in blocks, and the certificate of the Nyström solver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from mercer.arrays import (
    as_vectors,
    backend,
    device_budget,
    is_tensor,
    like,
    memory_budget,
    n_rows,
    row_blocks,
    take_rows,
    to_device_of,
    to_float64,
)
from mercer.arrays.libraries import to_native
from mercer.arrays.remote import is_remote
from mercer.estimators.array_support import array_support
from mercer.estimators.inputs import is_precomputed, takes_vectors
from mercer.estimators.measured import (
    GPU_MULTIPLICATIONS_PER_FEATURE,
    GPU_MULTIPLICATIONS_PER_VALUE,
    MULTIPLICATIONS_PER_VALUE,
    PASSES_FROM_MULTIPLICATIONS,
)
from mercer.estimators.progress import reporter
from mercer.estimators.training_gram import refuse_non_finite, training_gram
from mercer.operators import DenseGram, GramOperator, TensorGram, TiledGram, gram, streamed
from mercer.solvers.nystrom.ridge import (
    NystromSolution,
    distance_bound,
    rounding_is_small,
    solve_nystrom,
)
from mercer.solvers.nystrom.sums import Block, FeatureMoments, accumulated, estimated
from mercer.solvers.nystrom.whitening import whitened
from mercer.solvers.pivoted_cholesky import randomly_pivoted_cholesky
from mercer.solvers.result import Result, Status
from mercer.solvers.ridge_problem import EPS, EPS32

# Pivots are chosen among so many random points per centre; more gain little and cost as much as
# the fit.
CANDIDATES_PER_CENTRE = 5
# Entries of a block of the kernel between points and centres.
BLOCK_ENTRIES = 2**23
# Matrices of the centres' size that are stored at a time, and bytes of a block on a device.
MATRICES, BLOCK_BYTES = 9, 2**30
# The bound is computed where its n^2 values of the kernel are at most so many times those of a
# pass over n points and M centres.
BOUND_UP_TO_POINTS_PER_CENTRE = 50


class Centres:
    """The points that a Nyström fit expands in, and the kernel between them and others.

    Parameters
    ----------
    estimator : the estimator, with ``kernel_``, ``n_centers``, ``centers``, ``random_state``
    X : training points, or the first of them
    weight : ndarray of shape (n,) or None
        Points of no weight are not chosen.
    """

    def __init__(self, estimator: Any, X: Any, weight: np.ndarray | None = None):
        self.kernel = estimator.kernel_
        self.operator = None
        if is_precomputed(self.kernel) or self.kernel.validity.status != "valid":
            operator = training_gram(estimator, X, self.kernel)
            self.operator = operator if isinstance(operator, DenseGram) else None
        eligible = None if weight is None or not weight.any() else weight.nonzero()[0]
        chosen = self._chosen(estimator, X, eligible)
        points = estimator.centers if chosen is None else take_rows(X, chosen)
        if chosen is None and takes_vectors(self.kernel):
            points = as_vectors(points, "centers")
            library = backend(points)
            points = points if library.brings(X, points) else to_device_of(points, X)
        self._require_room(n_rows(points), points)
        if self.operator is None or chosen is None:
            K_MM = self.kernel(to_float64(points))
            K_MM = backend(K_MM).asarray(K_MM, np.float64)
        else:
            K_MM = self.operator.dense()[np.ix_(chosen, chosen)]
        refuse_non_finite(K_MM, self.kernel)
        self.whitening = whitened(K_MM)
        self.points = take_rows(points, self.whitening.kept)
        self.indices = None if chosen is None else chosen[self.whitening.kept]

    def _chosen(self, estimator: Any, X: Any, eligible: np.ndarray | None) -> np.ndarray | None:
        """Positions of the centres among the points; None where they are given as points."""
        centres, n = estimator.centers, n_rows(X)
        if not isinstance(centres, str):
            if self.operator is not None:
                raise ValueError(
                    "centers are given as points, which a precomputed or corrected Gram matrix "
                    "does not know; use centers='pivoted' or 'uniform'"
                )
            return None
        rng = check_random_state(estimator.random_state)
        m = n if eligible is None else len(eligible)
        M = default_centres(m) if estimator.n_centers is None else estimator.n_centers
        if n < M:
            raise ValueError(f"n_centers={M} and X has {n} points; choose at most {n}")
        self._require_room(M, X)
        wanted = M if centres == "uniform" else CANDIDATES_PER_CENTRE * M
        drawn = np.sort(sample_without_replacement(m, min(wanted, m), random_state=rng))
        drawn = drawn if eligible is None else eligible[drawn]
        if centres == "uniform":
            return drawn
        if self.operator is not None:
            among = DenseGram(np.asarray(self.operator.dense())[np.ix_(drawn, drawn)])
        else:
            among = self._recomputed(to_float64(take_rows(X, drawn)))
        low = randomly_pivoted_cholesky(
            among.rows, to_float64(among.diagonal()), M, random_state=rng
        )
        # Of a kernel that is zero everywhere no pivot is left; any point shows what is wrong.
        return drawn[low.pivots] if len(low.pivots) else drawn[:1]

    def _require_room(self, M: int, X: Any) -> None:
        """Raise a MemoryError where matrices of M centres exceed the memory of X's device."""

    def _cost_of_value(self, features: int, single: bool) -> float:
        """Multiplications that take the time of one value of the kernel."""
        return features + MULTIPLICATIONS_PER_VALUE

    def blocks(
        self,
        X: Any,
        Y: np.ndarray,
        weight: np.ndarray | None,
        among: np.ndarray | None = None,
        dense: bool = True,
    ) -> Iterable[Block]:
        """The data, or those at the positions ``among``, some rows at a time.

        Without ``dense`` only products are going to be asked for, and blocks of vectors are larger.
        Remote points have remote blocks.
        """
        if is_remote(X):
            return X.blocks(self, among, dense)
        return self._blocks(X, Y, weight, among, dense)

    def _blocks(
        self,
        X: Any,
        Y: np.ndarray,
        weight: np.ndarray | None,
        among: np.ndarray | None,
        dense: bool,
    ) -> Iterator[Block]:
        n = len(Y) if among is None else len(among)
        width = len(self.whitening.kept)
        if not dense and len(getattr(X, "shape", ())) == 2:
            width = 4 * numbers_per_point(X)
        for part in row_blocks(n, bytes_per_row=width, budget=BLOCK_ENTRIES):
            rows = part if among is None else among[part]
            if self.operator is None:
                K: Any = self._recomputed(to_float64(take_rows(X, rows)), to_float64(self.points))
            else:
                K = DenseGram(self.operator.dense()[rows][:, self.indices])
            yield Block(K, Y[rows], None if weight is None else weight[rows])

    def _recomputed(self, X: Any, Y: Any = None) -> GramOperator:
        """The kernel between points, never stored."""
        return TiledGram(self.kernel.over(X, Y))

    def whole(self, X: Any) -> Any:
        """The Gram operator of all the points, in float64, where the centres are."""
        if self.operator is not None:
            return self.operator
        return gram(self.kernel, to_float64(X))

    def features(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Some rows at a time: which they are, and their features in float64."""
        for block in self.blocks(X, np.arange(n_rows(X)), None):
            rows = slice(int(block.Y[0]), int(block.Y[-1]) + 1)
            yield rows, self.whitening.features(block.gram)

    def part(
        self, X: Any, weight: np.ndarray | None, lam: np.ndarray, tol: float
    ) -> tuple[int | None, bool]:
        """Of how many points to take the sums that precondition passes, and if in float32.

        None where the sums over all points are taken in float64 and give the solution.
        """
        n, r = n_rows(X), len(self.whitening.kept)
        if float(n) * r**2 < PASSES_FROM_MULTIPLICATIONS or self.operator is not None:
            return None, False
        # Expensive kernel values are computed as few times as possible.
        if not self.kernel.over(to_float64(self.points), to_float64(self.points)).native:
            return None, False
        largest = float(self.kernel.over(self.points, None).diagonal().max())
        total = float(n) if weight is None else float(weight.sum())
        given = self.whitening, total, largest, float(lam.min())
        if not rounding_is_small(*given, eps=EPS):
            return None, False
        single = rounding_is_small(*given, eps=EPS32)
        # With m independent points the residual falls by sqrt(r / m) per pass; m < 2 r only where
        # the points are not more.
        sizes = np.unique(np.minimum(r * 2.0 ** np.arange(1, 30), n))
        rates = np.log(np.maximum(sizes / r, 2.0))
        passes = np.maximum(np.log(2 / max(tol, EPS)) / rates * 2, 2.0)
        value = self._cost_of_value(numbers_per_point(X), single)
        cost = sizes * r**2 + passes * 2 * n * r * value
        return int(sizes[np.argmin(cost)]), single

    def expansion(self, X: Any, coef: np.ndarray) -> tuple[Any, Any]:
        """Points and coefficients that predict, from those of the centres kept."""
        if self.operator is None:
            return self.points, to_device_of(coef, self.points)
        alpha = np.zeros((n_rows(X), coef.shape[1]))
        alpha[self.indices] = coef
        return X, self.operator.extend_coefficients(alpha)


class TensorCentres(Centres):
    """Centres that are tensors, where everything is computed with them.

    Those chosen among points that are, and those given as such, to which points of the host are
    brought in blocks.
    """

    def __init__(self, estimator: Any, X: Any, weight: np.ndarray | None = None):
        if issparse(X) or array_support(estimator).tensors == "nowhere":
            what = "a sparse X" if issparse(X) else type(estimator).__name__
            raise TypeError(f"centers are a tensor, which {what} does not go with; pass an array")
        super().__init__(estimator, X, weight)

    def to_cpu(self) -> Centres:
        """The same in this machine's memory."""
        host = object.__new__(Centres)
        vars(host).update(vars(self))
        return host

    def _require_room(self, M: int, X: Any) -> None:
        needed, free = MATRICES * 8 * M**2, backend(X).free_memory(X)
        if free is not None and needed > free:
            raise MemoryError(
                f"{M:,} centres need {needed // 2**20:,} MiB ({MATRICES} matrices of {M:,} x "
                f"{M:,}), and {backend(X).place(X)} has {free // 2**20:,} MiB; choose fewer, with "
                "n_centers"
            )

    def _blocks(
        self,
        X: Any,
        Y: np.ndarray,
        weight: np.ndarray | None,
        among: np.ndarray | None,
        dense: bool,
    ) -> Iterator[Block]:
        """Blocks of tensors; while one is computed with, the next comes from the host."""
        n = len(Y) if among is None else len(among)
        device, centres = self.points.device, to_float64(self.points)
        numbers = numbers_per_point(X) + Y[:1].size + 4
        numbers = 8 * numbers + (4 * len(centres) if dense else 0)
        budget = min(BLOCK_BYTES, device_budget(device) // 4)
        parts = row_blocks(n, 8 * numbers, budget)
        some = (rows if among is None else among[rows] for rows in parts)
        for points, targets, s in streamed((X, Y, weight), some, device):
            yield Block(self._recomputed(to_float64(points), centres), targets, s)

    def _recomputed(self, X: Any, Y: Any = None) -> GramOperator:
        return TensorGram(self.kernel.over(X, Y))

    def _cost_of_value(self, features: int, single: bool) -> float:
        if not single:
            return super()._cost_of_value(features, single)
        return GPU_MULTIPLICATIONS_PER_FEATURE * features + GPU_MULTIPLICATIONS_PER_VALUE

    def whole(self, X: Any) -> Any:
        return gram(self.kernel, like(X, to_float64(self.points[:1])), store=False)


def centres_of(estimator: Any, X: Any, weight: np.ndarray | None = None) -> Centres:
    """The centres of an estimator's fit to points X, as `Centres` or where tensors are."""
    tensors = any(is_tensor(to_native(points)) for points in (X, estimator.centers))
    return (TensorCentres if tensors else Centres)(estimator, X, weight)


def fit_nystrom(
    estimator: Any, X: Any, Y: np.ndarray, lam: np.ndarray, weight: np.ndarray | None
) -> tuple[Centres, FeatureMoments, Result, np.ndarray | None]:
    """Centres, moments, result, and bounds (t,) on the distance from the exact solution or None."""
    centres = centres_of(estimator, X, weight)
    n, r = len(Y), len(centres.whitening.kept)

    def blocks() -> Iterable[Block]:
        return centres.blocks(X, Y, weight, dense=False)

    def solve(moments: FeatureMoments, single: bool = False) -> Result:
        return solve_nystrom(
            blocks,
            centres.whitening,
            moments,
            lam,
            fit_intercept=estimator.fit_intercept,
            single=single,
            tol=estimator.tol,
            max_iter=100 if estimator.max_iter is None else estimator.max_iter,
            max_time=estimator.max_time,
            report=reporter(estimator),
        )

    m, single = centres.part(X, weight, lam, estimator.tol)
    result = None
    if m is not None:
        rng = check_random_state(estimator.random_state)
        drawn = np.sort(sample_without_replacement(n, m, random_state=rng))
        some = centres.blocks(X, Y, weight, drawn)
        part = accumulated(some, centres.whitening, Y.shape[1], single=single)
        moments = estimated(blocks(), centres.whitening, part)
        result = solve(moments, single)
        words = f"sums over {m} points precondition {result.n_iter} passes over all"
        result = replace(result, method=f"{result.method}; {words}")
    if result is None or result.status is Status.STALLED:
        moments = accumulated(centres.blocks(X, Y, weight), centres.whitening, Y.shape[1])
        result = solve(moments)
    remote = is_remote(X)
    if n > BOUND_UP_TO_POINTS_PER_CENTRE * r or remote:
        reason = "the points are remote" if remote else f"{n} points take too long"
        words = f"no bound on the distance from the exact solution: {reason}"
        return centres, moments, replace(result, method=f"{result.method}; {words}"), None
    if np.any(lam <= 0):
        return centres, moments, result, None
    bounds = _bounds(centres, X, Y, weight, lam, result.value)
    result = replace(result, bound=float(bounds.max(initial=0.0)))
    return centres, moments, result, bounds


def default_centres(n: int) -> int:
    """4 sqrt(n), as long as three matrices of that size fit the memory budget."""
    return int(max(1, min(n, np.ceil(4 * np.sqrt(n)), np.sqrt(memory_budget() / 24.0))))


def numbers_per_point(X: Any) -> int:
    """What a row of a table holds, on the average of a sparse one."""
    return X.nnz // max(X.shape[0], 1) + 1 if issparse(X) else int(X.shape[1])


def _bounds(
    centres: Centres,
    X: Any,
    Y: np.ndarray,
    weight: np.ndarray | None,
    lam: np.ndarray,
    solution: NystromSolution,
) -> np.ndarray:
    fitted = np.vstack([b.gram @ solution.coef for b in centres.blocks(X, Y, weight)])
    residual = Y - fitted - solution.intercept
    if weight is not None:
        residual *= weight[:, None]
    return distance_bound(centres.whole(X), solution.weights, fitted, residual, lam)
