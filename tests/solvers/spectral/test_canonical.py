"""Regularised canonical correlation on centred Gram matrices, against direct eigenproblems."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from mercer.solvers.result import Status
from mercer.solvers.spectral.canonical import (
    WhitenedView,
    best_pvalue,
    canonical_variates,
    leading_correlations,
    permuted_correlations,
)
from mercer.solvers.spectral.held_out_correlation import leave_one_out_correlation


def centred(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def gaussian(X, gamma=0.3):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=-1))


def related_grams(n, m, seed=0):
    """m noisy looks at one hidden coordinate, as uncentred Gaussian Grams."""
    rng = np.random.RandomState(seed)
    t = rng.normal(size=(n, 1))
    return [
        gaussian(np.hstack([t + 0.5 * rng.normal(size=(n, 1)), rng.normal(size=(n, v + 1))]))
        for v in range(m)
    ]


def pencil(Ks, penalties):
    """The generalised eigenproblem in the dual coefficients, written out."""
    m = len(Ks)
    D = scipy.linalg.block_diag(*(K @ K + c * K for K, c in zip(Ks, penalties, strict=True)))
    N = np.block([[Ks[v] @ Ks[w] if v != w else Ks[v] * 0 for w in range(m)] for v in range(m)])
    return N + D, D


def solve_pencil(Ks, penalties, k):
    """Oracle: eigenvalues mu and coefficients of N a = mu D a on the range of D."""
    N, D = pencil(Ks, penalties)
    values, vectors = np.linalg.eigh(D)
    kept = values > 1e-11 * values.max()
    W = vectors[:, kept] / np.sqrt(values[kept])
    mu, A = np.linalg.eigh(W.T @ N @ W)
    return mu[::-1][:k], (W @ A)[:, ::-1][:, :k].reshape(len(Ks), -1, k)


def setup(n, m, regularization, seed=0):
    Ks = [centred(K) for K in related_grams(n, m, seed)]
    views = [WhitenedView.from_gram(K) for K in Ks]
    return Ks, views, [regularization * view.trace for view in views]


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("regularization", [1e-2, 0.1, 10.0])
def test_correlations_equal_the_generalised_eigenproblem(m, regularization):
    Ks, views, penalties = setup(25, m, regularization)
    mu, _ = solve_pencil(Ks, penalties, 3)
    result = canonical_variates(views, penalties, 3)
    assert_allclose(result.value.correlations, (mu - 1) / (m - 1), rtol=1e-7)
    assert result.status is Status.EXACT
    assert result.gap < 1e-12


@pytest.mark.parametrize("m", [2, 3])
def test_directions_satisfy_the_constraint_and_attain_the_value(m):
    Ks, views, penalties = setup(30, m, 0.05)
    value = canonical_variates(views, penalties, 3).value
    for K, c, alpha in zip(Ks, penalties, value.directions, strict=True):
        constraint = alpha.T @ (K @ K + c * K) @ alpha
        assert_allclose(np.diag(constraint), 1.0, rtol=1e-9)
    if m == 2:
        alpha, beta = value.directions
        attained = alpha.T @ Ks[0] @ Ks[1] @ beta
        assert_allclose(attained, np.diag(value.correlations), atol=1e-9)


def test_no_other_direction_does_better():
    Ks, views, penalties = setup(20, 2, 0.1)
    best = canonical_variates(views, penalties, 1).value.correlations[0]
    rng = np.random.RandomState(1)
    for _ in range(300):
        alpha, beta = rng.normal(size=(2, 20))
        sizes = [
            np.sqrt(a @ (K @ K + c * K) @ a)
            for K, c, a in zip(Ks, penalties, (alpha, beta), strict=True)
        ]
        assert alpha @ Ks[0] @ Ks[1] @ beta <= best * sizes[0] * sizes[1] + 1e-12


def test_three_copies_of_one_view_correlate_as_two_do():
    K = centred(related_grams(20, 1)[0])
    view = WhitenedView.from_gram(K)
    c = 0.1 * view.trace
    two = canonical_variates([view] * 2, [c] * 2, 2).value.correlations
    three = canonical_variates([view] * 3, [c] * 3, 2).value.correlations
    shrunk = view.values[:2] / (view.values[:2] + c)
    assert_allclose(two, shrunk, rtol=1e-10)
    assert_allclose(three, shrunk, rtol=1e-10)


def test_rank_is_cut_at_rounding_and_components_at_the_smaller_rank():
    x = np.linspace(-1, 1, 30)
    thin, thick = (
        WhitenedView.from_gram(np.outer(x, x)),
        WhitenedView.from_gram(centred(related_grams(30, 1)[0])),
    )
    assert thin.rank == 1
    assert thick.rank > 10
    value = canonical_variates([thin, thick], [0.0, 0.0], 5).value
    assert value.correlations.shape == (1,)
    assert [alpha.shape for alpha in value.directions] == [(30, 1), (30, 1)]


def test_a_floor_above_rounding_is_respected():
    K = np.diag([4.0, 1.0, 1e-6])
    assert WhitenedView.from_gram(K).rank == 3
    assert WhitenedView.from_gram(K, floor=1e-5).rank == 2


def test_a_constant_view_has_rank_zero_and_no_components():
    view = WhitenedView.from_gram(np.zeros((5, 5)))
    assert view.rank == 0
    result = canonical_variates([view, view], [0.0, 0.0], 2)
    assert result.value.correlations.shape == (0,)
    assert result.value.directions[0].shape == (5, 0)


def test_signs_are_fixed_by_the_first_view():
    _, views, penalties = setup(20, 3, 0.1)
    first = canonical_variates(views, penalties, 2).value.directions[0]
    largest = np.abs(first).argmax(axis=0)
    assert np.all(first[largest, [0, 1]] > 0)


def test_an_ill_conditioned_solution_says_so():
    n = 40
    x = np.linspace(0, 1, n)[:, None]
    views = [WhitenedView.from_gram(centred(gaussian(x, gamma))) for gamma in (1.0, 1.5)]
    result = canonical_variates(views, [0.0, 0.0], 9)
    assert result.status is Status.STALLED
    assert canonical_variates(views, [v.trace * 0.1 for v in views], 9).status is Status.EXACT


@pytest.mark.parametrize("m", [2, 3])
def test_leading_correlations_are_the_first_of_all(m):
    _, views, penalties = setup(25, m, 0.1)
    other = [3 * c for c in penalties]
    expected = [canonical_variates(views, c, 1).value.correlations[0] for c in (penalties, other)]
    assert_allclose(leading_correlations(views, [penalties, other]), expected, rtol=1e-10)


def test_leading_correlation_of_a_large_product():
    rng = np.random.RandomState(0)
    views = [WhitenedView.from_factor(A, 0.0) for A in rng.normal(size=(2, 300, 120))]
    A, B = (view.whitened(50.0) for view in views)
    expected = np.linalg.norm(A.T @ B, 2)
    assert_allclose(leading_correlations(views, [[50.0, 50.0]]), [expected], rtol=1e-10)


def test_a_few_of_many_singular_values():
    rng = np.random.RandomState(0)
    views = [WhitenedView.from_factor(A, 0.0) for A in rng.normal(size=(2, 500, 250))]
    value = canonical_variates(views, [50.0, 50.0], 3).value
    s = np.linalg.svd(views[0].whitened(50.0).T @ views[1].whitened(50.0), compute_uv=False)
    assert_allclose(value.correlations, s[:3], rtol=1e-10)
    alpha, beta = value.directions
    attained = alpha.T @ (views[0].gram @ (views[1].gram @ beta))
    assert_allclose(attained, np.diag(s[:3]), atol=1e-8)


@pytest.mark.parametrize("m", [2, 3])
def test_permuting_rows_equals_permuting_the_points(m):
    Ks, views, penalties = setup(15, m, 0.1)
    other = [2 * c for c in penalties]
    null = permuted_correlations(views, [penalties, other], 4, random_state=7)
    rng = np.random.RandomState(7)
    for observed in null:
        orders = [np.arange(15), *(rng.permutation(15) for _ in range(m - 1))]
        permuted = [
            WhitenedView.from_gram(K[np.ix_(p, p)]) for K, p in zip(Ks, orders, strict=True)
        ]
        expected = [
            canonical_variates(permuted, c, 1).value.correlations[0] for c in (penalties, other)
        ]
        assert_allclose(observed, expected, rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("rank", [1, 3, 8, 20])
def test_what_a_factor_leaves_out_is_bounded(m, rank):
    Ks, views, penalties = setup(25, m, 0.02)
    exact = canonical_variates(views, penalties, 1).value.correlations
    factors = []
    for K in Ks:
        values, U = np.linalg.eigh(K)
        left = max(float(values[:-rank].sum()), 0.0) + 1e-13
        factors.append(WhitenedView.from_factor(U[:, -rank:] * np.sqrt(values[-rank:]), left))
        assert factors[-1].trace == pytest.approx(np.trace(K))
    result = canonical_variates(factors, penalties, 1)
    found = result.value.correlations
    assert result.bound > 0
    if m == 2:
        assert np.all(found <= exact + 1e-12)
    assert np.all(np.abs(exact - found) <= result.bound)


def test_the_best_of_several_pvalues_is_exact():
    """Under the null hypothesis P(p <= a) is at most a, although the best is taken."""
    rng = np.random.RandomState(0)
    pvalues = []
    for _ in range(400):
        draws = rng.normal(size=(20, 1)) + 0.7 * rng.normal(size=(20, 4))
        pvalues.append(best_pvalue(draws[0], draws[1:]))
    pvalues = np.array(pvalues)
    for level in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(pvalues <= level + 1e-12) <= level + 3 * np.sqrt(level / 400)
    assert np.mean(pvalues) < 0.65  # ties make it somewhat more than a half
    # One statistic: the rank among the draws.
    assert best_pvalue(np.array([2.0]), np.array([[1.0], [3.0], [2.0]])) == 0.75


def refit_without_each_point(grams, penalties):
    """Oracle: delete a point, solve the whole problem again, project the point; n times."""
    n, m = len(grams[0]), len(grams)
    Z = np.zeros((n, m))
    for i in range(n):
        kept = np.delete(np.arange(n), i)
        subs = [K[np.ix_(kept, kept)] for K in grams]
        Ks = [centred(K) for K in subs]
        _, A = solve_pencil(Ks, penalties, 1)
        for v in range(m):
            a = A[v, :, 0]
            a = a / np.sqrt(a @ (Ks[v] @ Ks[v] + penalties[v] * Ks[v]) @ a)
            row = grams[v][i, kept] - subs[v].mean(axis=0)
            Z[i, v] = (row - row.mean()) @ a
    norms = np.linalg.norm(Z, axis=0)
    return (Z.T @ Z / np.outer(norms, norms))[np.triu_indices(m, k=1)].mean()


@pytest.mark.parametrize(("n", "m"), [(3, 2), (12, 2), (25, 2), (14, 3), (10, 4)])
@pytest.mark.parametrize("regularization", [1e-2, 0.1, 10.0])
def test_leave_one_out_equals_refitting_without_each_point(n, m, regularization):
    grams = related_grams(n, m, seed=n)
    views = [WhitenedView.from_gram(centred(K)) for K in grams]
    penalties = [regularization * view.trace for view in views]
    expected = refit_without_each_point(grams, penalties)
    assert leave_one_out_correlation(views, penalties) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("regularization", [1e-3, 1e-2, 0.1, 1.0])
def test_leave_one_out_when_a_point_lies_at_zero_along_the_direction(regularization):
    """The secular equation has a pole, not a root, at such a point's eigenvalue."""
    cross = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [2, 0], [-2, 0], [0, 2], [0, -2.0]])
    X = np.vstack([cross, [[3, 0], [-3, 0]]])
    Y = X.copy()
    Y[[2, 3, 6, 7], 1] = [1, 1, -1, -1]
    grams = [X @ X.T, Y @ Y.T]
    views = [WhitenedView.from_gram(centred(K)) for K in grams]
    penalties = [regularization * view.trace for view in views]
    expected = refit_without_each_point(grams, penalties)
    assert leave_one_out_correlation(views, penalties) == pytest.approx(expected, abs=1e-7)


def test_leave_one_out_in_small_memory_is_the_same():
    import sklearn

    _, views, penalties = setup(60, 2, 0.1)
    expected = leave_one_out_correlation(views, penalties)
    with sklearn.config_context(working_memory=1e-4):
        assert leave_one_out_correlation(views, penalties) == pytest.approx(expected, rel=1e-9)


def test_leave_one_out_sees_through_overfitting():
    rng = np.random.RandomState(0)
    views = [WhitenedView.from_gram(centred(gaussian(rng.normal(size=(60, 4))))) for _ in range(2)]
    penalties = [1e-6 * view.trace for view in views]
    assert canonical_variates(views, penalties, 1).value.correlations[0] > 0.99
    assert leave_one_out_correlation(views, penalties) < 0.3
