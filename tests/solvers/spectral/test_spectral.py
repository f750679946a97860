"""Leading eigenpairs of Gram operators: LAPACK, Lanczos and the sketch against one another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse.linalg import ArpackNoConvergence, aslinearoperator

from mercer.solvers.result import Status
from mercer.solvers.spectral.centring import rounding_floor
from mercer.solvers.spectral.eigenpairs import leading_eigenpairs

METHODS = ["dense", "arpack", "randomized"]


def gram(n, d, seed=0):
    X = np.random.RandomState(seed).normal(size=(n, d)) / np.arange(1, d + 1) ** 2
    return X @ X.T


@pytest.mark.parametrize("method", METHODS)
def test_each_method_finds_the_largest_eigenvalues(method):
    K = gram(80, 12)
    expected = np.sort(np.linalg.eigvalsh(K))[::-1][:3]
    result = leading_eigenpairs(K, 3, method=method, random_state=0)
    pairs = result.value
    assert_allclose(pairs.values, expected, rtol=1e-8)
    assert_allclose(K @ pairs.vectors, pairs.vectors * pairs.values, atol=1e-5 * expected[0])
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(3), atol=1e-10)
    assert result.status.ok


@pytest.mark.parametrize("method", METHODS)
def test_the_gap_is_the_residual(method):
    K = gram(60, 8)
    result = leading_eigenpairs(K, 2, method=method, random_state=0)
    values, vectors = result.value.values, result.value.vectors
    residual = max(
        np.linalg.norm(K @ v - lam * v) for lam, v in zip(values, vectors.T, strict=True)
    )
    assert result.gap == pytest.approx(residual / values[0], rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_an_operator_gives_what_its_matrix_gives(method):
    K = gram(50, 5)
    of_matrix = leading_eigenpairs(K, 3, method=method, random_state=0).value
    of_operator = leading_eigenpairs(aslinearoperator(K), 3, method=method, random_state=0).value
    assert_allclose(of_operator.values, of_matrix.values, rtol=1e-10)
    assert_allclose(of_operator.vectors, of_matrix.vectors, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_a_float32_matrix_is_solved_in_float64(method):
    K = gram(50, 5).astype(np.float32)
    pairs = leading_eigenpairs(K, 2, method=method, random_state=0).value
    expected = np.linalg.eigvalsh(K.astype(float))[::-1][:2]
    assert pairs.vectors.dtype == np.float64
    # The sketch and Lanczos multiply in float32, so their values carry its rounding.
    assert_allclose(pairs.values, expected, rtol=1e-6)


@pytest.mark.parametrize("method", ["dense", "krylov", "arpack", "randomized"])
@pytest.mark.parametrize("n", [40, 60])
def test_equal_eigenvalues_are_all_found(method, n):
    """LAPACK's search for a few of the eigenvalues finds none of these."""
    result = leading_eigenpairs(np.eye(n) - 1 / n, 3, method=method, random_state=0)
    assert_allclose(result.value.values, 1.0)
    assert_allclose(result.value.vectors.T @ result.value.vectors, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_residuals_neither_underflow_nor_overflow(scale):
    A = scale * slow_spectrum()
    exact = np.linalg.eigvalsh(A / scale)[::-1]
    result = leading_eigenpairs(A, 3, method="krylov", random_state=0)
    assert_allclose(result.value.values / scale, exact[:3])
    rough = leading_eigenpairs(A, 3, method="randomized", iterated_power=0, random_state=0)
    far = np.abs(rough.value.values / scale - exact[:, None]).min(axis=0)
    assert np.all(far <= rough.value.residuals / scale + 1e-12)
    assert rough.gap > 1e-4


def test_largest_means_algebraically_largest():
    K = np.diag([-9.0, 4.0, 1.0, 0.5, 0.25, 0.1])
    for method in METHODS:
        values = leading_eigenpairs(K, 2, method=method, random_state=0).value.values
        assert_allclose(values, [4.0, 1.0], atol=1e-9)


def test_signs_do_not_depend_on_the_method():
    K = gram(40, 6)
    vectors = [
        leading_eigenpairs(K, 3, method=method, random_state=seed).value.vectors
        for method in METHODS
        for seed in (0, 1)
    ]
    for other in vectors[1:]:
        assert_allclose(other, vectors[0], atol=1e-6)
    largest = np.abs(vectors[0]).argmax(axis=0)
    assert np.all(vectors[0][largest, np.arange(3)] > 0)


def test_the_same_seed_gives_the_same_bits():
    K = gram(300, 20)
    for method in METHODS:
        first, second = (
            leading_eigenpairs(K, 4, method=method, random_state=3).value.vectors for _ in range(2)
        )
        assert np.array_equal(first, second)


@pytest.mark.parametrize("method", METHODS)
def test_more_components_than_the_rank(method):
    x = np.arange(30.0)
    pairs = leading_eigenpairs(np.outer(x, x), 4, method=method, random_state=0).value
    assert_allclose(pairs.values, [x @ x, 0, 0, 0], atol=1e-9)
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(4), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_zero_matrix_and_tiny_sizes(method, n):
    result = leading_eigenpairs(np.zeros((n, n)), n + 3, method=method, random_state=0)
    assert_allclose(result.value.values, np.zeros(n))
    assert result.value.vectors.shape == (n, n)
    assert result.gap == 0.0


def test_lanczos_accepts_the_zero_operator():
    result = leading_eigenpairs(np.zeros((9, 9)), 2, method="arpack")
    assert_allclose(result.value.values, 0.0)
    assert result.status.ok


def test_auto_takes_lanczos_for_few_components_of_many_points():
    K = gram(250, 5)
    assert "Lanczos" in leading_eigenpairs(K, 3, random_state=0).method
    assert "eigh" in leading_eigenpairs(K, 50).method
    assert "eigh" in leading_eigenpairs(gram(100, 5), 3).method


def test_lanczos_for_every_component_says_that_it_was_not_used():
    result = leading_eigenpairs(gram(10, 3), 10, method="arpack")
    assert "fewer than n = 10" in result.method
    assert result.status is Status.EXACT


def slow_spectrum(n=400):
    """Clustered at the top, so that one restart is not enough."""
    values = 1.0 - 1e-4 * np.arange(n)
    Q, _ = np.linalg.qr(np.random.RandomState(0).normal(size=(n, n)))
    return (Q * values) @ Q.T


def test_lanczos_stopped_early_keeps_what_converged_or_raises():
    try:
        result = leading_eigenpairs(
            slow_spectrum(), 6, method="arpack", max_iter=12, random_state=0
        )
    except ArpackNoConvergence:
        return
    assert result.status is Status.MAX_ITER
    assert 0 < len(result.value.values) < 6
    assert result.gap < 1e-8


def test_lanczos_with_nothing_converged_raises():
    with pytest.raises(ArpackNoConvergence):
        leading_eigenpairs(slow_spectrum(), 6, method="arpack", max_iter=1, random_state=0)


def test_a_poor_sketch_admits_it():
    result = leading_eigenpairs(
        slow_spectrum(), 6, method="randomized", iterated_power=0, random_state=0
    )
    assert result.status is Status.MAX_ITER
    assert result.gap > 1e-3


def test_rounding_floor_separates_rank_from_noise():
    rng = np.random.RandomState(0)
    for n, d, offset in [(50, 3, 0.0), (200, 5, 1e3), (400, 2, 1e5)]:
        X = rng.normal(size=(n, d)) + offset
        K = X @ X.T
        values = np.linalg.eigvalsh(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())
        floor = rounding_floor(n, np.abs(K).max())
        assert np.sum(values > floor) == d
        assert np.sum(values < -floor) == 0
    assert rounding_floor(100, 1.0, np.float32) > 1e8 * rounding_floor(100, 1.0)


@pytest.mark.parametrize("method", ["dense", "arpack"])
def test_the_status_follows_from_the_gap(method):
    A = np.tril(np.random.default_rng(0).normal(size=(30, 30)))
    result = leading_eigenpairs(A @ A.T, 2, method=method, random_state=0)
    assert result.status.ok
    result = leading_eigenpairs(A, 2, method=method, random_state=0)
    assert result.gap > 0.1
    assert not result.status.ok
