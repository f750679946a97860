"""KernelCCA against classical CCA, a direct generalised eigenproblem, and chance."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn import datasets
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from cca_examples import centred, generalised_eigenproblem, hidden, noise
from mercer import kernels as K
from mercer.estimators.spectral.cca import KernelCCA
from mercer.estimators.spectral.regularization import REGULARIZATIONS


@parametrize_with_checks([KernelCCA(), KernelCCA(n_components=1, kernel="linear")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def linear_views(n=80, seed=0):
    rng = np.random.RandomState(seed)
    t = rng.normal(size=(n, 2))
    X = np.hstack([t, rng.normal(size=(n, 2))]) @ rng.normal(size=(4, 4))
    Y = np.hstack([t + 0.5 * rng.normal(size=(n, 2)), rng.normal(size=(n, 1))])
    return X, Y


def classical_correlations(X, Y):
    """Oracle: cosines of the angles between the column spaces of the centred views."""
    Q, R = (np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y))
    return np.linalg.svd(Q.T @ R, compute_uv=False)


def column_correlations(A, B):
    return [np.corrcoef(a, b)[0, 1] for a, b in zip(A.T, B.T, strict=True)]


def test_linear_kernels_with_a_tiny_penalty_are_classical_cca():
    X, Y = linear_views()
    expected = classical_correlations(X, Y)
    cca = KernelCCA(3, kernel="linear", regularization=1e-12).fit(X, Y)
    assert_allclose(cca.canonical_correlations_, expected, rtol=1e-8)
    A, B = cca.transform(X, Y)
    assert_allclose(column_correlations(A, B), expected, rtol=1e-6)
    assert_allclose(A.std(axis=0), 1.0, rtol=1e-6)
    assert_allclose(np.corrcoef(A.T), np.eye(3), atol=1e-6)
    assert cca.score(X, Y) == pytest.approx(expected.mean(), rel=1e-6)


def test_scikit_learns_cca_finds_the_same_correlations():
    X, Y = linear_views()
    A, B = CCA(n_components=2, max_iter=5000, tol=1e-12).fit(X, Y).transform(X, Y)
    ours = KernelCCA(2, kernel="linear", regularization=0.0).fit(X, Y)
    assert_allclose(ours.canonical_correlations_, column_correlations(A, B), rtol=1e-6)


def test_on_held_out_points_it_projects_as_classical_cca_does():
    X, Y = linear_views(160)
    theirs = CCA(n_components=1, max_iter=5000, tol=1e-12).fit(X[:80], Y[:80])
    ours = KernelCCA(1, kernel="linear", regularization=1e-12).fit(X[:80], Y[:80])
    for a, b in zip(ours.transform(X[80:], Y[80:]), theirs.transform(X[80:], Y[80:]), strict=True):
        assert abs(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 5.0])
@pytest.mark.parametrize("kernel", ["rbf", K.Polynomial(2), K.Laplacian(0.3)], ids=repr)
def test_equal_to_the_generalised_eigenproblem(kernel, rho):
    X, Y = hidden(40)
    cca = KernelCCA(2, kernel=kernel, regularization=rho).fit(X, Y)
    grams = [view.kernel_(view.X_fit_) for view in cca.views_]
    expected = generalised_eigenproblem(grams, rho)
    assert_allclose(cca.canonical_correlations_, expected[:2], rtol=1e-6)


def test_the_variates_satisfy_the_stated_constraint():
    X, Y = hidden(50)
    rho = 0.05
    cca = KernelCCA(2, kernel="rbf", regularization=rho).fit(X, Y)
    variates = cca.transform(X, Y)
    cross = variates[0].T @ variates[1] / 50
    assert_allclose(cross, np.diag(cca.canonical_correlations_), atol=1e-8)
    for view, z in zip(cca.views_, variates, strict=True):
        gram = centred(view.kernel_(view.X_fit_))
        kappa = rho * np.trace(gram) / 50
        squared_norm = np.diag(view.dual_coef_.T @ gram @ view.dual_coef_)
        assert_allclose(z.mean(axis=0), 0, atol=1e-9)
        assert_allclose(z.var(axis=0) + kappa * squared_norm, 1.0, rtol=1e-8)


def test_a_relation_that_is_not_linear_is_found_on_held_out_points():
    X, Y = hidden(300)
    train, test = slice(0, 150), slice(150, 300)
    kernel = KernelCCA(1, regularization=0.01).fit(X[train], Y[train])
    straight = KernelCCA(1, kernel="linear", regularization=0.01).fit(X[train], Y[train])
    assert kernel.score(X[test], Y[test]) > 0.9
    assert abs(straight.score(X[test], Y[test])) < 0.4
    assert kernel.permutation_test(99, random_state=0).pvalue == pytest.approx(0.01)


def test_without_regularisation_noise_correlates_perfectly():
    X, Y = noise()
    cca = KernelCCA(2, gamma=2.0, regularization=0.0).fit(X, Y)
    assert_allclose(cca.canonical_correlations_, 1.0, rtol=1e-9)
    assert cca.score(*noise(seed=1)) < 0.5
    # Every permutation does as well, so the test is not deceived.
    outcome = cca.permutation_test(19, random_state=0)
    assert_allclose(outcome.null_distribution, 1.0, rtol=1e-9)
    assert outcome.pvalue == 1.0


def test_regularisation_and_the_permutation_test_do_not_reject_noise():
    pvalues = [
        KernelCCA(1, regularization=0.1).fit(*noise(seed=seed)).permutation_test(99, seed).pvalue
        for seed in range(20)
    ]
    # Uniform under independence: a mean near a half, few below 0.05.
    assert 0.3 < np.mean(pvalues) < 0.7
    assert np.sum(np.array(pvalues) <= 0.05) <= 4


def test_permutation_pvalue_counts_itself():
    X, Y = hidden(60)
    cca = KernelCCA(1, regularization=0.02).fit(X, Y)
    outcome = cca.permutation_test(49, random_state=0)
    assert outcome.null_distribution.shape == (49,)
    assert outcome.statistic == pytest.approx(cca.canonical_correlations_[0], rel=1e-9)
    count = np.sum(outcome.null_distribution >= outcome.statistic)
    assert outcome.pvalue == (count + 1) / 50
    again = cca.permutation_test(49, random_state=0)
    assert np.array_equal(again.null_distribution, outcome.null_distribution)
    with pytest.raises(ValueError, match="n_permutations"):
        cca.permutation_test(0)


def test_the_null_distribution_is_that_of_permuted_fits():
    X, Y = hidden(25)
    cca = KernelCCA(1, regularization=0.1).fit(X, Y)
    null = cca.permutation_test(5, random_state=3).null_distribution
    rng = np.random.RandomState(3)
    refitted = [
        KernelCCA(1, regularization=0.1).fit(X, Y[rng.permutation(25)]).canonical_correlations_[0]
        for _ in range(5)
    ]
    assert_allclose(null, refitted, rtol=1e-8)


def test_the_scale_of_a_kernel_does_not_matter():
    X, Y = hidden(40)
    one = KernelCCA(2, kernel=[K.RBF(0.5), K.RBF(0.5)]).fit(X, Y)
    other = KernelCCA(2, kernel=[1e6 * K.RBF(0.5), 1e-6 * K.RBF(0.5)]).fit(X, Y)
    assert_allclose(other.canonical_correlations_, one.canonical_correlations_, rtol=1e-8)
    for a, b in zip(other.transform(X, Y), one.transform(X, Y), strict=True):
        assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-90, 1e80])
@pytest.mark.parametrize("m", [2, 3])
def test_nor_does_the_scale_of_the_points(scale, m):
    X, Y = linear_views()
    views = [X, Y, X[:, 1:]][:m]
    plain = KernelCCA(n_components=1, kernel="linear").fit_transform(views)
    scaled = KernelCCA(n_components=1, kernel="linear").fit([scale * view for view in views])
    found = scaled.transform([scale * view for view in views])
    assert_allclose(np.hstack(found), np.hstack(plain), atol=1e-9)
    assert 0 < scaled.result_.gap < 1e-10


def test_views_that_hardly_correlate_are_permuted():
    """LAPACK's search for the largest of many equal eigenvalues fails."""
    views = [np.random.RandomState(v).normal(size=(30, 2)) for v in range(3)]
    cca = KernelCCA(n_components=1, regularization=1e15).fit(views)
    assert cca.permutation_test(9, random_state=0).pvalue == 1.0


