"""Points whose features are 0 or 1, which are handed to the core as bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import KernelDensity
from mercer import kernels as K
from mercer.core import Kind
from mercer.expressions import over
from mercer.expressions.bits import bits_of_both

KERNELS = [
    K.Linear(),
    K.Tanimoto(),
    K.Min(),
    K.RBF(0.05),
    K.Laplacian(0.05),
    K.Matern(1.5, 3.0),
    K.Cosine(),
    K.Tanimoto() * K.RBF(0.1) + K.Linear(),
]


def binary(seed, n, d, dtype=np.float64, share=0.2):
    return (np.random.default_rng(seed).random((n, d)) < share).astype(dtype)


def kinds(kernel, X, Y=None):
    pairs = over(kernel.expression(), X, Y)
    return [pairs._leaf(node).kind for node in pairs.lowering.leaves]


def by_numbers(kernel, X, Y, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("mercer.expressions.statistics.bits_of_both", lambda *_: None)
        return kernel(X, Y)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [64, 65, 200, 5000])
def test_values_are_those_of_the_numbers(kernel, dtype, d, monkeypatch):
    X, Y = binary(0, 40, d, dtype), binary(1, 70, d, dtype)
    X[3], Y[5], Y[6] = 0, 0, X[3]
    expected = by_numbers(kernel, X.astype(float), Y.astype(float), monkeypatch)
    tolerance = 64 * np.finfo(dtype).eps * np.abs(expected).max()
    for A, B in ((X, Y), (sp.csr_array(X), Y), (X, sp.csr_array(Y)), (X.T.copy().T, Y)):
        np.testing.assert_allclose(kernel(A, B), expected, rtol=0, atol=tolerance)
    same = by_numbers(kernel, X.astype(float), None, monkeypatch)
    np.testing.assert_allclose(kernel(X), same, rtol=0, atol=64 * np.finfo(dtype).eps * same.max())


def test_distances_are_whole_numbers():
    X = binary(0, 50, 300, np.float32)
    found = -np.log(K.Laplacian(1 / 300)(X).astype(float)) * 300
    np.testing.assert_allclose(found, np.round(found), atol=1e-4)
    np.testing.assert_array_equal(np.round(found), np.abs(X[:, None] - X).sum(axis=2))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 140),
    d=st.integers(64, 300),
    columns=st.integers(1, 5),
    share=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_products_of_any_shape(n, m, d, columns, share, dtype):
    X, Y = binary(n, n, d, dtype, share), binary(m, m, d, dtype, share)
    V, U = np.ones((m, columns), dtype), np.ones((n, 2), dtype)
    pairs = over(K.Linear().expression(), X, Y)
    assert pairs._leaf(pairs.lowering.leaves[0]).kind == Kind.COMMON
    for found, expected in zip(pairs.products(V, U), (X @ (Y.T @ V), Y @ (X.T @ U)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_is_handed_over_as_bits():
    X = binary(0, 100, 128)
    assert kinds(K.Tanimoto(), X) == [Kind.COMMON]
    assert kinds(K.RBF(), X, sp.csr_array(X)) == [Kind.DIFFERENT]
    assert kinds(K.Chi2(), X) == [Kind.CHI2]
    assert kinds(K.Tanimoto(), X[:, :40]) == [Kind.DOT]
    assert kinds(K.RBF(scales=np.full(128, 2.0)), X) == [Kind.SQDIST]
    for place in (0, 99):
        counts = X.copy()
        counts[place, 7] = 2
        assert kinds(K.Tanimoto(), counts) == [Kind.DOT]
        assert kinds(K.Tanimoto(), X, counts) == [Kind.DOT]
        assert bits_of_both(sp.csr_array(counts), X, np.float64) is None


def test_sparse_points_that_are_not_worth_it_or_name_an_entry_twice():
    few = sp.random_array((50, 20_000), density=1e-3, format="csr", random_state=0)
    few.data[:] = 1
    assert bits_of_both(few, few, np.float64) is None
    assert bits_of_both(few[:, :2048], few[:, :2048], np.float64) is not None
    twice = sp.csr_array((np.ones(100), np.repeat(np.arange(50), 2), [0, 100]), shape=(1, 64))
    assert bits_of_both(twice, twice, np.float64) is None
    assert K.Linear()(twice).item() == 200


def test_entries_in_any_order():
    X = sp.csr_array(binary(0, 30, 200))
    indices = np.concatenate([row[::-1] for row in np.split(X.indices, X.indptr[1:-1])])
    mixed = sp.csr_array((X.data, indices, X.indptr), shape=X.shape)
    assert not mixed.has_sorted_indices
    assert kinds(K.Tanimoto(), mixed) == [Kind.COMMON]
    np.testing.assert_array_equal(K.Tanimoto()(mixed), K.Tanimoto()(X))


def test_a_density_within_a_tolerance_takes_bits_as_numbers():
    X = binary(0, 60, 80)
    loose, exact = (KernelDensity(bandwidth=2.0, rtol=rtol).fit(X) for rtol in (1e-6, 0.0))
    np.testing.assert_allclose(loose.score_samples(X), exact.score_samples(X), atol=1e-5)
