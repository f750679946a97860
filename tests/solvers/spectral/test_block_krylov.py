"""Block Lanczos against LAPACK, with its residuals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.solvers.spectral.block_krylov import block_krylov, stored_krylov
from mercer.solvers.spectral.eigenpairs import leading_eigenpairs


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


SPECTRA = {
    "slow": 1 / np.arange(1, 301.0) ** 2,
    "cluster": np.r_[np.full(12, 1.0), np.linspace(0.999, 0, 288)],
    "five equal": np.r_[np.full(5, 2.0), np.linspace(1, 0, 295)],
    "no gap": np.linspace(1, -1, 300),
}


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("centred", [False, True])
def test_narrow_blocks_on_a_stored_matrix(values, k, centred):
    K = random_symmetric(values)
    K = (K + K.T) / 2
    C = K - K.mean(axis=0) if centred else K
    C = C - C.mean(axis=1, keepdims=True) if centred else C
    start = np.random.default_rng(1).normal(size=(300, k + k % 2))
    found = stored_krylov(K, start, k, tol=1e-9, centred=centred, max_products=1000)
    assert found is not None
    assert found.converged
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(C)[::-1][:k], atol=1e-8)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-12)
    exact = np.linalg.norm(C @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residuals, exact, atol=1e-12)


def test_narrow_blocks_leave_low_rank_to_the_wide_ones():
    F = np.random.default_rng(0).normal(size=(300, 4))
    start = np.random.default_rng(1).normal(size=(300, 2))
    assert stored_krylov(F @ F.T, start, 2, tol=1e-12) is None
    assert stored_krylov(np.eye(50), start[:50], 2, tol=1e-12) is None


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_more_equal_eigenvalues_than_a_block_has_vectors_go_to_wide_blocks(copies):
    K = random_symmetric(np.r_[3.0, np.full(copies, 2.0), np.linspace(1, 0, 299 - copies)])
    start = np.random.default_rng(0).normal(size=(300, 2))
    found = stored_krylov((K + K.T) / 2, start, 6, tol=1e-10, max_products=400)
    assert found is None
    result = leading_eigenpairs((K + K.T) / 2, 6)
    np.testing.assert_allclose(result.value.values, np.linalg.eigvalsh(K)[:-7:-1], atol=1e-10)


def test_narrow_blocks_stop_when_told_or_out_of_products():
    K = random_symmetric(np.linspace(1, 0, 200))
    start, told = np.random.default_rng(0).normal(size=(200, 4)), []
    found = stored_krylov(K, start, 3, tol=1e-14, report=lambda *a: told.append(a) or len(told) > 2)
    assert not found.converged
    assert found.stopped
    assert found.products == len(told) == 3
    assert [steps for steps, _ in told] == [1, 2, 3]
    found = stored_krylov(K, start, 3, tol=1e-14, max_products=4)
    assert not found.converged
    assert found.products == 4
    assert np.all(found.residuals > 0)


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
