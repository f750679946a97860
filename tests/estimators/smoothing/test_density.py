"""KernelDensity against the notes' formulas, slow sums and scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from scipy import stats
from scipy.special import gammaln, logsumexp
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as Peer
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.smoothing.density import KernelDensity
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS

SHARED = ["gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"]


def points(n=60, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@parametrize_with_checks([KernelDensity()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_scikit_learns_parameters_are_taken():
    X, Z = points(), points(5, seed=1)
    expected = Peer().fit(X).score_samples(Z)
    parameters = Peer().get_params()
    assert set(parameters) <= set(KernelDensity().get_params())
    for other in ({}, {"algorithm": "ball_tree", "leaf_size": 5, "breadth_first": False}):
        ours = KernelDensity(**{**parameters, **other}).fit(X)
        np.testing.assert_allclose(ours.score_samples(Z), expected)
    for wrong in ({"metric": "manhattan"}, {"metric_params": {"p": 3}}):
        for method in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=r"only 'euclidean' is there.*bandwidth=H"):
                getattr(KernelDensity(**wrong), method)(X)
    with pytest.raises(ValueError, match="'algorithm' parameter"):
        KernelDensity(algorithm="brute").fit(X)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_rules_are_scikit_learns_times_the_standard_deviations(rule):
    X = points() * [1.0, 100.0]
    theirs = Peer(bandwidth=rule).fit(X).bandwidth_
    ours = KernelDensity(bandwidth=rule).fit(X).bandwidth_
    np.testing.assert_allclose(ours, X.std(axis=0, ddof=1) * theirs)


@pytest.mark.parametrize(
    ("kernel", "d"),
    # scikit-learn 1.9's cosine kernel does not integrate to one in even dimensions: its sum by
    # parts leaves out a boundary term.
    [(kernel, d) for kernel in SHARED for d in (1, 2, 3, 10) if kernel != "cosine" or d % 2],
)
@pytest.mark.parametrize("h", [0.4, 2.5])
def test_equals_scikit_learn(kernel, d, h):
    X, Z = points(d=d), points(25, d, seed=1)
    weight = np.random.default_rng(2).uniform(0.1, 2, size=len(X))
    for w in (None, weight):
        ours = KernelDensity(bandwidth=h, kernel=kernel).fit(X, sample_weight=w)
        peer = Peer(bandwidth=h, kernel=kernel, rtol=0).fit(X, sample_weight=w)
        np.testing.assert_allclose(ours.score_samples(Z), peer.score_samples(Z), rtol=1e-8)
    assert ours.score(X) == pytest.approx(peer.score(X))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_hypercube_counts_points(d):
    """The notes: K points in a cube of side h, p = K / (N h^D)."""
    X, Z, h = points(200, d), points(30, d, seed=1), 0.8
    K_count = np.array([sum(np.all(np.abs(z - x) <= h / 2) for x in X) for z in Z])
    kde = KernelDensity(kernel="hypercube", bandwidth=h).fit(X)
    np.testing.assert_allclose(kde.pdf(Z), K_count / (len(X) * h**d))
    # K ~ Bin(N, P): variance N P (1 - P).
    P = K_count / len(X)
    np.testing.assert_allclose(
        kde.standard_error(Z), np.sqrt(P * (1 - P) / len(X)) / h**d, atol=1e-15
    )


def test_point_on_the_boundary_of_the_cube_counts():
    kde = KernelDensity(kernel="hypercube", bandwidth=2.0).fit([[0.0], [1.0], [5.0]])
    np.testing.assert_allclose(kde.pdf([[2.0], [-1.0], [2.1]]), [1 / 6, 1 / 6, 0])


def test_standard_error_is_the_spread_over_samples():
    rng = np.random.default_rng(0)
    z, n = [[0.3]], 400
    for kernel in ("hypercube", "gaussian", "tophat"):
        fits = [KernelDensity(kernel=kernel).fit(rng.normal(size=(n, 1))) for _ in range(300)]
        spread = np.std([fit.pdf(z)[0] for fit in fits])
        assert np.mean([fit.standard_error(z)[0] for fit in fits]) == pytest.approx(spread, rel=0.2)


def test_standard_error_counts_equal_weights_as_none():
    X, Z = points(), points(5, seed=3)
    plain = KernelDensity().fit(X).standard_error(Z)
    weighted = KernelDensity().fit(X, sample_weight=np.full(60, 7.0))
    np.testing.assert_allclose(weighted.standard_error(Z), plain)
    assert KernelDensity(kernel="tophat").fit(X).standard_error([[99.0, 99.0]]) == 0
    assert KernelDensity().fit(X[:1]).standard_error(Z).max() == 0


@pytest.mark.parametrize("d", [1, 2, 5])
def test_gaussian_formula_with_the_right_constant(d):
    X, Z, h = points(d=d), points(10, d, seed=1), 0.7
    squared = ((Z[:, None] - X) ** 2).sum(axis=2)
    expected = np.exp(-squared / (2 * h**2)).mean(axis=1) / (2 * np.pi * h**2) ** (d / 2)
    np.testing.assert_allclose(KernelDensity(bandwidth=h).fit(X).pdf(Z), expected)


def test_matrix_bandwidth_is_a_mixture_of_normals():
    X, Z = points(), points(12, seed=1)
    H = np.array([[0.5, 0.2], [0.2, 0.3]])
    expected = np.mean([stats.multivariate_normal(x, H).pdf(Z) for x in X], axis=0)
    np.testing.assert_allclose(KernelDensity(bandwidth=H).fit(X).pdf(Z), expected)


def test_forms_of_bandwidth_agree():
    X, Z = points(), points(12, seed=1)
    for kernel in ("epanechnikov", "exponential"):
        number = KernelDensity(kernel=kernel, bandwidth=0.6).fit(X)
        vector = KernelDensity(kernel=kernel, bandwidth=[0.6, 0.6]).fit(X)
        matrix = KernelDensity(kernel=kernel, bandwidth=0.36 * np.eye(2)).fit(X)
        np.testing.assert_allclose(vector.score_samples(Z), number.score_samples(Z))
        np.testing.assert_allclose(matrix.score_samples(Z), number.score_samples(Z), rtol=1e-6)
    assert number.bandwidth_ == 0.6
    assert vector.bandwidth_.shape == (2,)
    assert matrix.bandwidth_.shape == (2, 2)


@pytest.mark.parametrize("kernel", sorted(SMOOTHING_KERNELS))
def test_integrates_to_one(kernel):
    """A mixture over two points in the plane, on a fine grid."""
    kde = KernelDensity(kernel=kernel, bandwidth=[0.5, 1.0]).fit([[0.0, 0.0], [0.4, 1.0]])
    reach = 12 if kernel == "exponential" else 6
    grid = np.linspace(-reach, reach, 601)
    Z = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    assert kde.pdf(Z).sum() * (grid[1] - grid[0]) ** 2 == pytest.approx(1, abs=0.02)


def test_function_of_the_users_equals_the_named_kernel():
    X, Z = points(), points(12, seed=1)

    def normal(u):
        return np.exp(-0.5 * (u**2).sum(axis=-1)) / (2 * np.pi)

    ours = KernelDensity(kernel=normal, bandwidth=[0.5, 0.8]).fit(X)
    named = KernelDensity(bandwidth=[0.5, 0.8]).fit(X)
    np.testing.assert_allclose(ours.score_samples(Z), named.score_samples(Z))
    assert ours.sample(5, random_state=0).shape == (5, 2)
    with pytest.raises(ValueError, match="integrates to"):
        KernelDensity(kernel=normal).fit(X[:, :1])


@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_far_away_is_finite(kernel):
    kde = KernelDensity(kernel=kernel, bandwidth=1e-3).fit(points())
    log_p = kde.score_samples([[1e6, 1e6]])
    assert np.isfinite(log_p).all()
    assert log_p[0] < -1e8
    assert kde.pdf([[1e6, 1e6]]) == 0


def test_out_of_reach_is_minus_infinity():
    for kernel in ("hypercube", "tophat", "epanechnikov", "triangular", "cosine", "triweight"):
        kde = KernelDensity(kernel=kernel).fit(points())
        assert kde.score_samples([[50.0, 0.0]]) == -np.inf
        assert kde.pdf([[50.0, 0.0]]) == 0


def test_high_dimension_stays_in_the_log_domain():
    d = 2000
    X = np.random.default_rng(0).normal(size=(5, d))
    log_p = KernelDensity(bandwidth=1e-2).fit(X).score_samples(X)
    own = -np.log(5) - d / 2 * np.log(2 * np.pi) - d * np.log(1e-2)
    np.testing.assert_allclose(log_p, own)


def test_large_offset_and_near_duplicates():
    X = np.arange(12.0).reshape(4, 3) / 8
    Z = X + 2.0**-10
    here = KernelDensity(bandwidth=2.0**-9).fit(X).score_samples(Z)
    there = KernelDensity(bandwidth=2.0**-9).fit(X + 2.0**20).score_samples(Z + 2.0**20)
    np.testing.assert_allclose(there, here)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "hypercube"])
def test_rules_are_equivariant(rule, kernel):
    X = points()
    one = KernelDensity(bandwidth=rule, kernel=kernel).fit(X)
    thousand = KernelDensity(bandwidth=rule, kernel=kernel).fit(1000 * X)
    np.testing.assert_allclose(thousand.bandwidth_, 1000 * one.bandwidth_)
    np.testing.assert_allclose(thousand.pdf(1000 * X), one.pdf(X) / 1000**2)


def test_rules_smooth_alike_whatever_the_kernel():
    """bandwidth_ times the kernel's own standard deviation is the same for all."""
    X = points(300, 1)
    fits = {k: KernelDensity(bandwidth="scott", kernel=k).fit(X) for k in SMOOTHING_KERNELS}
    widths = [f.bandwidth_ * np.sqrt(SMOOTHING_KERNELS[k].variance(1)) for k, f in fits.items()]
    np.testing.assert_allclose(widths, X.std(ddof=1) * 300 ** (-1 / 5))
    assert isinstance(fits["gaussian"].bandwidth_, float)


