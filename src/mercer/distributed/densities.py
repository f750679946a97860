"""Densities whose points are on a cluster, at places that are here."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._sklearn import check_feature_names
from mercer.arrays import n_rows, take_rows
from mercer.distributed.reduction import reduced
from mercer.distributed.rows import is_table, placed, places_of, row_blocks_of
from mercer.estimators import KernelDensity
from mercer.estimators.labels import checked_weights
from mercer.solvers.nystrom.sums import Totals


def log_density(
    model: KernelDensity, X: Any, queries: Any, sample_weight: Any = None
) -> np.ndarray:
    r"""log p at the queries, where p has a kernel at every row of a Dask collection.

    .. math:: \log p(q) = \log \sum_n w_n k_h(q - x_n) - \log \sum_n w_n

    Kernel, bandwidth and all else are those of a model, fitted to a sample of the rows. The sum is
    taken where these are, and one number per query comes back from each block.

    Parameters
    ----------
    model : KernelDensity
        Fitted. Its own points play no part.
    X : Dask array or table of shape (n, d)
    queries : array-like of shape (m, d)
    sample_weight : Dask array or column of shape (n,), optional

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> import dask.array as da
    >>> from mercer import KernelDensity
    >>> from mercer.distributed import log_density
    >>> X = da.random.default_rng(0).normal(size=(1000, 1), chunks=(200, 1))
    >>> model = KernelDensity(bandwidth=0.3).fit(X[:100].compute())
    >>> here = KernelDensity(bandwidth=0.3).fit(X.compute())
    >>> bool(abs(log_density(model, X, [[0.5]]) - here.score_samples([[0.5]])).max() < 1e-12)
    True
    """
    if np.any(model.adaptive):
        raise ValueError(
            f"adaptive={model.adaptive!r} takes a density at every point for its bandwidth; a Dask "
            "collection takes adaptive=0"
        )
    fixed = clone(model).set_params(bandwidth=model.bandwidth_)
    model.score_samples(take_rows(queries, slice(1)))  # checked here, before anything is read
    queries = np.asarray(queries, dtype=np.float64)
    blocks = zip(row_blocks_of(X, None, sample_weight), places_of(X), strict=True)
    check_feature_names(model, X._meta if is_table(X) else X, reset=False)
    return reduced("LogDensity", LogDensity, (fixed, queries), list(blocks)).value()


class LogDensity(Totals):
    """The logarithm of a weighted sum of kernels at some queries, and the weight of the points."""

    def __init__(self, given: tuple[KernelDensity, np.ndarray], block: tuple, place: str):
        model, queries = given
        X, _, weight = block
        self.logs, self.weight = np.full(len(queries), -np.inf), 0.0
        try:
            s = checked_weights(weight, X, may_be_zero=True) if n_rows(X) else np.zeros(0)
            self.weight = float(n_rows(X)) if s is None else float(s.sum())
            if self.weight > 0:
                self.logs = clone(model).fit(np.asarray(X), sample_weight=s).score_samples(queries)
                self.logs += np.log(self.weight)
        except (TypeError, ValueError) as error:
            raise placed(error, place, X=X, sample_weight=weight) from error

    def merged(self, other: LogDensity, sign: int = 1) -> LogDensity:
        both = LogDensity.__new__(LogDensity)
        both.logs = np.logaddexp(self.logs, other.logs)
        both.weight = self.weight + other.weight
        return both

    def value(self) -> np.ndarray:
        if not self.weight > 0:
            raise ValueError("X has no rows of any weight; expected at least one")
        return self.logs - np.log(self.weight)