def test_loo_takes_the_best_of_its_grid():
    X, Y = hidden(60, noise=0.3)
    cca = KernelCCA(1, regularization="loo").fit(X, Y)
    assert cca.regularization_ in REGULARIZATIONS
    assert cca.loo_scores_.shape == cca.regularizations_.shape
    best = np.argmax(cca.loo_scores_)
    assert cca.regularization_ == cca.regularizations_[best]
    fixed = KernelCCA(1, regularization=cca.regularization_).fit(X, Y)
    assert_allclose(fixed.canonical_correlations_, cca.canonical_correlations_)


def test_loo_scores_are_near_those_of_refitting():
    """The penalty is held while a point is away, so refitting agrees to about 1/n, not exactly."""
    X, Y = hidden(30, noise=0.3)
    cca = KernelCCA(1, gamma=0.5, regularization="loo").fit(X, Y)
    for i, rho in enumerate(REGULARIZATIONS[4::3]):
        pairs = []
        for left_out in range(30):
            kept = np.delete(np.arange(30), left_out)
            model = KernelCCA(1, gamma=0.5, regularization=rho).fit(X[kept], Y[kept])
            pairs.append(np.ravel(model.transform(X[[left_out]], Y[[left_out]])))
        a, b = np.transpose(pairs)
        refitted = a @ b / np.sqrt((a @ a) * (b @ b))
        assert cca.loo_scores_[4::3][i] == pytest.approx(refitted, abs=0.02)


