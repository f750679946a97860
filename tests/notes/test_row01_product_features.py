"""Row 1. Products of all pairs of features, from notes 000 (Kakade, CSE 446).

Put a one before the vector x and take the outer product of the result with itself. Read as one
long vector, that is a feature map phi, and phi(x)·phi(v) is (1 + x·v)². A conjunction of two binary
features is one of its coordinates.

Here the map is `Polynomial(2).feature_map()`. It keeps one copy of each product, with the weight
that the repeated copies have together, so it is shorter and its inner products are the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels as K


def all_products(x: np.ndarray) -> np.ndarray:
    """vec(<1; x><1; x>ᵀ), written out with loops."""
    extended = [1.0, *x]
    return np.array([a * b for a in extended for b in extended])


def rows_close_up_to_order(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether two feature matrices hold the same columns, in whatever order."""
    return np.allclose(A[:, np.lexsort(A)], B[:, np.lexsort(B)], rtol=1e-12, atol=1e-12)


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(12, 4))


def test_outer_product_features_have_the_inner_products_of_the_quadratic_kernel(X):
    Phi = np.array([all_products(x) for x in X])
    by_hand = np.array([[(1 + x @ v) ** 2 for v in X] for x in X])
    np.testing.assert_allclose(Phi @ Phi.T, by_hand, rtol=1e-12)
    np.testing.assert_allclose(K.Polynomial(2)(X), by_hand, rtol=1e-13)


def test_the_librarys_map_has_the_same_inner_products(X):
    phi = K.Polynomial(2).feature_map().fit(X)
    F, V = phi.transform(X), phi.transform(X[:5] - 1.0)
    np.testing.assert_allclose(F @ F.T, (1 + X @ X.T) ** 2, rtol=1e-12)
    np.testing.assert_allclose(F @ V.T, (1 + X @ (X[:5] - 1.0).T) ** 2, rtol=1e-12, atol=1e-13)


def test_the_librarys_map_merges_the_copies_of_the_notes_map(X):
    d = X.shape[1]
    F = K.Polynomial(2).feature_map().fit_transform(X)
    # 1 once; x_j twice among the (d+1)² products; x_j² once; x_j x_k, j < k, twice.
    merged = np.column_stack(
        [np.ones(len(X))]
        + [np.sqrt(2) * X[:, j] for j in range(d)]
        + [X[:, j] ** 2 for j in range(d)]
        + [np.sqrt(2) * X[:, j] * X[:, k] for j in range(d) for k in range(j + 1, d)]
    )
    assert F.shape[1] == (d + 1) * (d + 2) // 2 < (d + 1) ** 2
    assert rows_close_up_to_order(F, merged)


def test_a_conjunction_of_two_binary_features_is_one_of_the_products():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    conjunction = X[:, 0].astype(bool) & X[:, 1].astype(bool)
    F = K.Polynomial(2).feature_map().fit_transform(X)
    found = [np.allclose(column, np.sqrt(2) * conjunction) for column in F.T]
    assert sum(found) == 1


@pytest.mark.parametrize("d", [1, 2, 7])
def test_number_of_features(d):
    X = np.random.default_rng(d).normal(size=(3, d))
    phi = K.Polynomial(2).feature_map().fit(X)
    assert phi.transform(X).shape == (3, (d + 1) * (d + 2) // 2)
    assert len(all_products(X[0])) == (d + 1) ** 2
