"""Row 12. K(x, x') = min(x, x') on 1..N is a kernel: chapter 16, exercise 4.

(Shalev-Shwartz and Ben-David.) A number x is mapped to x ones followed by N - x zeros; two such
vectors have min(x, x') ones in common places.
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K


@pytest.mark.parametrize("N", [1, 2, 10, 57])
def test_min_on_one_to_n_and_its_map(N):
    x = np.arange(1, N + 1)
    by_hand = np.array([[min(a, b) for b in x] for a in x], dtype=float)
    psi = np.array([[1.0 if place <= a else 0.0 for place in range(1, N + 1)] for a in x])
    np.testing.assert_array_equal(psi @ psi.T, by_hand)

    X = x[:, None].astype(float)
    np.testing.assert_array_equal(K.Min()(X), by_hand)
    F = K.Min().feature_map().fit_transform(X)
    np.testing.assert_array_equal(F, psi)


def test_it_is_proved_valid_and_the_gram_agrees():
    X = np.random.default_rng(0).integers(1, 100, size=(40, 1)).astype(float)
    assert K.Min().validity.status == "valid"
    report = mercer.check_kernel(K.Min(), X)
    assert report.valid is True
    assert report.min_eigenvalue >= -report.tolerance


def test_sum_over_several_coordinates():
    X = np.random.default_rng(1).integers(0, 9, size=(20, 3)).astype(float)
    by_hand = np.array([[sum(min(a, b) for a, b in zip(x, z, strict=True)) for z in X] for x in X])
    np.testing.assert_array_equal(K.Min()(X), by_hand)
    F = K.Min().feature_map().fit_transform(X)
    np.testing.assert_array_equal(F @ F.T, by_hand)


def test_real_values_are_fine_for_the_kernel_and_have_no_finite_map():
    X = np.array([[0.5], [1.25], [3.0]])
    np.testing.assert_array_equal(K.Min()(X), np.minimum(X, X.T))
    with pytest.raises(ValueError, match="integers"):
        K.Min().feature_map().fit(X)


def test_negative_numbers_are_outside_its_domain():
    with pytest.raises(ValueError, match="negative"):
        K.Min()(np.array([[-1.0], [2.0]]))
    # And rightly so: min(-1, -1) would be a negative squared length.
    assert (
        mercer.check_kernel(lambda x, z: min(x[0], z[0]), np.array([[-1.0], [2.0]])).valid is False
    )


def test_points_beyond_those_of_fit_keep_their_inner_products_with_them():
    seen, beyond = np.array([[2.0], [5.0]]), np.array([[9.0]])
    phi = K.Min().feature_map().fit(seen)
    np.testing.assert_array_equal(phi.transform(beyond) @ phi.transform(seen).T, [[2.0, 5.0]])