def test_loo_avoids_overfitting():
    X, Y = hidden(80, noise=0.5)
    new = hidden(400, seed=1, noise=0.5)
    chosen = KernelCCA(1, regularization="loo").fit(X, Y)
    loose = KernelCCA(1, regularization=1e-8).fit(X, Y)
    assert chosen.score(*new) > loose.score(*new) + 0.1


def three_views(n=60, seed=0):
    rng = np.random.RandomState(seed)
    t = rng.normal(size=(n, 1))
    return [
        np.hstack([t + 0.3 * rng.normal(size=(n, 1)), rng.normal(size=(n, d))]) for d in (1, 2, 3)
    ]


def test_three_views_equal_the_generalised_eigenproblem():
    views = three_views()
    cca = KernelCCA(2, kernel="rbf", gamma=0.2, regularization=0.1).fit(views)
    expected = generalised_eigenproblem([K.RBF(0.2)(X) for X in views], 0.1)
    assert_allclose(cca.canonical_correlations_, expected[:2], rtol=1e-6)
    variates = cca.transform(views)
    assert [z.shape for z in variates] == [(60, 2)] * 3
    assert cca.score(three_views(seed=1)) > 0.4
    assert cca.permutation_test(49, random_state=0).pvalue == pytest.approx(0.02)
    assert_allclose(cca.transform(views[0]), variates[0])


def test_linear_maxvar_is_the_leading_eigenvalue_of_the_projectors():
    """Carroll: mu is the top eigenvalue of the sum of the views' projection matrices."""
    views = three_views()
    bases = [np.linalg.qr(X - X.mean(axis=0))[0] for X in views]
    mu = np.linalg.eigvalsh(sum(Q @ Q.T for Q in bases))[::-1][:2]
    cca = KernelCCA(2, kernel="linear", regularization=1e-12).fit(views)
    assert_allclose(cca.canonical_correlations_, (mu - 1) / 2, rtol=1e-8)


def test_a_list_of_two_views_is_the_same_as_two_arguments():
    X, Y = hidden(40)
    listed, given = KernelCCA().fit([X, Y]), KernelCCA().fit(X, Y)
    assert_allclose(listed.canonical_correlations_, given.canonical_correlations_)
    for a, b in zip(listed.transform([X, Y]), given.transform(X, Y), strict=True):
        assert_allclose(a, b)
    assert listed.score([X, Y]) == pytest.approx(given.score(X, Y))
    assert isinstance(listed.fit_transform([X, Y]), tuple)


def test_three_views_with_loo():
    cca = KernelCCA(1, regularization="loo").fit(three_views(30))
    assert cca.regularization_ in REGULARIZATIONS
    assert np.max(cca.loo_scores_) > 0.4


