"""k-means in feature space against explicit features, all partitions, and its lower bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from mercer import gram
from mercer import kernels as K
from mercer.operators import DenseGram, ScaledGram
from mercer.solvers.clustering.kmeans import first_centres, lloyd
from mercer.solvers.result import Monitor, Status
from mercer.solvers.spectral.inertia_bound import inertia_bound


def inertia_of(gram_matrix, weight, labels):
    """By the definition, from the Gram matrix of one cluster after the other."""
    found = 0.0
    for label in np.unique(labels):
        own = labels == label
        w, part = weight[own], gram_matrix[np.ix_(own, own)]
        found += w @ np.diag(part) - w @ part @ w / w.sum()
    return found


def fitted(operator, weight, k, seed=0):
    labels = first_centres(operator, weight, k, np.random.RandomState(seed))
    return lloyd(operator, weight, labels, k, Monitor(tol=0.0, max_iter=100))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans())
def test_a_converged_partition_is_nearest_to_its_own_means(seed, k, float32):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2)).astype(np.float32 if float32 else np.float64)
    weight = rng.uniform(0.1, 3.0, 30)
    operator = gram(K.RBF(0.5), X)
    dense = np.asarray(gram(K.RBF(0.5), X.astype(np.float64)).dense())
    found = fitted(operator, weight, k)
    assert found.status is Status.CONVERGED
    part = found.value
    assert part.inertia == pytest.approx(inertia_of(dense, weight, part.labels), abs=1e-4)
    means = part.means(weight)
    distances = (
        np.diag(dense)[:, None] - 2 * dense @ means + np.einsum("ik,ij,jk->k", means, dense, means)
    )
    own = distances[np.arange(30), part.labels]
    assert (own <= distances.min(axis=1) + 1e-5).all()
    assert part.squared_norms == pytest.approx(
        np.einsum("ik,ij,jk->k", means, dense, means), abs=1e-5
    )
    assert inertia_bound(operator, weight, k) <= part.inertia + 1e-5


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_below_every_partition(k):
    rng = np.random.default_rng(k)
    X, weight = rng.normal(size=(7, 2)), rng.uniform(0.2, 2.0, 7)
    operator = gram(K.RBF(1.0), X)
    dense = np.asarray(operator.dense())
    best = min(
        inertia_of(dense, weight, np.array(labels))
        for labels in itertools.product(range(k), repeat=7)
        if len(set(labels)) == k
    )
    bound = inertia_bound(operator, weight, k)
    assert bound <= best + 1e-9
    assert bound >= 0.3 * best
    if k == 1:
        assert bound == pytest.approx(best)


def test_the_linear_kernel_is_ordinary_k_means():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(m, 0.3, (40, 3)) for m in (-2, 0, 2)])
    found = fitted(gram(K.Linear(), X), np.ones(120), 3).value
    plain = KMeans(3, n_init=5, random_state=0).fit(X)
    assert found.inertia == pytest.approx(plain.inertia_, rel=1e-9)


def test_updates_of_sums_do_not_change_the_path(monkeypatch):
    from mercer.solvers.clustering import kmeans

    X = np.random.default_rng(1).normal(size=(300, 4))
    operator, ones = gram(K.RBF(0.2), X), np.ones(300)
    updated = fitted(operator, ones, 6)
    monkeypatch.setattr(kmeans, "SHARE_UPDATED", -1.0)
    anew = fitted(operator, ones, 6)
    assert (updated.value.labels == anew.value.labels).all()
    assert updated.n_iter == anew.n_iter


def test_no_cluster_is_left_empty():
    X = np.repeat([[0.0], [5.0]], 10, axis=0)
    X[0] = 1e-3
    labels = np.zeros(20, dtype=np.intp)
    found = lloyd(gram(K.RBF(1.0), X), np.ones(20), labels, 3, Monitor(tol=0.0, max_iter=50))
    assert sorted(np.unique(found.value.labels)) == [0, 1, 2]


def test_the_scaled_operator_is_the_matrix_that_it_says():
    rng = np.random.default_rng(3)
    A, s = rng.normal(size=(6, 4)), rng.uniform(0.5, 2.0, 6)
    u = s / np.linalg.norm(s)
    P, M = np.eye(6) - np.outer(u, u), A @ A.T
    scaled = ScaledGram(DenseGram(M), s, u)
    expected = P @ np.diag(s) @ M @ np.diag(s) @ P
    V = rng.normal(size=(6, 2))
    np.testing.assert_allclose(scaled @ V, expected @ V, atol=1e-12)
    np.testing.assert_allclose(scaled.T @ V[:, 0], expected @ V[:, 0], atol=1e-12)
