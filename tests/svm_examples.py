"""Data sets for the support vector machines, and what it takes for two of them to be the same."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import datasets
from sklearn.preprocessing import scale

EXACT = 1e-8  # a tolerance at which LIBSVM and we must agree


def load(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        X, y = X[:500], y[:500]
    if name == "iris":  # one flower is there twice, and its coefficients could be shared at will
        X, y = np.delete(X, 142, axis=0), np.delete(y, 142)
    return scale(X), y


def blobs(n=40, gap=1.5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 2)) + gap * (2 * y[:, None] - 1), y


def same_machine(ours, theirs, X, atol=1e-5):
    """Equal decision values, support and coefficients."""
    assert_allclose(ours.intercept_, theirs.intercept_, atol=atol)
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.n_support_, theirs.n_support_)
    dual = theirs.dual_coef_.toarray() if sp.issparse(theirs.dual_coef_) else theirs.dual_coef_
    assert ours.dual_coef_.shape == dual.shape
    assert_allclose(ours.dual_coef_, dual, atol=atol * max(1.0, np.abs(dual).max()))
    for method in ("decision_function", "predict"):
        if hasattr(theirs, method) and np.asarray(getattr(theirs, method)(X)).dtype.kind == "f":
            found, expected = getattr(ours, method)(X), getattr(theirs, method)(X)
            assert_allclose(found, expected, atol=atol * max(1.0, np.abs(expected).max()))