def test_a_kernel_per_view_and_structured_views():
    rng = np.random.RandomState(0)
    counts = rng.randint(0, 7, size=60)
    words = ["ab" * c + "cd" * (6 - c) for c in counts]
    X = counts[:, None] + 0.1 * rng.normal(size=(60, 1))
    kernels = [K.RBF(0.2), K.Spectrum(2).normalize()]
    cca = KernelCCA(1, kernel=kernels, regularization=0.05).fit(X[:40], words[:40])
    assert cca.score(X[40:], words[40:]) > 0.9
    a, b = cca.fit_transform(X, words)
    assert a.shape == b.shape == (60, 1)
    swapped = KernelCCA(1, kernel=kernels[::-1], regularization=0.05).fit(words, X)
    assert_allclose(swapped.canonical_correlations_, cca.canonical_correlations_, rtol=1e-8)


def test_graphs_as_a_view():
    """Rings against their sizes, and paths: a graph is told by its number of nodes."""
    rng = np.random.RandomState(0)
    sizes = rng.randint(3, 9, size=40)
    rings = [
        (np.eye(n, k=1) + np.eye(n, k=-1) + np.eye(n, k=n - 1) + np.eye(n, k=1 - n)).clip(0, 1)
        for n in sizes
    ]
    X = sizes[:, None] + 0.1 * rng.normal(size=(40, 1))
    kernels = [K.RBF(0.2), K.ShortestPath().normalize()]
    for solver in ("dense", "low_rank"):
        cca = KernelCCA(1, kernel=kernels, regularization=0.01, solver=solver)
        cca.fit(X[:30], rings[:30])
        assert cca.score(X[30:], rings[30:]) > 0.9
        three = KernelCCA(1, kernel=[*kernels, "linear"], regularization=0.01, solver=solver)
        assert three.fit([X, rings, X**2]).canonical_correlations_[0] > 0.8
        assert three.permutation_test(9, random_state=0).pvalue == pytest.approx(0.1)


def test_parameters_per_view():
    X, Y = hidden(30)
    cca = KernelCCA(kernel=["rbf", K.Linear()], gamma=[0.7, None]).fit(X, Y)
    assert cca.views_[0].kernel_.gamma == 0.7
    assert isinstance(cca.views_[1].kernel_, K.Linear)
    with pytest.raises(ValueError, match="kernel has 3 entries for 2 views"):
        KernelCCA(kernel=["rbf"] * 3).fit(X, Y)


def test_precomputed_equals_the_kernel():
    X, Y = hidden(60)
    kernel = K.RBF(0.5)
    train, test = slice(0, 40), slice(40, 60)
    direct = KernelCCA(2, kernel=kernel).fit(X[train], Y[train])
    given = KernelCCA(2, kernel="precomputed").fit(kernel(X[train]), kernel(Y[train]))
    new = given.transform(kernel(X[test], X[train]), kernel(Y[test], Y[train]))
    for a, b in zip(new, direct.transform(X[test], Y[test]), strict=True):
        assert_allclose(a, b, atol=1e-8)


def test_sparse_equals_dense():
    X, Y = hidden(40)
    X = np.where(X > 0, X, 0)
    dense = KernelCCA(2).fit(X, Y)
    sparse = KernelCCA(2).fit(sp.csr_array(X), sp.csr_array(Y))
    assert_allclose(sparse.canonical_correlations_, dense.canonical_correlations_, rtol=1e-8)
    assert_allclose(sparse.transform(sp.csr_array(X)), dense.transform(X), atol=1e-6)


def test_the_smaller_rank_limits_the_components():
    X, Y = hidden(40)
    cca = KernelCCA(5, kernel=["rbf", "linear"]).fit(X, Y[:, :1])
    assert cca.n_components_ == 1
    assert cca.transform(X).shape == (40, 1)
    assert cca.get_feature_names_out().tolist() == ["kernelcca0"]


