"""Kernel k-means as an estimator: on every kind of points, weights, centres, new points, files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import KernelKMeans
from mercer import kernels as K

X, Y = make_blobs(120, n_features=3, centers=3, cluster_std=0.6, random_state=2)


# Starts are drawn among rows; scikit-learn's KMeans fails these two as well.
DRAWN = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows are drawn at random"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [KernelKMeans(2), KernelKMeans(2, n_centers=8)], expected_failed_checks=lambda model: DRAWN
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_distances_follow_the_formula():
    kernel, weight = K.RBF(0.1), np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = KernelKMeans(3, kernel=kernel).fit(X, sample_weight=weight)
    new = X[:5] + 0.3
    squared = np.empty((5, 3))
    for label in range(3):
        own = X[model.labels_ == label]
        w = weight[model.labels_ == label]
        mean = w / w.sum()
        squared[:, label] = 1 - 2 * kernel(new, own) @ mean + mean @ kernel(own) @ mean
    assert_allclose(model.transform(new), np.sqrt(squared), atol=1e-7)
    assert_array_equal(model.predict(new), np.argmin(squared, axis=1))
    assert_array_equal(model.predict(X), model.labels_)
    assert model.inertia_ == pytest.approx(-model.score(X, sample_weight=weight))
    assert model.inertia_bound_ <= model.inertia_


def test_clusters_that_are_separated_are_found_with_a_small_gap():
    model = KernelKMeans(3, kernel=K.RBF(0.02)).fit(X)
    assert adjusted_rand_score(model.labels_, Y) == 1.0
    assert model.inertia_bound_ > 0.5 * model.inertia_


@pytest.mark.parametrize("change", [sp.csr_matrix, sp.csr_array, np.float32, np.ndarray.tolist])
def test_kinds_of_rows(change):
    expected = KernelKMeans(3, gamma=0.05).fit(X)
    given = X.astype(np.float32) if change is np.float32 else change(X)
    model = KernelKMeans(3, gamma=0.05).fit(given)
    assert adjusted_rand_score(model.labels_, expected.labels_) == 1.0
    assert model.inertia_ == pytest.approx(expected.inertia_, rel=1e-4)


def test_a_given_matrix_and_a_function():
    kernel = K.RBF(0.05)
    expected = KernelKMeans(3, kernel=kernel).fit(X)
    given = KernelKMeans(3, kernel="precomputed").fit(kernel(X))
    assert_array_equal(given.labels_, expected.labels_)
    assert_array_equal(given.predict(kernel(X[:9], X)), expected.labels_[:9])
    with pytest.raises(ValueError, match="which a precomputed matrix does not have"):
        given.transform(kernel(X[:9], X))

    def nearness(x, z):
        return np.exp(-0.05 * np.sum((x - z) ** 2))

    assert_array_equal(
        KernelKMeans(3, kernel=nearness).fit(X[:60]).labels_,
        KernelKMeans(3, kernel=kernel).fit(X[:60]).labels_,
    )


def test_strings():
    words = ["aaab", "aaba", "abaa", "cccd", "ccdc", "cdcc"]
    model = KernelKMeans(2, kernel=K.Spectrum(2).normalize()).fit(words)
    assert len(set(model.labels_[:3])) == len(set(model.labels_[3:])) == 1
    assert model.predict(["aab"])[0] == model.labels_[0] != model.labels_[3]


def test_a_weight_is_so_many_points():
    weight = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = KernelKMeans(3, gamma=0.02, n_init=3).fit(X, sample_weight=weight)
    repeated = KernelKMeans(3, gamma=0.02, n_init=3).fit(np.repeat(X, weight, axis=0))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-6)
    assert weighted.inertia_bound_ == pytest.approx(repeated.inertia_bound_, rel=1e-2)


@pytest.mark.parametrize("batch_size", [None, 50])
def test_centres_approximate_feature_space(batch_size):
    exact = KernelKMeans(3, gamma=0.02).fit(X)
    model = KernelKMeans(3, gamma=0.02, n_centers=40, batch_size=batch_size).fit(X)
    assert adjusted_rand_score(model.labels_, exact.labels_) == 1.0
    assert model.inertia_ == pytest.approx(exact.inertia_, rel=0.02)
    assert model.inertia_ >= exact.inertia_bound_
    assert_array_equal(model.predict(X), model.labels_)
    assert model.result_.gap == 0.0


@pytest.mark.parametrize("size", [20, 50])
def test_batches_have_the_size_that_is_asked_for(monkeypatch, size):
    from sklearn.cluster import MiniBatchKMeans

    sizes, plain = [], MiniBatchKMeans.partial_fit

    def noted(self, X, y=None, sample_weight=None):
        sizes.append(len(X))
        return plain(self, X, y, sample_weight)

    monkeypatch.setattr(MiniBatchKMeans, "partial_fit", noted)
    KernelKMeans(3, gamma=0.02, n_centers=40, batch_size=size).fit(X)
    assert max(sizes) == size


def test_all_points_as_centres_are_exact():
    model = KernelKMeans(3, kernel="linear", n_centers=3, n_init=5).fit(X)
    assert model.inertia_ == pytest.approx(KMeans(3, n_init=5, random_state=0).fit(X).inertia_)


def test_saved_and_loaded(tmp_path):
    model = KernelKMeans(3, gamma=0.05).fit(X)
    mercer.save(model, tmp_path / "m")
    loaded = mercer.load(tmp_path / "m")
    assert_array_equal(loaded.predict(X + 0.1), model.predict(X + 0.1))
    assert loaded.inertia_bound_ == model.inertia_bound_


def test_too_many_clusters_are_refused():
    with pytest.raises(ValueError, match="n_clusters=8 and X has n_samples=5"):
        KernelKMeans().fit(X[:5])