def test_a_constant_column_of_many_rows_is_named():
    X = points(n=1000, d=3)
    X[:, 1] = 0.1
    with pytest.raises(ValueError, match="column 1 of X has none"):
        KernelDensity(bandwidth="scott").fit(X)


def test_rules_refuse_constant_columns_and_single_points():
    X = np.column_stack([np.arange(5.0), np.full(5, 0.1)])
    with pytest.raises(ValueError, match="column 1 of X"):
        KernelDensity(bandwidth="scott").fit(X)
    with pytest.raises(ValueError, match="column 0 of X"):
        KernelDensity(bandwidth="silverman").fit(X[:1])


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", sorted(SMOOTHING_KERNELS))
def test_draws_follow_the_density(kernel, d):
    centres = np.array([np.zeros(d), np.full(d, 3.0)])
    h = np.linspace(0.5, 1.5, d)
    kde = KernelDensity(kernel=kernel, bandwidth=h).fit(centres, sample_weight=[1, 3])
    draws = kde.sample(4000, random_state=0)
    assert np.array_equal(draws, kde.sample(4000, random_state=0))
    variance = h**2 * SMOOTHING_KERNELS[kernel].variance(d) + 9 * 3 / 16
    np.testing.assert_allclose(draws.mean(axis=0), 9 / 4, atol=5 * np.sqrt(variance.max() / 4000))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.15)