def test_duplicated_points_and_columns():
    X, Y = linear_views(30)
    once = KernelCCA(2, kernel="linear", regularization=0.01).fit(X, Y)
    rows = KernelCCA(2, kernel="linear", regularization=0.01).fit(
        np.tile(X, (3, 1)), np.tile(Y, (3, 1))
    )
    columns = KernelCCA(2, kernel="linear", regularization=0.01).fit(np.tile(X, 2), np.tile(Y, 2))
    assert_allclose(rows.canonical_correlations_, once.canonical_correlations_, rtol=1e-8)
    assert_allclose(columns.canonical_correlations_, once.canonical_correlations_, rtol=1e-8)
    constant = np.hstack([X, np.ones((30, 1))])
    padded = KernelCCA(2, kernel="linear", regularization=0.01).fit(constant, Y)
    assert_allclose(padded.canonical_correlations_, once.canonical_correlations_, rtol=1e-8)


def test_two_points_and_a_constant_view():
    two = KernelCCA(kernel="linear", regularization=0.5).fit([[0.0], [1.0]], [[5.0], [3.0]])
    # One direction, K = tr(K), so K / (K + 0.5 tr(K)) = 1 / 1.5.
    assert_allclose(two.canonical_correlations_, [1 / 1.5])
    with pytest.raises(ValueError, match="Y is constant"):
        KernelCCA().fit([[0.0], [1.0]], [[2.0], [2.0]])
    with pytest.raises(ValueError, match="regularization='loo' needs at least 3"):
        KernelCCA(regularization="loo").fit([[0.0], [1.0]], [[2.0], [3.0]])


def test_swapping_the_views_swaps_the_answers():
    X, Y = hidden(40)
    one, other = KernelCCA(2).fit(X, Y), KernelCCA(2).fit(Y, X)
    assert_allclose(one.canonical_correlations_, other.canonical_correlations_, rtol=1e-9)
    assert_allclose(np.abs(one.transform(X, Y)[0]), np.abs(other.transform(Y, X)[1]), atol=1e-7)


def test_a_vector_is_one_column_and_a_target():
    X, Y = hidden(40)
    y = Y[:, 0]
    vector, column = KernelCCA(1).fit(X, y), KernelCCA(1).fit(X, Y[:, :1])
    assert_allclose(vector.canonical_correlations_, column.canonical_correlations_)
    assert isinstance(vector.transform(X, y), tuple)
    assert isinstance(KernelCCA(1).fit_transform(X, Y), tuple)
    # A pipeline hands over a target as a vector and wants one array back.
    assert_allclose(KernelCCA(1).fit_transform(X, y), vector.transform(X))
    assert_allclose(KernelCCA(1).fit(X, y=y).transform(X), vector.transform(X))
    pipeline = make_pipeline(StandardScaler(), KernelCCA(1), Ridge())
    assert pipeline.fit(X, y).predict(X).shape == (40,)


def test_an_ill_conditioned_problem_warns():
    x = np.linspace(0, 1, 40)[:, None]
    with pytest.warns(ConvergenceWarning, match="regularization"):
        KernelCCA(9, gamma=[1.0, 1.5], regularization=0.0).fit(x, x)


