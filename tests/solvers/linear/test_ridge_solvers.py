"""Every ridge solver against one explicit oracle, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from mercer import kernels as K
from mercer.arrays.factorisation import factorised
from mercer.operators import DenseGram, TiledGram
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.linear.cholesky import solve_cholesky
from mercer.solvers.linear.eigh import solve_eigh as solve_decomposed
from mercer.solvers.linear.gradient_descent import gradient_descent, largest_stable_step
from mercer.solvers.linear.primal import _solve, solve_primal
from mercer.solvers.linear.refinement import solve_refined as refined
from mercer.solvers.result import Status


def solve_eigh(K, Y, lam, sample_weight=None):
    return solve_decomposed(Eigensystem(K, sample_weight), Y, lam)


def features(n, D, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


def solve_refined(K, Y, lam, sample_weight=None):
    return refined(DenseGram(K), Y, lam, sample_weight)


def oracle_weights(Phi, y, lam, weight=None):
    """Stack the regulariser under the data and let least squares find w, of minimum norm."""
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    D = Phi.shape[1]
    tall = np.vstack([Phi * root[:, None], np.sqrt(lam) * np.eye(D)])
    return np.linalg.lstsq(tall, np.concatenate([root * y, np.zeros(D)]), rcond=1e-12)[0]


def dual_weights(solver, Phi, y, lam, weight=None):
    return Phi.T @ solver(Phi @ Phi.T, y, lam, weight).value[:, 0]


def primal_weights(Phi, y, lam, weight=None):
    return solve_primal(Phi, y, lam, weight).value.coef[:, 0]


def descent_weights(Phi, y, lam, weight=None):
    result = gradient_descent(Phi @ Phi.T, y, lam, weight, max_iter=200_000, tol=1e-12)
    return Phi.T @ result.value[:, 0]


SOLVERS = {
    "cholesky": lambda *problem: dual_weights(solve_cholesky, *problem),
    "refined": lambda *problem: dual_weights(solve_refined, *problem),
    "eigh": lambda *problem: dual_weights(solve_eigh, *problem),
    "primal": primal_weights,
    "gd": descent_weights,
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("n", "D"), [(1, 1), (2, 5), (30, 4), (12, 40)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [0.3, 20.0])
def test_solves_the_stacked_least_squares_problem(name, n, D, weighted, lam):
    Phi = features(n, D)
    rng = np.random.default_rng(1)
    y = rng.normal(size=n)
    weight = rng.uniform(0.1, 3.0, size=n) if weighted else None
    w = SOLVERS[name](Phi, y, lam, weight)
    assert_allclose(w, oracle_weights(Phi, y, lam, weight), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("solver", [solve_cholesky, solve_refined, solve_eigh, solve_primal])
def test_one_regulariser_per_target(solver):
    Phi = features(20, 3)
    Y = features(20, 4, seed=3)
    lam = np.array([0.1, 5.0, 0.1, 2.0])
    problem = Phi if solver is solve_primal else Phi @ Phi.T
    joint = solver(problem, Y, lam).value
    for j in range(4):
        alone = solver(problem, Y[:, j], lam[j]).value
        if solver is solve_primal:
            assert_allclose(joint.coef[:, j], alone.coef[:, 0])
            assert_allclose(joint.dual_coef[:, j], alone.dual_coef[:, 0])
        else:
            assert_allclose(joint[:, j], alone[:, 0])


@pytest.mark.parametrize(("n", "D"), [(25, 3), (5, 30)])
def test_primal_and_dual_share_their_dual_coefficients(n, D):
    Phi, y = features(n, D), features(n, 1, seed=2)[:, 0]
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=n)
    K = Phi @ Phi.T
    dual = solve_cholesky(K, y, 0.7, weight).value
    for mapped in (Phi, sparse.csr_matrix(Phi)):
        assert_allclose(solve_primal(mapped, y, 0.7, weight).value.dual_coef, dual, atol=1e-10)


def test_a_weight_counts_as_repetition_and_zero_as_absence():
    Phi, y = features(6, 9), features(6, 1, seed=2)[:, 0]
    weight = np.array([2.0, 1.0, 0.0, 3.0, 1.0, 1.0])
    repeated = np.repeat(np.arange(6), weight.astype(int))
    for name in ("cholesky", "refined", "eigh", "primal"):
        assert_allclose(
            SOLVERS[name](Phi, y, 0.5, weight),
            SOLVERS[name](Phi[repeated], y[repeated], 0.5),
            atol=1e-10,
        )


@pytest.mark.parametrize(("n", "D"), [(10, 3), (4, 9)])
@pytest.mark.parametrize("lam", [0.0, 1e-30])
def test_without_a_regulariser_the_norm_is_smallest(n, D, lam):
    Phi, y = features(n, D), features(n, 1, seed=4)[:, 0]
    Phi[:, -1] = Phi[:, 0]
    expected = np.linalg.pinv(Phi) @ y
    assert_allclose(SOLVERS["eigh"](Phi, y, lam), expected, atol=1e-9)
    primal = solve_primal(Phi, y, lam).value
    assert_allclose(primal.coef[:, 0], expected, atol=1e-9)
    assert_allclose(Phi.T @ primal.dual_coef[:, 0], expected, atol=1e-9)


def test_the_gap_is_near_rounding_and_one_for_the_zero_solution():
    Phi, y = features(30, 5), features(30, 1, seed=4)[:, 0]
    K = Phi @ Phi.T
    for result in (solve_cholesky(K, y, 1e-3), solve_eigh(K, y, 1e-3), solve_primal(Phi, y, 1e-3)):
        assert result.status is Status.EXACT
        assert result.gap < 1e-9
    start = gradient_descent(K, y, 1e-3, max_iter=1, tol=0.0).history[0]
    assert start == 1.0


def test_all_zero_targets_are_solved_exactly():
    K = np.eye(3)
    for solver in (solve_cholesky, solve_refined, solve_eigh, gradient_descent):
        result = solver(K, np.zeros(3), 1.0)
        assert result.status.ok
        assert result.gap == 0.0
        assert_allclose(result.value, 0.0)


def leave_one_out_by_refitting(Phi, y, lam, weight):
    n = len(y)
    predictions = np.empty(n)
    for i in range(n):
        kept = np.arange(n) != i
        predictions[i] = Phi[i] @ oracle_weights(Phi[kept], y[kept], lam, weight[kept])
    return predictions


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0, 100.0])
@pytest.mark.parametrize(("n", "D"), [(1, 2), (15, 4), (7, 20)])
def test_leave_one_out_equals_refitting(n, D, lam):
    Phi, y = features(n, D), features(n, 1, seed=6)[:, 0]
    weight = np.random.default_rng(7).uniform(0.2, 2.0, size=n)
    if n > 2:
        weight[2] = 0.0
    fast = Eigensystem(Phi @ Phi.T, weight).leave_one_out(y, lam)[:, 0]
    assert_allclose(fast, leave_one_out_by_refitting(Phi, y, lam, weight), atol=1e-7)


def test_leave_one_out_sees_duplicates():
    Phi, y = features(8, 3), features(8, 1, seed=6)[:, 0]
    Phi[5] = Phi[1]
    fast = Eigensystem(Phi @ Phi.T).leave_one_out(y, 0.0)[:, 0]
    assert_allclose(fast, leave_one_out_by_refitting(Phi, y, 0.0, np.ones(8)), atol=1e-7)


@pytest.mark.parametrize("lam", [0.0, 0.4])
def test_gradient_descent_walks_as_the_weights_do(lam):
    Phi, y = features(9, 4), features(9, 1, seed=8)[:, 0]
    weight = np.random.default_rng(9).uniform(0.5, 2.0, size=9)
    path: list[np.ndarray] = []
    gradient_descent(Phi @ Phi.T, y, lam, weight, step_size=0.004, max_iter=40, tol=0.0, path=path)
    w = np.zeros(4)
    assert len(path) == 41
    for alpha in path:
        assert_allclose(Phi.T @ alpha[:, 0], w, atol=1e-12)
        w = w - 0.004 * (2 * Phi.T @ (weight * (Phi @ w - y)) + 2 * lam * w)


def test_the_largest_stable_step_separates_convergence_from_divergence():
    Phi, y = features(20, 4), features(20, 1, seed=8)[:, 0]
    K = Phi @ Phi.T
    limit = largest_stable_step(K, 0.5)
    assert_allclose(limit, 1.0 / (np.linalg.eigvalsh(K)[-1] + 0.5), rtol=1e-3)
    stable = gradient_descent(K, y, 0.5, step_size=0.95 * limit, max_iter=2000)
    assert stable.status is Status.CONVERGED
    unstable = gradient_descent(K, y, 0.5, step_size=1.1 * limit, max_iter=2000)
    assert unstable.status is Status.DIVERGED
    assert np.all(np.isfinite(unstable.value))
    short = gradient_descent(K, y, 0.5, step_size=1.1 * limit, max_iter=5)
    assert short.status in (Status.DIVERGED, Status.MAX_ITER)
    assert not short.status.ok


def test_gradient_descent_counts_its_steps():
    K = np.diag([1.0, 2.0, 5.0])
    result = gradient_descent(K, np.ones(3), 0.1, max_iter=7, tol=0.0)
    assert result.n_iter == 7
    assert len(result.history) == 8
    assert result.status is Status.MAX_ITER
    assert_allclose(result.gap, result.history[-1])


def test_a_zero_gram_matrix_stays_at_zero_function():
    K = np.zeros((4, 4))
    assert largest_stable_step(K, 0.0) == 1.0
    assert_allclose(solve_eigh(K, np.ones(4), 0.0).value, 0.0)


@pytest.mark.parametrize(("n", "block"), [(1, 1), (1, 4), (7, 1), (7, 3), (8, 4), (9, 4), (5, 100)])
def test_the_factor_by_blocks_is_the_one_of_lapack(n, block):
    Phi = features(n, n + 2)
    A = Phi @ Phi.T + np.eye(n)
    factor, lower = factorised(A.copy(), block)
    assert not lower
    assert_allclose(np.triu(factor).T, np.linalg.cholesky(A), rtol=1e-10)


@pytest.mark.parametrize("where", [0, 4, 8])
def test_a_matrix_that_is_not_positive_definite_is_refused_in_any_block(where):
    A = np.eye(9)
    A[where, where] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        factorised(A, block=4)


@pytest.mark.parametrize("lam", [1.0, 1e-3, np.array([0.1, 10.0])], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_float32_factor_is_refined_to_float64(lam, weighted, fit_intercept):
    X, Y = features(300, 4), features(300, 2, seed=1) + 5.0
    weight = np.random.default_rng(2).uniform(0.1, 2.0, size=300) if weighted else None
    operator = TiledGram(K.RBF(0.2).over(X, None))
    found = refined(operator, Y, lam, weight, fit_intercept=fit_intercept)
    direct = solve_cholesky(K.RBF(0.2)(X), Y, lam, weight, fit_intercept=fit_intercept)
    assert found.status is Status.EXACT
    assert found.gap <= max(10 * direct.gap, 1e-13)
    scale = np.abs(direct.value).max()
    assert_allclose(found.value, direct.value, atol=1e-9 * scale)


def test_refinement_is_refused_where_float32_is_not_enough():
    X, y = features(300, 4), features(300, 1, seed=1)
    operator = TiledGram(K.RBF(0.2).over(X, None))
    with pytest.raises(np.linalg.LinAlgError, match="too small for float32"):
        refined(operator, y, 1e-6)
    # A float32 copy of another matrix: the residuals cannot halve for long.
    other = DenseGram(K.RBF(0.2)(X))
    other.single = lambda: DenseGram(1.5 * np.eye(300))
    with pytest.raises(np.linalg.LinAlgError, match="does not contract"):
        refined(other, y, 1e-2)
    # Beyond the range of float32 there are infinities.
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(np.linalg.LinAlgError):
        refined(DenseGram(1e39 * K.RBF(0.2)(X)), y, 1e38)


def test_refinement_leaves_a_stored_matrix_as_it_is():
    for dtype in (np.float32, np.float64):
        G = K.RBF(0.2)(features(40, 4)).astype(dtype)
        before = G.copy()
        refined(DenseGram(G), np.ones(40), 1.0)
        assert np.array_equal(G, before)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_primal_tells_the_condition_number_where_rounding_wins(form, fit_intercept):
    rng = np.random.default_rng(3)
    Phi = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 30)) + 1e-8 * rng.normal(size=(8, 30))
    trace = np.sum((Phi - fit_intercept * Phi.mean(axis=0)) ** 2)
    y = rng.normal(size=8)
    result = solve_primal(form(Phi), y, 2e-14 * trace, fit_intercept=fit_intercept)
    assert result.status is Status.STALLED
    assert "condition number of up to 5.0e+13" in result.message


def test_a_primal_system_that_rounding_made_indefinite_is_decomposed():
    A, lam = np.diag([1.0, -1e-14]), 3e-15
    z, rank = _solve(A, np.array([[1.0], [0.0]]), np.array([lam]))
    assert_allclose(z, [[1.0], [0.0]])
    assert rank == 1