def test_draws_with_a_matrix_bandwidth():
    H = np.array([[1.0, 0.8], [0.8, 2.0]])
    draws = KernelDensity(bandwidth=H).fit([[5.0, -5.0]]).sample(6000, random_state=0)
    np.testing.assert_allclose(np.cov(draws.T), H, atol=0.12)


def test_weights_are_repetitions():
    X, Z = points(20), points(8, seed=1)
    w = np.random.default_rng(0).integers(0, 4, size=20)
    weighted = KernelDensity(bandwidth=0.5).fit(X, sample_weight=w)
    repeated = KernelDensity(bandwidth=0.5).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.score_samples(Z), repeated.score_samples(Z))
    assert len(weighted.X_fit_) == (w > 0).sum()


def test_one_point_in_one_dimension():
    kde = KernelDensity().fit([[2.0]])
    np.testing.assert_allclose(kde.pdf([[2.0], [3.0]]), stats.norm(2, 1).pdf([2, 3]))
    assert kde.sample(random_state=0).shape == (1, 1)


def test_memory_budget_does_not_change_the_answer():
    X, Z = points(300), points(200, seed=1)
    kde = KernelDensity(bandwidth=0.3).fit(X)
    whole = kde.score_samples(Z)
    with sklearn.config_context(working_memory=0.05):
        np.testing.assert_allclose(kde.score_samples(Z), whole, rtol=1e-13)
        assert kde.standard_error(Z).shape == (200,)