def test_errors_name_the_argument():
    X, Y = hidden(20)
    with pytest.raises(ValueError, match="requires y to be passed"):
        KernelCCA().fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelCCA().fit(X, Y[:-1])
    with pytest.raises(TypeError, match="two names"):
        KernelCCA().fit(X, Y, y=Y)
    with pytest.raises(ValueError, match="NaN"):
        KernelCCA().fit(X, np.full_like(Y, np.nan))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        KernelCCA(kernel=["rbf", K.Sigmoid()]).fit(X, Y)
    for wrong in ({"regularization": -1.0}, {"regularization": "gcv"}, {"n_components": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            KernelCCA(**wrong).fit(X, Y)
    cca = KernelCCA().fit(X, Y)
    with pytest.raises(ValueError, match="every view"):
        cca.score(X)
    with pytest.raises(ValueError, match="at least 2 points"):
        cca.score(X[:1], Y[:1])
    with pytest.raises(ValueError, match="fitted on 3 views and found 2"):
        KernelCCA().fit([X, Y, Y]).transform(X, Y)


def test_an_indefinite_kernel_can_be_corrected():
    X, Y = hidden(40)
    kernel = K.Sigmoid(gamma=1.0, coef0=-1.0)
    cca = KernelCCA(1, kernel=kernel, indefinite="clip").fit(X, Y)
    clipped = [(U * np.maximum(w, 0)) @ U.T for w, U in (np.linalg.eigh(kernel(A)) for A in (X, Y))]
    given = KernelCCA(1, kernel="precomputed").fit(*clipped)
    assert_allclose(cca.canonical_correlations_, given.canonical_correlations_, rtol=1e-8)
    for a, b in zip(cca.transform(X, Y), given.transform(*clipped), strict=True):
        assert_allclose(a, b, atol=1e-7)


def test_data_frames_and_set_output():
    X, Y = hidden(30)
    frame = pd.DataFrame(X, columns=["p", "q"])
    cca = KernelCCA(2).set_output(transform="pandas").fit(frame, pd.DataFrame(Y))
    assert list(cca.feature_names_in_) == ["p", "q"]
    assert list(cca.transform(frame).columns) == ["kernelcca0", "kernelcca1"]


def test_in_a_search():
    X, Y = hidden(60)
    grid = {"regularization": [1e-6, 0.05], "kernel__gamma": [0.5, 50.0]}
    search = GridSearchCV(KernelCCA(1, kernel=K.RBF(1.0)), grid, cv=3).fit(X, Y)
    assert search.best_params_ == {"regularization": 0.05, "kernel__gamma": 0.5}
    assert clone(search.best_estimator_).kernel.gamma == 0.5


def test_on_real_data_petals_and_sepals():
    X = StandardScaler().fit_transform(datasets.load_iris().data)
    sepals, petals = X[:, :2], X[:, 2:]
    order = np.random.RandomState(0).permutation(150)
    train, test = order[:100], order[100:]
    cca = KernelCCA(1, kernel="rbf", regularization="loo").fit(sepals[train], petals[train])
    plain = CCA(n_components=1).fit(sepals[train], petals[train])
    a, b = plain.transform(sepals[test], petals[test])
    assert cca.score(sepals[test], petals[test]) >= np.corrcoef(a[:, 0], b[:, 0])[0, 1] - 0.02
    assert cca.permutation_test(99, random_state=0).pvalue == pytest.approx(0.01)


def test_choosing_the_regulariser_does_not_make_pvalues_too_small():
    pvalues = []
    for seed in range(12):
        X, Y = noise(15, seed)
        chosen = KernelCCA(1, regularization="loo").fit(X, Y)
        outcome = chosen.permutation_test(19, random_state=seed)
        assert outcome.statistic == pytest.approx(chosen.canonical_correlations_[0])
        assert outcome.null_distribution.shape == (19,)
        pvalues.append(outcome.pvalue)
    assert 0.3 < np.mean(pvalues) < 0.8
    assert np.sum(np.array(pvalues) <= 0.1) <= 3


@pytest.mark.parametrize("listed", [False, True])
def test_errors_name_the_class_and_the_view(listed):
    rng = np.random.default_rng(0)
    X, Y, Z = (rng.normal(size=(20, d)) for d in (3, 2, 2))
    hole = Y.copy()
    hole[4, 1] = np.nan
    views = [X, hole, Z] if listed else [X, hole]
    given = (views,) if listed else views
    with pytest.raises(ValueError, match=r"^Y has a missing value .* at row 4, column 1"):
        KernelCCA().fit(*given)
    with pytest.raises(ValueError, match=r"^Y has the text 'a' at row 0"):
        KernelCCA().fit(X, ["a"] * 20)
    with pytest.raises(ValueError, match="required by KernelCCA"):
        KernelCCA().fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="and KernelCCA needs a valid kernel"):
        KernelCCA(kernel=K.Sigmoid()).fit(X, Y)
    given = ([X, Y, Z],) if listed else (X, Y)
    model = KernelCCA().fit(*given)
    narrow = ([X, Y, Z[:, :1]],) if listed else (X, Y[:, :1])
    name = "view 2" if listed else "Y"
    with pytest.raises(ValueError, match=f"^{name} has 1 features, but KernelCCA is expecting 2"):
        model.transform(*narrow)
    short = ([X, Y, Z[:5]],) if listed else (X, Y[:5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(*short)


def test_names_of_columns_are_asked_for_in_the_name_of_the_class():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    model = KernelCCA().fit(X, Y)
    with pytest.warns(UserWarning, match="KernelCCA was fitted with feature names"):
        model.transform(X, Y.to_numpy())
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X, Y)[1], model.transform(X, Y)[1])
