"""Block Lanczos against LAPACK, with its residuals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.solvers.block_krylov import block_krylov


def random_symmetric(values, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(len(values), len(values))))
    return (Q * values) @ Q.T


@pytest.mark.parametrize(
    "values",
    [
        1 / np.arange(1, 301.0) ** 2,
        np.exp(-np.arange(300.0)),
        np.r_[np.ones(30), np.zeros(270)],  # a cluster wider than the block
        np.r_[np.full(12, 1.0), np.linspace(0.999, 0, 288)],
        np.linspace(1, -1, 300),
    ],
    ids=["slow", "fast", "cluster", "no gap", "indefinite"],
)
def test_eigenvalues_are_lapacks_and_residuals_bound_them(values):
    K, k = random_symmetric(values), 5
    start = np.random.default_rng(1).normal(size=(300, k + 8))
    found = block_krylov(lambda V: K @ V, start, k, tol=1e-9, max_products=400)
    assert found.converged
    np.testing.assert_allclose(found.values, np.sort(values)[::-1][:k], atol=1e-8)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-12)
    exact = np.linalg.norm(K @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, exact, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40), rank=st.integers(0, 40), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_small_and_deficient_matrices(n, rank, k, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, min(rank, n)))
    K, k = A @ A.T, min(k, n)
    found = block_krylov(lambda V: K @ V, rng.normal(size=(n, min(n, k + 3))), k, tol=1e-10)
    exact = np.linalg.eigvalsh(K)[::-1][:k]
    np.testing.assert_allclose(found.values, exact, atol=1e-8 * max(1.0, exact[0]))


def test_it_stops_when_told_or_out_of_products():
    K = random_symmetric(np.linspace(1, 0, 200))
    start = np.random.default_rng(0).normal(size=(200, 6))
    told = []
    found = block_krylov(
        lambda V: K @ V, start, 3, tol=1e-14, report=lambda *a: told.append(a) or 1
    )
    assert not found.converged
    assert found.products == len(told) == 1
    found = block_krylov(lambda V: K @ V, start, 3, tol=1e-14, max_products=2)
    assert not found.converged
    assert found.products == 2
    assert np.all(found.residuals > 0)
