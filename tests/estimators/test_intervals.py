"""Intervals of regressions: against refits without each point, and their coverage."""

import pickle

import numpy as np
import pytest

from mercer import SVR, GaussianProcessRegressor, KernelMachineRegressor, KernelRidge, KernelRidgeCV
from mercer import kernels as K
from mercer.estimators import intervals
from mercer.estimators.intervals import jackknife_plus, upper_quantile

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(30, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=30)
NEW = RNG.uniform(-2, 2, size=(7, 2))
WEIGHT = RNG.uniform(0.2, 2.0, size=30)
KERNEL = K.RBF(0.5)
MODELS = {
    "KernelRidge": KernelRidge(0.1, kernel=KERNEL),
    "KernelRidgeCV": KernelRidgeCV((0.1, 1.0), kernel=KERNEL),
    "SVR": SVR(kernel=KERNEL, C=3.0),
    "KernelMachineRegressor": KernelMachineRegressor("huber", kernel=KERNEL, alpha=0.1),
}


def without_each(model, weight):
    """Predictions (m, n) by fits without each point, and the residuals (n,)."""
    centres, residuals = [], []
    for i in range(30):
        rest = np.arange(30) != i
        given = () if weight is None else (weight[rest],)
        part = model.fit(X[rest], Y[rest], *given)
        centres.append(part.predict(NEW))
        residuals.append(abs(Y[i] - part.predict(X[[i]])[0]))
    return np.stack(centres, axis=1), np.array(residuals)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHT, np.where(WEIGHT > 1, WEIGHT, 0.0)])
def test_jackknife_plus_of_ridge_is_that_of_refits(intercept, weight):
    model = KernelRidge(0.2, kernel=KERNEL, fit_intercept=intercept)
    centres, residuals = without_each(KernelRidge(**model.get_params(deep=False)), weight)
    found = model.fit(X, Y, weight).predict_interval(NEW, coverage=0.8)
    counts = np.ones(30) if weight is None else weight
    expected = jackknife_plus(centres, residuals, counts, 0.8)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_ranks_of_jackknife_plus():
    values = np.arange(1.0, 20.0)[None]
    for coverage, rank in ((0.9, 18), (0.5, 10), (0.95, 19)):
        assert upper_quantile(values, np.ones(19), coverage)[0] == rank
    assert upper_quantile(values, np.ones(19), 0.99)[0] == np.inf
    centres, residuals = RNG.normal(size=(3, 19)), RNG.uniform(size=19)
    lower, upper = jackknife_plus(centres, residuals, np.ones(19), 0.9)
    np.testing.assert_allclose(upper, np.sort(centres + residuals, axis=1)[:, 17])
    np.testing.assert_allclose(lower, np.sort(centres - residuals, axis=1)[:, 1])


def test_equal_weights_are_no_weights_and_zero_weights_do_not_count():
    values = RNG.normal(size=(4, 25))
    plain = upper_quantile(values, np.ones(25), 0.8)
    slightly = np.full(25, 3.0) * (1 + 1e-12 * np.arange(25))
    np.testing.assert_array_equal(upper_quantile(values, np.full(25, 3.0), 0.8), plain)
    np.testing.assert_array_equal(upper_quantile(values, slightly, 0.8), plain)
    more = np.hstack([values, np.full((4, 5), 1e9)])
    weight = np.append(np.ones(25), np.zeros(5))
    np.testing.assert_array_equal(upper_quantile(more, weight, 0.8), plain)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_coverage_over_many_draws(name, weighted):
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(25):
        P = rng.uniform(-2, 2, size=(90, 1))
        spread = 0.3 * (1 + (P[:, 0] > 0)) if weighted else 0.3
        y = np.sin(2 * P[:, 0]) + spread * rng.standard_t(4, size=90)
        weight = rng.uniform(0.5, 1.5, size=60) if weighted else None
        model = MODELS[name].fit(P[:60], y[:60], sample_weight=weight)
        lower, upper = model.predict_interval(P[60:], coverage=0.8)
        hits.append(np.mean((lower <= y[60:]) & (y[60:] <= upper)))
    # 750 targets: a standard error of .015 and, over the draws of the 60 points, about .01 more.
    assert 0.75 < np.mean(hits) < 0.88


@pytest.mark.parametrize("name", MODELS)
def test_shapes_and_order(name):
    model = MODELS[name].fit(X, Y)
    inner, outer = (model.predict_interval(NEW, coverage) for coverage in (0.5, 0.9))
    assert inner.shape == outer.shape == (2, 7)
    assert np.all(outer[0] <= inner[0])
    assert np.all(inner[1] <= outer[1])
    assert np.all(np.isinf(model.predict_interval(NEW, coverage=0.99)))
    np.testing.assert_array_equal(model.predict_interval(NEW, 0.9), outer)
    for wrong in (0, 1, -0.1, np.nan):
        with pytest.raises(ValueError, match="coverage="):
            model.predict_interval(NEW, wrong)


