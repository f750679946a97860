"""Conjugate gradients and the Nyström solver against dense solutions, and their certificates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import kernels as K
from mercer.operators import DenseGram, TiledGram
from mercer.solvers.linear.pcg import Preconditioner, solve_pcg
from mercer.solvers.nystrom.path import NystromPath
from mercer.solvers.nystrom.ridge import CentreWhitening, distance_bound, solve_nystrom
from mercer.solvers.nystrom.sums import Block, FeatureMoments, accumulated, estimated
from mercer.solvers.pivoted_cholesky import randomly_pivoted_cholesky
from mercer.solvers.result import Status

KERNEL = K.RBF(0.2)


def problem(n=300, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    Y = np.column_stack([np.sin(X[:, 0]) + 3.0, X[:, 1] * X[:, 2]])
    Y += 0.1 * rng.normal(size=Y.shape)
    weight = np.ones(n)
    if weighted:
        weight = rng.uniform(0.1, 2.0, size=n)
        weight[::17] = 0.0
    return X, Y, weight


def exact(gram, Y, lam, weight, fit_intercept):
    """Coefficients and intercepts from the bordered equations, target by target."""
    n, t = Y.shape
    alpha, level = np.zeros((n, t)), np.zeros(t)
    used = weight > 0
    for j, value in enumerate(np.broadcast_to(lam, (t,))):
        A = gram[np.ix_(used, used)] + np.diag(value / weight[used])
        if not fit_intercept:
            alpha[used, j] = np.linalg.solve(A, Y[used, j])
            continue
        ones = np.ones((used.sum(), 1))
        bordered = np.block([[A, ones], [ones.T, np.zeros((1, 1))]])
        solution = np.linalg.solve(bordered, np.append(Y[used, j], 0.0))
        alpha[used, j], level[j] = solution[:-1], solution[-1]
    return alpha, level


def norms(gram, alpha):
    return np.sqrt(np.maximum(np.einsum("ij,ij->j", alpha, gram @ alpha), 0.0))


# Randomly pivoted Cholesky.


@pytest.mark.parametrize("block", [1, 7, 128])
def test_the_factor_reproduces_its_pivots_and_stays_below_the_matrix(block):
    G = KERNEL(problem()[0])
    low = randomly_pivoted_cholesky(lambda i: G[i], G.diagonal(), 60, block=block)
    rest = G - low.factor @ low.factor.T
    assert len(set(low.pivots.tolist())) == low.factor.shape[1] == 60
    assert_allclose(rest[low.pivots], 0.0, atol=1e-13)
    assert np.linalg.eigvalsh(rest)[0] > -1e-12
    assert low.trace_left == pytest.approx(np.trace(rest))


def test_pivots_are_drawn_by_what_is_left_of_the_diagonal():
    """The first two pivots of a 3 by 3 matrix, against the probabilities worked out by hand."""
    G = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    counts = np.zeros((3, 3))
    for seed in range(4000):
        low = randomly_pivoted_cholesky(lambda i: G[i], G.diagonal(), 2, random_state=seed, block=4)
        counts[tuple(low.pivots)] += 1
    expected = np.zeros((3, 3))
    for i in range(3):
        left = G.diagonal() - G[i] ** 2 / G[i, i]
        expected[i] = G[i, i] / np.trace(G) * left / left.sum()
    assert_allclose(counts / 4000, expected, atol=0.03)


def test_a_matrix_of_low_rank_ends_the_choice():
    Phi = np.random.default_rng(0).normal(size=(50, 4))
    G = Phi @ Phi.T
    low = randomly_pivoted_cholesky(lambda i: G[i], G.diagonal(), 30)
    assert low.factor.shape[1] == 4
    assert_allclose(low.factor @ low.factor.T, G, atol=1e-10)
    early = randomly_pivoted_cholesky(
        lambda i: G[i], G.diagonal(), 30, trace_tol=2 * np.trace(G), block=1
    )
    assert early.factor.shape[1] == 0


def test_the_same_seed_gives_the_same_pivots():
    G = KERNEL(problem()[0])
    first, again, other = (
        randomly_pivoted_cholesky(lambda i: G[i], G.diagonal(), 20, random_state=s).pivots
        for s in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# Conjugate gradients.


def test_a_preconditioner_of_rank_zero_says_nothing(capfd):
    """BLAS prints complaints of empty factors."""
    found = Preconditioner(np.zeros((5, 0)), np.array([2.0]))
    assert found.largest() == 0
    assert_allclose(found(np.ones((5, 1)), np.array([True])), 0.5)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("constant", [False, True])
def test_the_preconditioner_is_the_inverse_it_says(constant):
    rng = np.random.default_rng(0)
    F, R = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    lam, q = np.array([0.1, 2.0]), np.full(12, 12**-0.5)
    Z = Preconditioner(F, lam, q if constant else None)(R, np.ones(2, dtype=bool))
    for j in range(2):
        P = F @ F.T + lam[j] * np.eye(12)
        if constant:  # on the vectors orthogonal to q
            V = np.linalg.svd(np.eye(12) - np.outer(q, q))[0][:, :11]
            expected = V @ np.linalg.solve(V.T @ P @ V, V.T @ R[:, j])
        else:
            expected = np.linalg.solve(P, R[:, j])
        assert_allclose(Z[:, j], expected, atol=1e-10)


LAMS = [1.0, 1e-2, np.array([1e-3, 1.0])]


@pytest.mark.parametrize("lam", LAMS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_pcg_finds_the_dense_solution(lam, weighted, fit_intercept, single):
    X, Y, weight = problem(weighted=weighted)
    operator = TiledGram(KERNEL.over(X, None))
    result = solve_pcg(
        operator,
        Y,
        lam,
        weight,
        fit_intercept=fit_intercept,
        single=operator.single() if single else None,
        rank=40,
        tol=1e-10,
    )
    alpha, level = exact(KERNEL(X), Y, lam, weight, fit_intercept)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-10
    assert_allclose(result.value.alpha, alpha, atol=1e-7 * np.abs(alpha).max())
    assert_allclose(result.value.intercept, level, atol=1e-7)


BOUNDED = list(product([0.5, 1e-2, 1e-5], [10.0, 0.1, 1e-3], [False, True], [False, True]))


def bounds_and_distances(tol, lam, weighted, fit_intercept):
    """For two ranks, what pcg says and what the distance from the exact solution is."""
    X, Y, weight = problem(weighted=weighted)
    G = KERNEL(X)
    alpha = exact(G, Y, lam, weight, fit_intercept)[0]
    for rank in (5, 80):
        result = solve_pcg(
            DenseGram(G), Y, lam, weight, fit_intercept=fit_intercept, rank=rank, tol=tol
        )
        yield result, norms(G, result.value.alpha - alpha)


@pytest.mark.parametrize(("tol", "lam", "weighted", "fit_intercept"), BOUNDED)
def test_the_bound_of_pcg_holds(tol, lam, weighted, fit_intercept):
    for result, distance in bounds_and_distances(tol, lam, weighted, fit_intercept):
        assert np.all(distance <= result.value.bound * (1 + 1e-9))
        assert result.bound == result.value.bound.max()


def test_the_bound_of_pcg_is_near():
    # The iterations end where rounding has them end, so that one of many may be lucky.
    found = [pair for case in BOUNDED for pair in bounds_and_distances(*case)]
    ratios = [result.value.bound / distance for result, distance in found if distance.min() > 1e-12]
    assert len(ratios) > len(found) / 2
    assert np.median(ratios) <= 4
    assert np.max(ratios) <= 40


def test_pcg_stops_resumes_and_counts():
    X, Y, _ = problem()
    G = DenseGram(KERNEL(X))
    full = solve_pcg(G, Y, 1e-2, rank=20, tol=1e-9)
    few = solve_pcg(G, Y, 1e-2, rank=20, tol=1e-9, max_iter=5)
    assert few.status is Status.MAX_ITER
    assert few.n_iter == 5
    assert len(few.history) == 6
    again = solve_pcg(G, Y, 1e-2, rank=20, tol=1e-9, start=few.value.alpha)
    assert again.history[0] == pytest.approx(few.gap)
    assert_allclose(again.value.alpha, full.value.alpha, atol=1e-5)
    assert solve_pcg(G, Y, 1e-2, tol=1e-9, max_time=1e-9).status is Status.MAX_TIME
    stopped = solve_pcg(G, Y, 1e-2, rank=20, tol=1e-9, report=lambda n, gap: n == 3)
    assert stopped.status is Status.STOPPED
    assert stopped.n_iter == 3


def test_pcg_of_nothing_is_nothing():
    result = solve_pcg(DenseGram(np.eye(4)), np.zeros(4), 1.0)
    assert result.status is Status.CONVERGED
    assert_allclose(result.value.alpha, 0.0)
    assert result.bound == 0.0


@pytest.mark.parametrize("lam", [0.0, 1e-17])
def test_pcg_refuses_a_regulariser_lost_in_rounding(lam):
    with pytest.raises(ValueError, match="condition number is up to"):
        solve_pcg(DenseGram(np.ones((5, 5))), np.arange(5.0), lam)


def test_pcg_says_where_rounding_stops_it():
    X, Y, _ = problem()
    result = solve_pcg(DenseGram(KERNEL(X)), Y, 1e-9, tol=1e-15)
    assert not result.status.ok
    if result.status is Status.STALLED:
        assert "condition number" in result.message


# Nyström.


def in_blocks(X, Y, weight, centres, size=64):
    def blocks():
        for i in range(0, len(X), size):
            rows = slice(i, i + size)
            gram = TiledGram(KERNEL.over(X[rows], centres))
            yield Block(gram, Y[rows], None if weight is None else weight[rows])

    return blocks


def nystrom_oracle(Phi, Y, lam, weight, fit_intercept):
    """Weights and intercept by stacked least squares, with a column for the constant."""
    if np.ndim(lam):
        each = [nystrom_oracle(Phi, Y, value, weight, fit_intercept) for value in lam]
        w, level = zip(*each, strict=True)
        return np.column_stack([w[j][:, j] for j in (0, 1)]), np.diag(level)
    n, r = Phi.shape
    root = np.sqrt(weight)[:, None]
    columns = np.column_stack([Phi, np.ones(n)]) if fit_intercept else Phi
    penalty = np.sqrt(lam) * np.eye(r, columns.shape[1])
    tall = np.vstack([root * columns, penalty])
    solution = np.linalg.lstsq(tall, np.vstack([root * Y, np.zeros((r, 2))]), rcond=None)[0]
    level = solution[r] if fit_intercept else np.zeros(2)
    return solution[:r], level


def test_whitened_features_give_the_nystrom_matrix_and_drop_directions():
    X = problem(60)[0]
    centres = np.vstack([X[:20], X[:5]])  # five of them twice
    white = CentreWhitening(KERNEL(centres))
    assert len(white.kept) == 20
    Phi = white.features(TiledGram(KERNEL.over(X, centres[white.kept])))
    C = KERNEL(X, X[:20])
    assert_allclose(Phi @ Phi.T, C @ np.linalg.solve(KERNEL(X[:20]), C.T), atol=1e-9)
    single = white.features(TiledGram(KERNEL.over(X, centres[white.kept])), single=True)
    assert single.dtype == np.float32
    assert_allclose(single, Phi, atol=1e-3)
    with pytest.raises(ValueError, match="zero at every centre"):
        CentreWhitening(np.zeros((3, 3)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("sums", ["exact", "float32", "part"])
@pytest.mark.parametrize("lam", [1e-3, 1.0, np.array([1e-2, 3.0])], ids=str)
def test_nystrom_solves_the_least_squares_problem(weighted, fit_intercept, sums, lam):
    X, Y, weight = problem(weighted=weighted)
    white = CentreWhitening(KERNEL(X[:30]))
    centres = X[:30][white.kept]
    blocks = in_blocks(X, Y, weight, centres)
    moments = accumulated(blocks(), white, 2)
    if sums != "exact":
        m = 100 if sums == "part" else len(X)
        some = in_blocks(X[:m], Y[:m], weight[:m], centres)()
        part = accumulated(some, white, 2, single=sums == "float32")
        moments = estimated(blocks(), white, part)
    lams = np.broadcast_to(lam, (2,))
    result = solve_nystrom(
        blocks,
        white,
        moments,
        lams,
        fit_intercept=fit_intercept,
        single=sums == "float32",
        tol=1e-12,
    )
    Phi = KERNEL(X, centres) @ white.W
    w, level = nystrom_oracle(Phi, Y, lam, weight, fit_intercept)
    assert result.status.ok
    assert_allclose(result.value.weights, w, atol=1e-7)
    assert_allclose(result.value.intercept, level, atol=1e-7)
    assert_allclose(KERNEL(X, centres) @ result.value.coef, Phi @ w, atol=1e-7)


def test_sums_alone_tell_where_rounding_stops_them():
    X, Y, _ = problem()
    white = CentreWhitening(K.RBF(1e-4)(X[:30]))
    Phi = K.RBF(1e-4)(X, X[:30][white.kept]) @ white.W
    moments = FeatureMoments(Phi.shape[1], 2)
    moments.add(Phi, Y, None)
    good = solve_nystrom(None, white, moments, np.full(2, 1.0))
    assert good.status is Status.CONVERGED
    assert good.n_iter == 1
    bad = solve_nystrom(None, white, moments, np.full(2, 1.0), tol=1e-30)
    assert bad.status is Status.STALLED
    assert "condition number" in bad.message


def test_an_estimate_that_is_not_positive_definite_still_preconditions():
    X, Y, weight = problem()
    white = CentreWhitening(KERNEL(X[:30]))
    centres = X[:30][white.kept]
    blocks = in_blocks(X, Y, weight, centres)
    moments = estimated(blocks(), white, accumulated(blocks(), white, 2))
    moments.features[0, 0] = -moments.features[0, 0]
    result = solve_nystrom(blocks, white, moments, np.full(2, 1e-3))
    w = nystrom_oracle(KERNEL(X, centres) @ white.W, Y, 1e-3, weight, False)[0]
    assert result.status is Status.CONVERGED
    assert_allclose(result.value.weights, w, atol=1e-3)


def test_moments_add_up():
    X, Y, weight = problem(weighted=True)
    white = CentreWhitening(KERNEL(X[:30]))
    blocks = in_blocks(X, Y, weight, X[:30][white.kept])
    parts = [accumulated([block], white, 2) for block in blocks()]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merged(part)
    whole = accumulated(blocks(), white, 2)
    for name, value in vars(whole).items():
        assert_allclose(getattr(merged, name), value, rtol=1e-12, atol=1e-9)
    assert whole.n == np.count_nonzero(weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leaving_one_out_of_the_sums_equals_refitting(weighted, fit_intercept):
    X, Y, weight = problem(50, weighted=weighted)
    white = CentreWhitening(KERNEL(X[:12]))
    centres = X[:12][white.kept]
    moments = accumulated(in_blocks(X, Y, weight, centres)(), white, 2)
    path = NystromPath(white, moments, fit_intercept)
    lams = np.array([1e-3, 0.5])
    fast = path.leave_one_out(next(in_blocks(X, Y, weight, centres, 50)()), lams)
    Phi = KERNEL(X, centres) @ white.W
    for lam, predictions in zip(lams, fast, strict=True):
        for i in range(50):
            kept = np.arange(50) != i
            w, level = nystrom_oracle(Phi[kept], Y[kept], lam, weight[kept], fit_intercept)
            assert_allclose(predictions[i], Phi[i] @ w + level, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_generalised_cross_validation_is_its_formula(fit_intercept):
    X, Y, _ = problem(50)
    white = CentreWhitening(KERNEL(X[:12]))
    centres = X[:12][white.kept]
    blocks = in_blocks(X, Y, None, centres)
    path = NystromPath(white, accumulated(blocks(), white, 2), fit_intercept)
    Phi = KERNEL(X, centres) @ white.W
    columns = np.column_stack([Phi, np.ones(50)]) if fit_intercept else Phi
    penalty = np.diag(np.append(np.full(Phi.shape[1], 0.3), 0.0)[: columns.shape[1]])
    hat = columns @ np.linalg.solve(columns.T @ columns + penalty, columns.T)
    residual = Y - hat @ Y
    expected = 50 * np.sum(residual**2, axis=0) / (50 - np.trace(hat)) ** 2
    assert_allclose(path.generalised(np.array([0.3]))[0], expected, rtol=1e-8)


@pytest.mark.parametrize("lam", [1e-2, 0.3, 10.0])
@pytest.mark.parametrize("M", [5, 40, 120])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_bound_of_nystrom_holds_and_is_near(lam, M, weighted, fit_intercept):
    X, Y, weight = problem(weighted=weighted)
    G, white = KERNEL(X), CentreWhitening(KERNEL(X[:M]))
    centres = X[:M][white.kept]
    blocks = in_blocks(X, Y, weight, centres)
    lams = np.full(2, lam)
    moments = accumulated(blocks(), white, 2)
    found = solve_nystrom(blocks, white, moments, lams, fit_intercept=fit_intercept).value
    fitted = KERNEL(X, centres) @ found.coef
    residual = weight[:, None] * (Y - fitted - found.intercept)
    bound = distance_bound(DenseGram(G), found.weights, fitted, residual, lams)
    alpha = exact(G, Y, lam, weight, fit_intercept)[0]
    alpha[: len(X[:M])][white.kept] -= found.coef
    distance = norms(G, alpha)
    assert np.all(distance <= bound * (1 + 1e-9))
    # The bound is as far off as the linear part at worst, and near once the centres suffice.
    root = np.sqrt(weight)
    worst = 1 + np.linalg.norm(root[:, None] * G * root, 2) / lam
    enough = M == 120 or lam * M >= 10
    assert np.all(bound <= (15 if enough else worst) * distance + 1e-5)