def test_volume_of_the_tophat():
    d, h = 4, 0.7
    kde = KernelDensity(kernel="tophat", bandwidth=h).fit(np.zeros((1, d)))
    log_ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1) + d * np.log(h)
    assert kde.score_samples(np.zeros((1, d)))[0] == pytest.approx(-log_ball)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"bandwidth": 0}, ValueError, "bandwidth"),
        ({"bandwidth": -1.0}, ValueError, "bandwidth"),
        ({"bandwidth": np.inf}, ValueError, "bandwidth"),
        ({"bandwidth": [1.0, np.inf]}, ValueError, "finite"),
        ({"bandwidth": "best"}, ValueError, "bandwidth"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, ValueError, "shape"),
        ({"bandwidth": [[1.0, 3.0], [3.0, 1.0]]}, ValueError, "positive definite"),
        ({"bandwidth": np.eye(2), "kernel": "hypercube"}, ValueError, "radial kernel"),
        ({"kernel": "rbf"}, ValueError, "kernel"),
        ({"kernel": 3}, TypeError, "kernel"),
        ({"kernel": K.RBF()}, TypeError, "Mercer kernel"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        KernelDensity(**parameters).fit(points())


def test_bad_data():
    kde = KernelDensity()
    with pytest.raises(ValueError, match=r"NaN. at row 0, column 0"):
        kde.fit([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="infinite value at row 0, column 0"):
        kde.fit([[np.inf, 1.0]])
    with pytest.raises(ValueError, match="minimum of 1"):
        kde.fit(np.empty((0, 2)))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        kde.fit(points(), sample_weight=np.full(60, -1.0))
    kde.fit(points())
    with pytest.raises(ValueError, match="3 features"):
        kde.score_samples(points(d=3))
    with pytest.raises(ValueError, match="n_samples"):
        kde.sample(0)


def test_pickle_and_grid_search():
    X = load_iris().data
    search = GridSearchCV(KernelDensity(), {"bandwidth": [0.05, 0.3, 5.0], "kernel": ["gaussian"]})
    best = search.fit(X).best_estimator_
    assert best.bandwidth == 0.3
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.score_samples(X), best.score_samples(X))


LOG_PROFILES = {
    "gaussian": lambda r2, d: -0.5 * r2 - d / 2 * np.log(2 * np.pi),
    "exponential": lambda r2, d: (
        -np.sqrt(r2) - np.log(2) - d / 2 * np.log(np.pi) + gammaln(d / 2) - gammaln(d)
    ),
}


@pytest.mark.parametrize("kernel", LOG_PROFILES)
@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_sums_in_tiles_equal_the_sum_written_out(kernel, d, offset, monkeypatch):
    def refuse(self, U, V):
        raise AssertionError("all pairs at once")

    monkeypatch.setattr(type(SMOOTHING_KERNELS[kernel]), "log_pairs", refuse)
    X, Z, h = points(300, d) + offset, points(40, d, seed=1) + offset, 0.3
    Z[:3] += [[30.0], [1e3], [1e6]]  # where every exponential underflows
    weight = np.random.default_rng(2).uniform(0, 2, size=300)
    kde = KernelDensity(kernel=kernel, bandwidth=h).fit(X, sample_weight=weight)
    w = weight / weight.sum()
    r2 = (((Z[:, None] - X) / h) ** 2).sum(axis=2)
    log_k = LOG_PROFILES[kernel](r2, d) - d * np.log(h)
    expected = logsumexp(log_k, b=w, axis=1)
    np.testing.assert_allclose(kde.score_samples(Z), expected, rtol=1e-10)
    mean = np.exp(expected)
    variance = np.sum(w * (np.exp(log_k) - mean[:, None]) ** 2, axis=1)
    error = np.sqrt(variance * np.sum(w**2))
    np.testing.assert_allclose(kde.standard_error(Z), error, rtol=1e-8, atol=1e-290)


def test_weights_whose_sum_is_no_number_are_refused():
    with pytest.raises(ValueError, match="give smaller weights"):
        KernelDensity().fit([[0.0], [1.0]], sample_weight=[1e308, 1e308])


def test_given_values_must_be_finite():
    kde = KernelDensity().fit(np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(ValueError, match="finite"):
        kde.conditional({0: np.nan})