def test_several_targets():
    several = KernelRidge([0.1, 0.5], kernel=KERNEL).fit(X, np.stack([Y, -Y], axis=1))
    found = several.predict_interval(NEW)
    assert found.shape == (2, 7, 2)
    for t, alpha in enumerate((0.1, 0.5)):
        single = KernelRidge(alpha, kernel=KERNEL).fit(X, (Y, -Y)[t]).predict_interval(NEW)
        np.testing.assert_allclose(found[..., t], single, rtol=1e-9)


def test_precomputed_and_words():
    words = ["".join(RNG.choice(list("abc"), size=6)) for _ in range(30)]
    kernel = K.Spectrum(2).normalize()
    for make in (lambda k: KernelRidge(0.1, kernel=k), lambda k: SVR(kernel=k)):
        direct = make(kernel).fit(words, Y).predict_interval(words[:5])
        given = make("precomputed").fit(kernel(words), Y).predict_interval(kernel(words[:5], words))
        np.testing.assert_allclose(given, direct, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_calibration_by_points_of_ones_own(name, tmp_path):
    import mercer

    model = MODELS[name].fit(X, Y)
    P = RNG.uniform(-2, 2, size=(50, 2))
    t = np.sin(2 * P[:, 0]) + P[:, 1] + 0.3 * RNG.normal(size=50)
    assert model.calibrate_intervals(P, t) is model
    distance = np.sort(np.abs(t - model.predict(P)))[int(np.ceil(0.8 * 51)) - 1]
    expected = [model.predict(NEW) - distance, model.predict(NEW) + distance]
    np.testing.assert_allclose(model.predict_interval(NEW, 0.8), expected)
    mercer.save(model, tmp_path / "model")
    loaded = mercer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(NEW, 0.8), expected)
    assert not hasattr(model.fit(X, Y), "interval_residuals_")


def test_models_without_their_training_targets():
    ridge = pickle.loads(pickle.dumps(MODELS["KernelRidge"].fit(X, Y)))
    np.testing.assert_allclose(
        ridge.predict_interval(NEW), MODELS["KernelRidge"].predict_interval(NEW)
    )
    machine = pickle.loads(pickle.dumps(MODELS["SVR"].fit(X, Y)))
    with pytest.raises(ValueError, match="calibrate_intervals"):
        machine.predict_interval(NEW)


def test_many_points_are_split(monkeypatch):
    monkeypatch.setattr(intervals, "SPLIT_FROM", 30)
    lower, upper = SVR(kernel=KERNEL, C=3.0).fit(X, Y).predict_interval(NEW, 0.5)
    widths = upper - lower
    np.testing.assert_allclose(widths, widths[0])


def test_inexact_fits_are_refitted_in_parts():
    fits = (
        KernelRidge(0.1, kernel=KERNEL, solver="nystrom", n_centers=10),
        KernelRidge(0.1, kernel=K.Sigmoid(0.1), indefinite="clip"),
        KernelRidge(0, kernel=KERNEL),
    )
    for model in fits:
        found = model.fit(X, Y).predict_interval(NEW)
        assert np.isfinite(found).all()
        with pytest.raises(ValueError, match="return_std"):
            model.predict(NEW, return_std=True)


@pytest.mark.parametrize("intercept", [False, True])
def test_standard_deviations_are_those_of_the_process(intercept):
    alpha, noise = 0.3, 0.07
    model = KernelRidge(alpha, kernel=KERNEL, fit_intercept=intercept).fit(X, Y, WEIGHT)
    process = GaussianProcessRegressor(
        (noise / alpha) * KERNEL, alpha=noise / WEIGHT, noise=0.0, optimizer=None,
        mean="constant" if intercept else "zero",
    ).fit(X, Y)  # fmt: skip
    mean, std = model.predict(NEW, return_std=True, noise=noise)
    expected, spread = process.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(spread**2 + noise), rtol=1e-6)


def test_noise_is_estimated_by_maximum_likelihood():
    model = KernelRidge(0.3, kernel=KERNEL).fit(X, Y)
    estimate = 0.3 * Y @ np.linalg.solve(KERNEL(X) + 0.3 * np.eye(30), Y) / 30
    _, std = model.predict(NEW, return_std=True)
    _, given = model.predict(NEW, return_std=True, noise=estimate)
    np.testing.assert_allclose(std, given, rtol=1e-9)
    both = KernelRidgeCV((0.3,), kernel=KERNEL).fit(X, np.stack([Y, 2 * Y], axis=1))
    _, wide = both.predict(NEW, return_std=True)
    np.testing.assert_allclose(wide, np.stack([std, 2 * std], axis=1), rtol=1e-7)
