"""Nearest class mean against explicit means and both formulas of the notes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import NearestCentroid
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.clustering.centroid import KernelCentroidClassifier


@parametrize_with_checks([KernelCentroidClassifier(), KernelCentroidClassifier("linear")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def points(n=30, k=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, 3)) + y[:, None], y


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_nearest_mean_in_an_explicit_space(k, weighted):
    X, y = points(k=k)
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=30) if weighted else None
    kernel = K.Polynomial(degree=2)
    phi = kernel.feature_map().fit(X)
    means = np.array(
        [
            np.average(
                phi.transform(X[y == c]), axis=0, weights=None if weight is None else weight[y == c]
            )
            for c in range(k)
        ]
    )
    query = points(seed=5)[0]
    distances = np.linalg.norm(phi.transform(query)[:, None] - means, axis=2)
    model = KernelCentroidClassifier(kernel).fit(X, y, sample_weight=weight)
    assert_array_equal(model.predict(query), distances.argmin(axis=1))
    assert_allclose(model.squared_norms_, np.sum(means**2, axis=1))
    if k == 2:
        expected = 0.5 * (distances[:, 0] ** 2 - distances[:, 1] ** 2)
        assert_allclose(model.decision_function(query), expected, atol=1e-8)


def test_both_formulas_of_the_notes():
    X, y = points()
    kernel = K.RBF(0.3)
    plus, minus = X[y == 1], X[y == 0]
    query = points(seed=5)[0]
    towards = kernel(query, plus).mean(axis=1) - kernel(query, minus).mean(axis=1)
    model = KernelCentroidClassifier(kernel).fit(X, y)
    # 001, exercise 6: sign(<w, psi(x)> + b), b half of ||c_-||^2 - ||c_+||^2.
    b = 0.5 * (kernel(minus).mean() - kernel(plus).mean())
    assert_allclose(model.decision_function(query), towards + b)
    assert_allclose(model.intercept_, b)
    # 003: the same with b subtracted, half of ||c_+||^2 - ||c_-||^2.
    b = 0.5 * (kernel(plus).mean() - kernel(minus).mean())
    assert_allclose(model.decision_function(query), towards - b)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_a_linear_kernel_is_scikit_learns_nearest_centroid(load):
    X, y = load(return_X_y=True)
    ours = KernelCentroidClassifier("linear").fit(X, y)
    assert_array_equal(ours.predict(X), NearestCentroid().fit(X, y).predict(X))


def test_ties_go_to_the_later_class():
    model = KernelCentroidClassifier("linear").fit([[-1.0], [1.0]], ["minus", "plus"])
    assert model.predict([[0.0]])[0] == "plus"
    assert model.decision_function([[0.0]])[0] == 0.0
    square = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    three = KernelCentroidClassifier("linear").fit(square, [0, 1, 2])
    assert three.predict([[0.0, 0.0]])[0] == 2


def test_strings_precomputed_and_corrected_kernels():
    texts, labels = ["aab", "aaa", "bba", "bbb"], [0, 0, 1, 1]
    kernel = K.Spectrum(k=1)
    model = KernelCentroidClassifier(kernel).fit(texts, labels)
    assert_array_equal(model.predict(["aaab", "bbba"]), [0, 1])
    given = KernelCentroidClassifier("precomputed").fit(kernel(texts), labels)
    assert_array_equal(given.predict(kernel(["aaab", "bbba"], texts)), [0, 1])
    X, y = points()
    sigmoid = K.Sigmoid(coef0=1.0)
    values, vectors = np.linalg.eigh(sigmoid(X))
    Phi = vectors * np.sqrt(np.maximum(values, 0))
    means = np.array([Phi[y == c].mean(axis=0) for c in (0, 1)])
    clipped = KernelCentroidClassifier(sigmoid, indefinite="clip").fit(X, y)
    expected = Phi @ (means[1] - means[0]) + 0.5 * (means[0] @ means[0] - means[1] @ means[1])
    assert_allclose(clipped.decision_function(X), expected, atol=1e-8)


def test_what_cannot_be_averaged_is_named():
    X, y = points()
    with pytest.raises(ValueError, match="one class only"):
        KernelCentroidClassifier().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="weight zero"):
        KernelCentroidClassifier().fit(X, y, sample_weight=y.astype(float))
