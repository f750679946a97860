"""Gaussian process regression against scikit-learn, kernel ridge, and formulas written out."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
from sklearn.gaussian_process import kernels as S
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GaussianProcessRegressor, KernelRidge
from mercer import kernels as K

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=40)
NEW = RNG.normal(size=(9, 2))
LINE = np.sort(RNG.uniform(0, 6, size=(30, 1)), axis=0)
WAVE = np.sin(3 * LINE[:, 0]) + 0.1 * RNG.normal(size=30)

CONVERTED = {
    "rbf": 1.5 * S.RBF(0.7),
    "rbf of scales": S.ConstantKernel(2.0, (0.1, 10)) * S.RBF([0.5, 2.0], (1e-2, 1e2)),
    "matern 1/2": S.Matern(0.9, nu=0.5) + S.WhiteKernel(0.2),
    "matern 3/2": S.Matern([0.9, 1.1], nu=1.5),
    "matern 5/2": S.Matern(0.9, "fixed", nu=2.5) * S.ConstantKernel(3.0),
    "matern inf": S.Matern(0.9, nu=np.inf),
    "rational quadratic": S.RationalQuadratic(0.8, 1.7) + S.WhiteKernel(0.1, "fixed"),
    "rational quadratic, fixed": S.RationalQuadratic(0.8, 1.7, alpha_bounds="fixed"),
    "dot product": S.DotProduct(0.7) + S.WhiteKernel(0.3),
    "dot product, fixed": S.DotProduct(0.7, "fixed") ** 2 + S.WhiteKernel(0.3),
    "power": S.RBF(0.5) ** 3 + S.WhiteKernel(0.3),
    "white in a product": S.ConstantKernel(2.0) * (S.RBF(1.0) + S.WhiteKernel(0.3)),
    "white squared": (S.RBF(1.0) + S.WhiteKernel(0.3)) ** 2,
}


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("normalize", [False, True])
def test_kernels_of_scikit_learn_give_its_numbers(name, normalize):
    given = {"kernel": CONVERTED[name], "alpha": 0.05, "normalize_y": normalize}
    theirs = Theirs(**given, optimizer=None).fit(X, Y)
    ours = GaussianProcessRegressor(**given, optimizer=None).fit(X, Y)
    assert ours.posterior_.prior.kernel is not None  # converted, not used as it is
    theta = theirs.kernel_.theta
    np.testing.assert_allclose(ours.posterior_.prior.theta, theta, atol=1e-12)
    np.testing.assert_allclose(ours.posterior_.prior.bounds, theirs.kernel_.bounds.reshape(-1, 2))
    for at in (theta, theta + 0.3):
        found = ours.log_marginal_likelihood(at, eval_gradient=True)
        expected = theirs.log_marginal_likelihood(at, eval_gradient=True)
        assert found[0] == pytest.approx(expected[0], rel=1e-9)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-8)
    for both in zip(
        ours.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        ours.predict(NEW, return_cov=True)[1], theirs.predict(NEW, return_cov=True)[1], atol=1e-8
    )
    np.testing.assert_allclose(ours.L_, theirs.L_, atol=1e-9)
    np.testing.assert_allclose(ours.alpha_, theirs.alpha_, rtol=1e-6, atol=1e-8)
    assert ours.kernel_ == theirs.kernel_


def test_a_periodic_kernel_of_scikit_learn():
    kernel = S.ExpSineSquared(0.8, 2.1) + S.WhiteKernel(0.1)
    theirs, ours = (each(kernel).fit(LINE, WAVE) for each in (Theirs, GaussianProcessRegressor))
    assert ours.posterior_.prior.kernel is not None
    value = ours.log_marginal_likelihood_value_
    assert value == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)
    # Of several features theirs is another function, which is used as it is.
    theirs, ours = (
        each(kernel, alpha=20.0, optimizer=None).fit(X, Y)
        for each in (Theirs, GaussianProcessRegressor)
    )
    assert ours.posterior_.prior.kernel is None
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-6)


@pytest.mark.parametrize(
    "kernel", [S.Matern(0.9, nu=0.7) + S.WhiteKernel(0.1), S.PairwiseKernel(0.5, metric="rbf")]
)
def test_kernels_without_a_counterpart_are_used_as_they_are(kernel):
    theirs, ours = (
        each(kernel, alpha=0.1, optimizer=None).fit(X, Y)
        for each in (Theirs, GaussianProcessRegressor)
    )
    theta = theirs.kernel_.theta
    found, slope = ours.log_marginal_likelihood(theta, eval_gradient=True)
    expected, theirs_slope = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    assert found == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(slope, theirs_slope, rtol=1e-3, atol=1e-4)
    for both in zip(
        ours.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(*both, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["rbf of scales", "dot product", "white squared"])
def test_the_evidence_found_is_as_good_as_theirs(name):
    theirs, ours = (
        each(CONVERTED[name], alpha=0.01, n_restarts_optimizer=1, random_state=0)
        for each in (Theirs, GaussianProcessRegressor)
    )
    found, expected = (each.fit(X, Y).log_marginal_likelihood_value_ for each in (ours, theirs))
    assert found > expected - 1e-4
    assert ours.result_.status.ok
    assert "best of 2 runs" in ours.result_.method


def test_the_mean_is_that_of_kernel_ridge():
    kernel = 1.3 * K.Matern(2.5, length_scale=0.8)
    model = GaussianProcessRegressor(kernel, noise=0.2, optimizer=None).fit(X, Y)
    ridge = KernelRidge(alpha=0.2 + 1e-10, kernel=kernel).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), ridge.predict(NEW), rtol=1e-8)
    np.testing.assert_allclose(model.alpha_, ridge.dual_coef_, rtol=1e-8)


def test_noise_is_learnt_as_by_a_white_kernel():
    ours = GaussianProcessRegressor(1.0 * K.Matern(np.inf), alpha=0, bounds={"noise": (1e-5, 1e5)})
    ours.fit(X, Y)
    theirs = Theirs(1.0 * S.RBF() + S.WhiteKernel(0.1), alpha=0).fit(X, Y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, abs=1e-4
    )
    assert ours.noise_ == pytest.approx(theirs.kernel_.k2.noise_level, rel=1e-2)
    np.testing.assert_allclose(
        ours.predict(NEW, return_std=True)[1], theirs.predict(NEW, return_std=True)[1], rtol=1e-2
    )
    of_function = ours.predict(NEW, return_std=True, include_noise=False)[1]
    whole = ours.predict(NEW, return_std=True)[1]
    np.testing.assert_allclose(whole**2 - of_function**2, ours.noise_, rtol=1e-8)
    assert set(ours.hyperparameters_) == {"left__value", "right__length_scale", "noise"}


def test_noise_given_as_a_number_or_learnt_for_their_kernels():
    fixed = GaussianProcessRegressor(S.RBF(), noise=0.3, optimizer=None).fit(X, Y)
    white = Theirs(S.RBF() + S.WhiteKernel(0.3), optimizer=None).fit(X, Y)
    for both in zip(
        fixed.predict(NEW, return_std=True), white.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(*both, rtol=1e-7)
    learnt = GaussianProcessRegressor(1.0 * S.RBF(), noise="learn").fit(X, Y)
    assert isinstance(learnt.kernel_, S.Product)
    assert 0.01 < learnt.noise_ < 0.5


def test_known_noise_of_each_point():
    alpha = np.linspace(0.01, 1, 40)
    kernel = 1.0 * K.RBF()
    model = GaussianProcessRegressor(kernel, alpha=alpha, noise=0.0, optimizer=None).fit(X, Y)
    C = kernel(X) + np.diag(alpha)
    np.testing.assert_allclose(model.predict(NEW), kernel(NEW, X) @ np.linalg.solve(C, Y))
    expected = multivariate_normal(np.zeros(40), C).logpdf(Y)
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected)


@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_a_mean_with_coefficients_is_that_of_generalised_least_squares(mean):
    shifted = Y + 5 + X @ [2.0, -1.0]
    kernel = 1.0 * K.RBF()
    model = GaussianProcessRegressor(kernel, noise=0.1, mean=mean, optimizer=None)
    model.fit(X, shifted)
    H = np.ones((40, 1)) if mean == "constant" else np.hstack([np.ones((40, 1)), X - X.mean(0)])
    inverse = np.linalg.inv(kernel(X) + 0.1 * np.eye(40))
    cov = np.linalg.inv(H.T @ inverse @ H)
    np.testing.assert_allclose(model.mean_coef_, cov @ H.T @ inverse @ shifted, rtol=1e-7)
    np.testing.assert_allclose(model.mean_coef_std_, np.sqrt(cov.diagonal()), rtol=1e-7)
    far = model.predict([[50.0, 0.0]], return_std=True)[1]
    assert far > np.sqrt(1.1)  # the prior's, and the coefficients'
    two = GaussianProcessRegressor(kernel, noise=0.1, mean=mean, optimizer=None, normalize_y=True)
    two.fit(X, np.stack([shifted, -3 * shifted], axis=1))
    assert two.mean_coef_.shape == two.mean_coef_std_.shape == (H.shape[1], 2)
    np.testing.assert_allclose(two.mean_coef_[:, 1], -3 * two.mean_coef_[:, 0])


def test_a_linear_mean_where_features_depend_on_each_other():
    wide = np.hstack([X, X[:, :1] - X[:, 1:], np.ones((40, 1))])
    model = GaussianProcessRegressor(1.0 * K.RBF(), mean="linear").fit(wide, Y)
    assert len(model.mean_coef_) == 3
    assert np.isfinite(model.predict(wide)).all()


def test_priors_move_what_is_found():
    free = GaussianProcessRegressor(1.0 * K.RBF()).fit(X, Y)
    held = GaussianProcessRegressor(1.0 * K.RBF(), priors={"right__gamma": (40.0, 0.01)}).fit(X, Y)
    assert held.hyperparameters_["right__gamma"] == pytest.approx(40, rel=0.05)
    assert held.log_marginal_likelihood_value_ < free.log_marginal_likelihood_value_
    with pytest.raises(ValueError, match=r"priors names 'gamma'.*'right__gamma'"):
        GaussianProcessRegressor(1.0 * K.RBF(), priors={"gamma": (1, 1)}).fit(X, Y)
    with pytest.raises(ValueError, match="median, spread"):
        GaussianProcessRegressor(1.0 * K.RBF(), priors={"noise": (1, -1)}).fit(X, Y)


def test_bounds_of_our_kernels():
    kernel = 2.0 * K.RBF(scales=[1.0, 1.0])
    model = GaussianProcessRegressor(
        kernel, bounds={"left__value": "fixed", "right__scales[0]": (0.1, 0.3)}
    )
    with pytest.warns(ConvergenceWarning, match="dimension 0 of parameter right__scales is close"):
        model.fit(X, Y)
    assert model.kernel_.left.value == 2.0
    assert model.kernel_.right.scales[0] == pytest.approx(0.3)
    for wrong in ({"gamma": (1, 2)}, {"noise": (2, 1)}, {"noise": "fixed"}):
        with pytest.raises(ValueError, match="bounds"):
            GaussianProcessRegressor(kernel, bounds=wrong).fit(X, Y)
    with pytest.raises(ValueError, match="length_scale_bounds"):
        GaussianProcessRegressor(S.RBF(), bounds={"length_scale": (1, 2)}).fit(X, Y)


def test_leave_one_out_is_that_of_fits_without_each_point():
    targets = np.stack([Y, Y**2], axis=1)
    for mean in ("zero", "constant"):
        model = GaussianProcessRegressor(
            1.0 * K.RBF(), noise=0.1, alpha=0.0, mean=mean, optimizer=None, normalize_y=True
        ).fit(X, targets)
        found = model.leave_one_out()
        for i in (0, 7):
            rest = np.arange(40) != i
            part = GaussianProcessRegressor(
                1.0 * K.RBF(), noise=0.1, alpha=0.0, mean=mean, optimizer=None
            )
            shift, scale = targets.mean(axis=0), targets.std(axis=0)
            part.fit(X[rest], ((targets - shift) / scale)[rest])
            centre, std = part.predict(X[[i]], return_std=True)
            centre, std = centre[0] * scale + shift, std[0] * scale
            np.testing.assert_allclose(found.mean[i], centre, rtol=1e-6)
            np.testing.assert_allclose(found.std[i], std, rtol=1e-6)
            density = norm(centre, std).logpdf(targets[i])
            np.testing.assert_allclose(found.log_density[i], density, rtol=1e-6)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_partial_fit_is_a_fit_on_all_points(mean):
    given = {"kernel": 1.0 * K.RBF(), "noise": 0.1, "optimizer": None, "alpha": 0.01}
    whole = GaussianProcessRegressor(**given, mean=mean).fit(X, Y)
    grown = GaussianProcessRegressor(**given, mean=mean)
    for rows in (slice(0, 25), slice(25, 26), slice(26, 40)):
        grown.partial_fit(X[rows], Y[rows])
    np.testing.assert_allclose(grown.L_, whole.L_, atol=1e-10)
    for both in zip(
        grown.predict(NEW, return_std=True), whole.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(*both, rtol=1e-8)
    np.testing.assert_allclose(grown.X_train_, X)
    assert grown.result_.status.ok


def test_partial_fit_refuses_what_does_not_fit():
    model = GaussianProcessRegressor(1.0 * K.RBF()).fit(X[:20], Y[:20])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], Y)
    with pytest.raises(ValueError, match="targets"):
        model.partial_fit(X, np.stack([Y, Y], axis=1))
    assert len(model.X_train_) == 20


def test_strings_graphs_and_tables():
    words = ["".join(RNG.choice(list("abc"), size=6)) for _ in range(30)]
    count = np.array([word.count("a") for word in words], dtype=float)
    model = GaussianProcessRegressor(K.Spectrum(1) + 1.0, mean="constant").fit(words, count)
    assert np.abs(model.predict(words) - count).max() < 0.2
    mean, std = model.predict(["aaaaaa", "bbbbbb"], return_std=True)
    assert mean[0] > mean[1]
    assert np.all(std > 0)
    more = model.partial_fit(["aaaaaa"], [6.0])
    assert abs(more.predict(["aaaaaa"])[0] - 6) < 0.2
    table = pd.DataFrame({"word": words, "size": np.linspace(0, 1, 30)})
    mixed = K.Spectrum(1).normalize().on("word") * K.RBF(1.0).on(["size"])
    frame = GaussianProcessRegressor(1.0 * mixed).fit(table, count)
    assert frame.predict(table, return_std=True)[1].shape == (30,)
    assert frame.partial_fit(table[:3], count[:3] + 0.1).predict(table[:2]).shape == (2,)
    with pytest.raises(ValueError, match="mean='linear'"):
        GaussianProcessRegressor(K.Spectrum(1), mean="linear").fit(words, count)


def test_names_functions_and_sparse_rows():
    by_name = GaussianProcessRegressor("rbf").fit(X, Y)
    assert set(by_name.hyperparameters_) == {"left__value", "right__gamma", "noise"}
    sparse = GaussianProcessRegressor("rbf").fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(NEW)), by_name.predict(NEW), rtol=1e-4)
    function = GaussianProcessRegressor(lambda x, z: float(np.exp(-((x - z) ** 2).sum()))).fit(X, Y)
    assert set(function.hyperparameters_) == {"left__value", "noise"}
    with pytest.raises(ValueError, match="FromMatrix"):
        GaussianProcessRegressor("precomputed").fit(np.eye(3), np.ones(3))


def test_single_precision_and_one_target_column():
    single = GaussianProcessRegressor(1.0 * K.RBF()).fit(X.astype(np.float32), Y)
    double = GaussianProcessRegressor(1.0 * K.RBF()).fit(X, Y)
    np.testing.assert_allclose(
        single.predict(NEW.astype(np.float32)), double.predict(NEW), rtol=1e-3, atol=1e-3
    )
    column = GaussianProcessRegressor(1.0 * K.RBF()).fit(X, Y[:, None])
    assert column.alpha_.shape == (40, 1)
    np.testing.assert_allclose(column.predict(NEW), double.predict(NEW))


def test_a_kernel_without_hyperparameters():
    model = GaussianProcessRegressor(K.Linear(), noise=0.5).fit(X, Y)
    assert "no hyperparameters to learn" in model.result_.method
    assert model.hyperparameters_ == {}
    assert model.log_marginal_likelihood(np.empty(0)) == model.log_marginal_likelihood()


def test_repeated_points_without_noise_are_explained():
    twice, targets = np.vstack([X, X]), np.append(Y, Y + 1)
    model = GaussianProcessRegressor(K.RBF(), noise=0.0, alpha=0.0)
    with pytest.raises(np.linalg.LinAlgError, match=r"40 rows that repeat others.*noise='learn'"):
        model.fit(twice, targets)
    learnt = GaussianProcessRegressor(1.0 * K.RBF()).fit(twice, targets)
    assert learnt.noise_ > 0.1
    assert np.isfinite(learnt.predict(NEW, return_std=True)).all()


def test_what_is_no_covariance_is_refused():
    with pytest.raises(ValueError, match="not positive semidefinite"):
        GaussianProcessRegressor(K.Sigmoid(0.5, 1.0)).fit(X, Y)
    with pytest.raises(ValueError, match="CompoundKernel"):
        GaussianProcessRegressor(S.CompoundKernel([S.RBF(), S.RBF()])).fit(X, Y)
    with pytest.raises(ValueError, match="length scales"):
        GaussianProcessRegressor(S.RBF([1.0, 1.0, 1.0])).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        GaussianProcessRegressor(K.RBF()).fit(X, np.where(Y > 1, np.nan, Y))
    with pytest.raises(ValueError, match="infinity"):
        GaussianProcessRegressor(K.RBF()).fit(X, np.where(Y > 1, np.inf, Y))
    with pytest.raises(ValueError, match="negative or not finite"):
        GaussianProcessRegressor(K.RBF(), alpha=np.full(40, np.nan)).fit(X, Y)


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e6])
def test_targets_of_any_size(scale):
    model = GaussianProcessRegressor(1.0 * K.RBF(), normalize_y=True).fit(X, Y * scale)
    reference = GaussianProcessRegressor(1.0 * K.RBF(), normalize_y=True).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW) / scale, reference.predict(NEW), rtol=1e-3)


def test_a_time_limit_ends_the_search():
    model = GaussianProcessRegressor(1.0 * K.RBF(scales=[1.0, 1.0]), max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, Y)
    assert np.isfinite(model.predict(NEW)).all()


def test_the_gradient_with_noise_and_mean():
    model = GaussianProcessRegressor(
        1.0 * K.RBF(scales=[1.0, 2.0]), mean="linear", optimizer=None
    ).fit(X, np.stack([Y, Y**2], axis=1))
    theta = model.posterior_.prior.theta + 0.2
    value, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    differences = approx_fprime(theta, model.log_marginal_likelihood, 1e-6)
    np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-3)
    assert np.isfinite(value)


def test_samples_have_the_mean_and_covariance_predicted():
    model = GaussianProcessRegressor(1.0 * K.RBF()).fit(X, np.stack([Y, 2 * Y], axis=1))
    samples = model.sample_y(NEW[:3], 20_000, random_state=1)
    mean, cov = model.predict(NEW[:3], return_cov=True)
    assert samples.shape == (3, 2, 20_000)
    np.testing.assert_allclose(samples.mean(axis=2), mean, atol=0.05)
    for t in range(2):
        np.testing.assert_allclose(np.cov(samples[:, t]), cov[..., t], atol=0.05)
    again = model.sample_y(NEW[:3], 20_000, random_state=1)
    np.testing.assert_array_equal(samples, again)
    prior = GaussianProcessRegressor(2.0 * K.RBF()).sample_y(NEW, 4)
    assert prior.shape == (9, 4)


def test_pickles():
    for kernel in (1.0 * K.RBF(), 1.0 * S.RBF() + S.WhiteKernel(), S.Matern(nu=0.7)):
        model = GaussianProcessRegressor(kernel, alpha=0.1).fit(X, Y)
        copy = pickle.loads(pickle.dumps(model))
        for both in zip(
            copy.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(*both)


def test_predictions_of_many_points_are_made_in_blocks(monkeypatch):
    from mercer.solvers.evidence import exact

    model = GaussianProcessRegressor(1.0 * K.RBF(), mean="constant").fit(X, Y)
    whole = model.predict(NEW, return_std=True)
    monkeypatch.setattr(exact, "BLOCK", 80)
    for both in zip(model.predict(NEW, return_std=True), whole, strict=True):
        np.testing.assert_allclose(*both, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_variances_are_never_negative_nor_nan(seed):
    rng = np.random.default_rng(seed)
    close = np.repeat(rng.normal(size=(15, 1)), 3, axis=0) + 1e-9 * rng.normal(size=(45, 1))
    model = GaussianProcessRegressor(K.RBF(0.01), noise=0.0, alpha=1e-10, optimizer=None)
    model.fit(close, np.sin(close[:, 0]))
    mean, std = model.predict(np.vstack([close, close + 1e-6]), return_std=True)
    assert np.all(std >= 0)
    assert np.isfinite(mean).all()


def test_dask_collections_of_new_points():
    da = pytest.importorskip("dask.array", reason="Dask is not installed: pip install mercer[dask]")
    model = GaussianProcessRegressor(1.0 * K.RBF()).fit(X, Y)
    lazy = model.predict(da.from_array(NEW, chunks=(4, 2)), return_std=True)
    for found, expected in zip(lazy, model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(found.compute(), expected)
    with pytest.raises(ValueError, match="all pairs of points"):
        model.predict(da.from_array(NEW, chunks=(4, 2)), return_cov=True)


@parametrize_with_checks(
    [GaussianProcessRegressor(), GaussianProcessRegressor(1.0 * K.RBF(), mean="linear")]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


LARGE = RNG.uniform(-3, 3, size=(300, 2))
RESPONSE = np.sin(LARGE[:, 0]) * LARGE[:, 1] + 0.1 * RNG.normal(size=300)


@pytest.mark.parametrize("engine", ["iterative", "inducing"])
def test_engines_agree_with_the_exact_one(engine):
    exact = GaussianProcessRegressor(1.0 * K.RBF()).fit(LARGE, RESPONSE)
    model = GaussianProcessRegressor(1.0 * K.RBF(), engine=engine, n_inducing=100)
    model.fit(LARGE, RESPONSE)
    mean, std = model.predict(NEW, return_std=True)
    expected, spread = exact.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.05)
    np.testing.assert_allclose(std, spread, rtol=0.15)
    assert model.evidence_.lower <= exact.log_marginal_likelihood_value_ + 1
    assert model.result_.method.startswith(engine)
    if engine == "inducing":  # at the points that were learnt
        again = model.log_marginal_likelihood(model.posterior_.prior.theta)
        np.testing.assert_allclose(again, model.log_marginal_likelihood_value_, rtol=1e-9)
    assert not hasattr(model, "L_")
    assert len(model.alpha_) == (300 if engine == "iterative" else 100)
    for method in ("leave_one_out", "partial_fit"):
        with pytest.raises(ValueError, match="engine='exact'"):
            getattr(model, method)(*((NEW, np.zeros(9)) if method == "partial_fit" else ()))


def test_the_engine_is_chosen_by_size(monkeypatch):
    from mercer.estimators.gaussian_process import engine

    given = {"kernel": 1.0 * K.RBF(), "optimizer": None}
    assert (
        GaussianProcessRegressor(**given, n_inducing=20)
        .fit(X, Y)
        .result_.method.startswith("inducing: 20 points (n_inducing is given)")
    )
    monkeypatch.setattr(engine, "EXACT_AT_MOST", 30)
    assert GaussianProcessRegressor(**given).fit(X, Y).result_.method.startswith("iterative")
    monkeypatch.setattr(engine, "PAIRS_AT_MOST", 30)
    found = GaussianProcessRegressor(**given).fit(X, Y).result_.method
    assert found.startswith("inducing: 40 points (40 points)")
    # What is known by its matrices alone is factorised.
    other = GaussianProcessRegressor(S.Matern(nu=0.7), alpha=0.1, optimizer=None).fit(X, Y)
    assert other.result_.method.startswith("exact")
    for engine_name in ("iterative", "inducing"):
        with pytest.raises(ValueError, match="counterpart"):
            GaussianProcessRegressor(S.Matern(nu=0.7), engine=engine_name).fit(X, Y)
        with pytest.raises(ValueError, match="needs noise"):
            GaussianProcessRegressor(S.RBF(), alpha=0, engine=engine_name).fit(X, Y)


def test_samples_that_are_functions():
    model = GaussianProcessRegressor(1.0 * K.RBF(), normalize_y=True).fit(X, 100 + Y)
    drawn = np.stack([f(NEW) for f in model.sample_functions(300, random_state=0)])
    mean, std = model.predict(NEW, return_std=True, include_noise=False)
    assert drawn.shape == (300, 9)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * std.max() / 300**0.5)
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.25)


def test_white_noise_that_comes_last_is_the_noise():
    model = GaussianProcessRegressor(1.0 * S.RBF() + S.WhiteKernel(0.1)).fit(X, Y)
    assert model.noise_ == pytest.approx(model.kernel_.k2.noise_level)
    assert list(model.hyperparameters_) == [
        "k1__k1__constant_value",
        "k1__k2__length_scale",
        "k2__noise_level",
    ]
    with pytest.raises(ValueError, match="its WhiteKernel is the noise"):
        GaussianProcessRegressor(1.0 * S.RBF() + S.WhiteKernel(0.1), noise="learn").fit(X, Y)


@pytest.mark.parametrize("engine", ["exact", "inducing"])
def test_parts_add_up_to_the_prediction(engine):
    kernel = 1.0 * K.RBF() + 0.5 * K.Linear() + 1.0
    model = GaussianProcessRegressor(
        kernel, noise=0.1, engine=engine, n_inducing=40, optimizer=None, normalize_y=True
    ).fit(X, np.stack([Y, Y**2], axis=1))
    parts = model.predict_parts(NEW)
    assert [repr(part.kernel) for part in parts] == [
        "1.0 * RBF(gamma=1.0)",
        "0.5 * Linear()",
        "Constant(value=1.0)",
    ]
    total = sum(part.mean for part in parts) + model._y_train_mean
    np.testing.assert_allclose(total, model.predict(NEW), atol=1e-6)
    # A part that is the rest of the covariance's noise: the posterior by inverses.
    C = kernel(X) + 0.1 * np.eye(40)
    first = 1.0 * K.RBF()
    cross = first(NEW, X)
    targets = (Y - Y.mean()) / Y.std()
    expected = cross @ np.linalg.solve(C, targets) * Y.std()
    spread = np.sqrt(1 - np.einsum("ij,ji->i", cross, np.linalg.solve(C, cross.T))) * Y.std()
    np.testing.assert_allclose(parts[0].mean[:, 0], expected, atol=1e-5)
    np.testing.assert_allclose(parts[0].std[:, 0], spread, atol=1e-5)


def test_parts_of_their_kernels_leave_the_white_noise_out():
    kernel = S.WhiteKernel(0.1) + 1.0 * S.RBF() + S.DotProduct()
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y)
    parts = model.predict_parts(NEW)
    assert len(parts) == 3  # the dot product is a constant and a linear kernel
    np.testing.assert_allclose(sum(part.mean for part in parts), model.predict(NEW), atol=1e-8)
    with pytest.raises(ValueError, match="converted"):
        GaussianProcessRegressor(S.Matern(nu=0.7), alpha=0.1).fit(X, Y).predict_parts(NEW)


def test_restarts_in_threads_find_what_those_in_turn_find(monkeypatch):
    kernel = 1.0 * K.RBF(scales=np.ones(2))
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0)
    found = []
    for workers in (1, 3):
        monkeypatch.setattr(
            "mercer.solvers.evidence.exact.ExactEngine.workers", workers, raising=True
        )
        found.append(model.fit(X, Y))
        found[-1] = (model.hyperparameters_, model.result_.history, model.result_.n_iter)
    assert found[0] == found[1]
    assert len(found[0][1]) == 4


def test_memory_maps_stay_on_disk(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = GaussianProcessRegressor(1.0 * K.RBF(), n_inducing=10, optimizer=None).fit(mapped, Y)
    assert np.shares_memory(model.X_train_, mapped)
