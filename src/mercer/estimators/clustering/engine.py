"""From the parameters of kernel k-means to a partition, and the fitted attributes."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer.arrays import memory_budget, n_rows
from mercer.estimators.centres import centres_of
from mercer.estimators.inputs import is_precomputed
from mercer.estimators.progress import reporter
from mercer.estimators.training_gram import training_gram
from mercer.solvers.clustering.kmeans import first_centres, lloyd
from mercer.solvers.result import Monitor, Status
from mercer.solvers.spectral.inertia_bound import inertia_bound

# Draws are the same for any type of random_state.
LARGEST_SEED = 2**31 - 1
# Points of a batch by default.
BATCH = 1024


def kmeans_exactly(estimator: Any, X: Any, weight: np.ndarray, rng: np.random.RandomState) -> None:
    """Lloyd's algorithm on the Gram operator, from several starts."""
    K, k = training_gram(estimator, X, estimator.kernel_), estimator.n_clusters
    results = []
    for _ in range(1 if estimator.n_init == "auto" else estimator.n_init):
        start = first_centres(K, weight, k, np.random.RandomState(rng.randint(LARGEST_SEED)))
        results.append(lloyd(K, weight, start, k, _monitor(estimator)))
        if results[-1].status is Status.STOPPED:
            break
    best = min(results, key=lambda result: result.value.inertia)
    _set_means(estimator, best, X, K.extend_coefficients(best.value.means(weight)))
    estimator.inertia_bound_ = inertia_bound(K, weight, k, rng.randint(LARGEST_SEED))


def kmeans_on_centres(
    estimator: Any, X: Any, weight: np.ndarray, rng: np.random.RandomState
) -> None:
    """scikit-learn's k-means on the features that a few training points span."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import

    settings = copy(estimator)
    settings.n_centers = min(estimator.n_centers, int(np.sum(weight > 0)))
    centres = centres_of(settings, X, weight)
    k, W = estimator.n_clusters, centres.whitening.W
    seed = rng.randint(LARGEST_SEED)
    shared = {"n_clusters": k, "n_init": estimator.n_init, "random_state": seed}
    monitor = _monitor(estimator)
    fits = 8 * n_rows(X) * W.shape[1] <= memory_budget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status says so
        if fits and estimator.batch_size is None:
            Phi = np.vstack([features for _, features in centres.features(X)])
            model: Any = KMeans(max_iter=estimator.max_iter, tol=0.0, **shared)
            model.fit(Phi, sample_weight=weight)
            status = Status.CONVERGED if model.n_iter_ < estimator.max_iter else Status.MAX_ITER
            monitor.n_iter, before = int(model.n_iter_), model.labels_
        else:
            shared["n_init"] = 1
            size = estimator.batch_size or BATCH
            model = MiniBatchKMeans(batch_size=size, **shared)
            before = _in_batches(model, centres, X, weight, monitor, size, rng)
            status = monitor.status
    means = np.asarray(model.cluster_centers_, dtype=np.float64)
    estimator.X_fit_, estimator.dual_coef_ = centres.expansion(X, np.asarray(W @ means.T))
    estimator.squared_norms_ = np.einsum("ij,ij->i", means, means)
    labels = np.empty(n_rows(X), dtype=np.int32)
    inertia = float(weight @ own_norms(estimator, X))
    for rows, features in centres.features(X):
        relative = estimator.squared_norms_ - 2 * features @ means.T
        labels[rows] = np.argmin(relative, axis=1)
        inertia += float(weight[rows] @ relative.min(axis=1))
    estimator.labels_, estimator.inertia_ = labels, max(inertia, 0.0)
    estimator.inertia_bound_ = None
    words = f"k-means on {W.shape[1]} Nyström features"
    moved = float(weight[labels != before].sum() / weight.sum())
    estimator.result_ = monitor.result(None, moved, status=status, method=words)
    estimator.n_iter_ = monitor.n_iter


def _in_batches(
    model: Any,
    centres: Any,
    X: Any,
    weight: np.ndarray,
    monitor: Monitor,
    size: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Passes in random batches until no more than tol of the weight moves in one: the labels."""
    before = np.full(n_rows(X), -1)
    while True:
        after = np.empty_like(before)
        for rows, features in centres.features(X):
            order = rng.permutation(len(features))
            for start in range(0, len(order), size):
                some = order[start : start + size]
                model.partial_fit(features[some], sample_weight=weight[rows][some])
            after[rows] = model.predict(features)
        moved = float(weight[after != before].sum() / weight.sum())
        before = after
        if monitor.record(moved):
            return before


def _monitor(estimator: Any) -> Monitor:
    return Monitor(tol=estimator.tol, max_iter=estimator.max_iter, report=reporter(estimator))


def _set_means(estimator: Any, result: Any, X: Any, coef: np.ndarray) -> None:
    found = result.value
    estimator.labels_ = found.labels.astype(np.int32)
    estimator.inertia_ = found.inertia
    estimator.squared_norms_ = found.squared_norms
    estimator.dual_coef_ = coef
    estimator.X_fit_ = X
    estimator.result_ = replace(result, value=None)
    estimator.n_iter_ = result.n_iter


def own_norms(estimator: Any, X: Any) -> np.ndarray:
    """k(x, x), shape (m,)."""
    if is_precomputed(estimator.kernel_):
        raise ValueError(
            "distances need k(x, x) of new points, which a precomputed matrix does not have; "
            "use predict, or a kernel object"
        )
    return np.asarray(estimator.kernel_.diag(X), dtype=np.float64)
