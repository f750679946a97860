"""Predictions without a stored Gram matrix, and what is asked of matrices and functions given."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import mercer
from mercer import kernels as K


def peak_of(action):
    """Bytes of NumPy's arrays in use at most while it runs, beyond those before."""
    action()  # what is imported and compiled once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelRidge(kernel="rbf"),
        mercer.KernelRidgeClassifier(kernel="rbf"),
        mercer.KernelPCA(5, kernel="rbf"),
        mercer.SVR(),
        mercer.SVC(),
        mercer.OneClassSVM(),
        mercer.KernelCentroidClassifier(kernel="rbf"),
        mercer.KernelMachineRegressor("huber", kernel="rbf"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_never_store_the_gram_matrix(model, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(dtype)
    y = (X[:, 0] > 0).astype(int)
    model = clone(model).fit(X, y)
    new = rng.normal(size=(20_000, 4)).astype(dtype)
    ask = model.transform if hasattr(model, "transform") else model.predict
    stored = 600 * len(new) * X.itemsize
    assert peak_of(lambda: ask(new)) < stored / 8


def test_a_given_matrix_is_judged_on_a_part_and_on_its_support_points():
    """Negative eigenvalues that a part shows are found however many points there are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = (X[:, 0] > 0).astype(int)
    valid = K.RBF(0.5)(X)
    mercer.SVC(kernel="precomputed").fit(valid, y)
    for indefinite in (K.Sigmoid(coef0=1.0)(X), -valid, valid - 0.5, np.tanh(X @ X.T)):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            mercer.SVC(kernel="precomputed").fit(indefinite, y)
        with pytest.raises(ValueError, match="not positive semidefinite"):
            mercer.KernelRidge(kernel="precomputed").fit(indefinite, y)


def test_negative_eigenvalues_among_support_points_are_found():
    """Where the part drawn shows nothing, what the model depends on does."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(1500, 2)) + 40])
    y = np.r_[np.arange(20) % 2, np.ones(1500, dtype=int)]
    gram = K.RBF(0.5)(X)
    gram[:20, :20] = 2 * np.sign(rng.normal(size=(20, 20)))
    gram[:20, :20] = (gram[:20, :20] + gram[:20, :20].T) / 2
    gram[np.arange(20), np.arange(20)] = 1.0
    with pytest.raises(ValueError, match="not positive semidefinite"):
        mercer.SVC(kernel="precomputed", C=10.0).fit(gram, y)


def test_a_function_of_rows_is_called_for_one_half():
    calls = []

    def f(a, b):
        calls.append(1)
        return float(np.exp(-np.sum((a - b) ** 2)))

    X = np.random.default_rng(0).normal(size=(100, 2))
    found = K.FromFunction(f)(X)
    assert_allclose(found, K.RBF(1.0)(X), atol=1e-12)
    assert len(calls) < 0.7 * len(X) ** 2


def test_a_function_of_rows_that_is_not_symmetric_is_called_for_all_pairs():
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = K.FromFunction(lambda a, b: float(a[0] * b[1]))
    assert_allclose(found(X, X), np.outer(X[:, 0], X[:, 1]))
    assert mercer.check_kernel(found, X).valid is False


def test_a_function_of_all_pairs_is_called_once_and_its_matrix_left_alone():
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = (X[:, 0] > 0).astype(int)
    gram, calls = K.RBF(0.5)(X), []
    before = gram.copy()

    def f(A, B):
        calls.append((len(A), len(B)))
        return gram if len(A) == len(B) == 150 else K.RBF(0.5)(A, B)

    mercer.SVC(kernel=f).fit(X, y)
    assert calls == [(150, 150)]
    normalised = (2 * K.FromFunction(f, pairwise=False)).normalize()(X)
    assert_allclose(normalised, before, atol=1e-12)
    assert np.array_equal(gram, before)


def test_a_function_in_float32_is_symmetric_enough_and_one_with_other_halves_is_not():
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = (X[:, 0] > 0).astype(int)
    rounded = K.RBF(0.5)(X).astype(np.float32)
    rounded[5, 7] = np.nextafter(rounded[5, 7], np.float32(2))
    assert mercer.SVC(kernel=lambda A, B: rounded).fit(X, y).n_support_.sum() < 150
    skewed = K.RBF(0.5)(X)
    skewed[5, 7] += 0.01
    with pytest.raises(ValueError, match=r"not symmetric: entries \(5, 7\)"):
        mercer.SVC(kernel=lambda A, B: skewed).fit(X, y)
    skewed[5, 7] = np.nan
    with pytest.raises(ValueError, match="has the value nan between training points 5 and 7"):
        mercer.SVC(kernel=lambda A, B: skewed).fit(X, y)


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_few_and_many_support_points_of_a_given_matrix_predict_alike(C):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(200, 3)), rng.normal(size=(30, 3))
    y = (X[:, 0] > 0).astype(int)
    model = mercer.SVC(kernel="precomputed", C=C, tol=1e-8).fit(K.RBF(0.5)(X), y)
    points = mercer.SVC(kernel=K.RBF(0.5), C=C, tol=1e-8).fit(X, y)
    assert_allclose(
        model.decision_function(K.RBF(0.5)(new, X)), points.decision_function(new), atol=1e-6
    )
