"""Leave-one-out with slopes, categories, standard errors, bands and quantiles of the smoothers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

from mercer.estimators.smoothing import engine as smoothing_model
from mercer.estimators.smoothing import local_estimates
from mercer.estimators.smoothing.columns import ColumnCoding
from mercer.estimators.smoothing.local_fits import (
    LocalFits,
    expression_score,
    gaussian_score,
    has_slopes,
)
from mercer.estimators.smoothing.neighbourhoods import (
    Bandwidth,
    Neighbourhoods,
    leave_one_out,
    local_linear,
)
from mercer.estimators.smoothing.smoothers import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS

pd = pytest.importorskip("pandas")
REGRESSORS = [NadarayaWatsonRegressor, LocalLinearRegressor]


def waves(n=80, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def by_differences(score, h, e=1e-6):
    return [
        (score(h * np.exp(e * row), False)[0] - score(h * np.exp(-e * row), False)[0]) / (2 * e)
        for row in np.eye(len(h))
    ]


# Scores


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_is_the_error_of_refits_and_has_their_slopes(linear, d, weighted):
    X, y = waves(60, d)
    X[0] += 50.0  # alone: every weight underflows
    Y, scales = np.column_stack([y, y**2]), np.array([1.0, 2.0])
    mass = np.random.default_rng(1).choice([0.5, 1.0, 3.0], size=60) if weighted else np.ones(60)
    score, h = gaussian_score(X, mass, Y, scales, linear), np.linspace(0.5, 1.2, d)
    value, slopes = score(h, True)
    near = Neighbourhoods(SMOOTHING_KERNELS["gaussian"], Bandwidth(h), X, mass)
    fit = local_linear if linear else lambda W, U, V, Y: (W @ Y, None)
    residuals = (Y - leave_one_out(near, Y, fit)) / scales
    assert value == pytest.approx((mass / mass.sum() @ residuals**2).mean(), rel=1e-8)
    np.testing.assert_allclose(slopes, by_differences(score, h), rtol=2e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["exponential", "epanechnikov", "biweight", "cosine"])
def test_kernels_that_are_expressions_have_slopes_too(name):
    X, y = waves(60)
    kernel, mass = SMOOTHING_KERNELS[name], np.random.default_rng(1).choice([1.0, 2.0], size=60)
    assert has_slopes(kernel)
    score = expression_score(kernel, X, mass, y[:, None], np.ones(1))
    for h in (np.array([1.1, 1.6]), np.array([0.2, 0.3])):  # some are out of all reach
        near = Neighbourhoods(kernel, Bandwidth(h), X, mass)
        residuals = y[:, None] - leave_one_out(near, y[:, None], lambda W, U, V, Y: (W @ Y, None))
        value, slopes = score(h, True)
        assert value == pytest.approx(mass / mass.sum() @ residuals[:, 0] ** 2, rel=1e-8)
        np.testing.assert_allclose(slopes, by_differences(score, h), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("name", "d", "h"), [("gaussian", 60, 0.3), ("exponential", 3, 0.02)])
def test_slopes_where_all_others_are_far(name, d, h):
    X, y = waves(60, d)
    score = expression_score(SMOOTHING_KERNELS[name], X, np.ones(60), y[:, None], np.ones(1))
    h = np.linspace(h, 1.2 * h, d)
    np.testing.assert_allclose(score(h, True)[1], by_differences(score, h), rtol=1e-4, atol=1e-7)


def test_kernels_of_steps_have_no_slopes():
    assert not has_slopes(SMOOTHING_KERNELS["tophat"])
    assert not has_slopes(SMOOTHING_KERNELS["hypercube"])


@pytest.mark.parametrize("estimator", [*REGRESSORS, NadarayaWatsonClassifier])
@pytest.mark.parametrize("kernel", ["gaussian", "triweight", "tophat"])
def test_bandwidths_found_are_positive_and_not_beaten_nearby(estimator, kernel):
    X, y = waves(70)
    y = (y > 0).astype(int) if estimator is NadarayaWatsonClassifier else y
    fitted = estimator(kernel=kernel).fit(X, y)
    assert np.all(fitted.bandwidth_ > 0)

    def error(model):
        if estimator is NadarayaWatsonClassifier:
            return np.mean((np.eye(2)[y] - model.loo_probabilities_) ** 2)
        return np.mean((y - model.loo_predictions_) ** 2)

    best = error(fitted)
    slack = 1e-6 if kernel == "gaussian" else 0.02  # the others have many small valleys
    for a in (0.8, 1.0, 1.25):
        for b in (0.8, 1.0, 1.25):
            other = estimator(kernel=kernel, bandwidth=fitted.bandwidth_ * [a, b]).fit(X, y)
            assert error(other) >= best * (1 - slack)


def test_many_points_begin_with_some(monkeypatch):
    X, y = waves(400)
    whole = NadarayaWatsonRegressor().fit(X, y)
    monkeypatch.setattr(smoothing_model, "MANY_POINTS", 300)
    monkeypatch.setattr(smoothing_model, "PART", 150)
    part = NadarayaWatsonRegressor().fit(X, y)
    error = [np.mean((y - model.loo_predictions_) ** 2) for model in (whole, part)]
    assert error[1] <= error[0] * 1.001


# Without a matrix of weights


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_fused_predictions_equal_those_by_weights(estimator, monkeypatch):
    (X, y), (Z, _) = waves(150), waves(40, seed=1)
    Z[0] += 100.0  # where a line needs more digits than moments have
    Y, w = np.column_stack([y, X[:, 0]]), np.random.default_rng(2).uniform(0.5, 3, size=150)
    found = []
    for pairs in (1, 10**9):
        monkeypatch.setattr(local_estimates, "MANY_PAIRS", pairs)
        model = estimator(bandwidth=[0.5, 0.9]).fit(X, Y, w)
        found.append([model.predict(Z), model.loo_predictions_, model.standard_error(Z)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("fused", [False, True])
def test_a_large_bandwidth_keeps_the_slope_of_its_feature(fused, monkeypatch):
    if fused:
        monkeypatch.setattr(local_estimates, "MANY_PAIRS", 1)
    X, _ = waves(200)
    Z = np.random.default_rng(1).uniform(-1.5, 1.5, size=(50, 2))
    model = LocalLinearRegressor(bandwidth=[0.3, 1e9]).fit(X, X[:, 0] + 5 * X[:, 1])
    np.testing.assert_allclose(model.predict(Z), Z[:, 0] + 5 * Z[:, 1], atol=1e-9)
    np.testing.assert_allclose(model.weights(Z) @ X, Z, atol=1e-9)


def test_a_constant_column_is_not_flat():
    X, y = waves(80)
    X[:, 1] = 3.0
    line = LocalFits(X / 0.4, np.ones(80), y[:, None], linear=True).at()
    assert not line.flat.any()
    alone = LocalFits(X[:, :1] / 0.4, np.ones(80), y[:, None], linear=True).at()
    np.testing.assert_allclose(line.value, alone.value, rtol=1e-12)


def test_fused_probabilities(monkeypatch):
    X, y = waves(150)
    found = []
    for pairs in (1, 10**9):
        monkeypatch.setattr(local_estimates, "MANY_PAIRS", pairs)
        model = NadarayaWatsonClassifier(bandwidth=0.4).fit(X, np.digitize(y, [-0.5, 0.5]))
        found.append(model.predict_proba(X * 20))
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    np.testing.assert_allclose(found[0].sum(axis=1), 1)


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_far_away_the_fused_way_gives_the_same(estimator, monkeypatch):
    X, y = waves(d=1)
    far = np.array([[1e3], [1e6], [-1e9], [1e160]])
    model = estimator(bandwidth=0.3).fit(X, y)
    with np.errstate(over="ignore"):
        expected = model.predict(far), model._standard_error(far)
        monkeypatch.setattr(local_estimates, "MANY_PAIRS", 1)
        found = model.predict(far), model._standard_error(far)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_fits_of_one_point_are_not_a_number():
    fits = LocalFits(np.zeros((1, 2)), np.ones(1), np.ones((1, 1))).at()
    assert np.isnan(fits.value).all()


# Standard errors, bands


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_standard_error_written_out(estimator):
    X, y = waves(50)
    w = np.random.default_rng(0).integers(1, 4, size=50).astype(float)
    model = estimator(bandwidth=0.7).fit(X, y, w)
    Z = X[:7] + 0.1
    residuals = (y - model.loo_predictions_) ** 2
    expected = np.sqrt((model.weights(Z) ** 2 / w) @ residuals)
    np.testing.assert_allclose(model.standard_error(Z), expected, rtol=1e-9)


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_the_band_holds_the_mean_as_often_as_it_says(estimator):
    """Noise that grows with x around a line, where the bias is small: 300 samples, one place."""
    rng, z, inside = np.random.default_rng(0), np.array([[0.5]]), 0
    for _ in range(300):
        X = rng.uniform(0, 1, size=(200, 1))
        y = X[:, 0] + (0.2 + X[:, 0]) * rng.normal(size=200)
        lower, upper = estimator(bandwidth=0.15).fit(X, y).confidence_band(z, level=0.9)
        inside += lower[0] <= 0.5 <= upper[0]
    assert 0.85 < inside / 300 < 0.96


def test_bands_widen_with_the_level():
    X, y = waves()
    model = NadarayaWatsonRegressor(bandwidth=0.4).fit(X, y)
    half = [np.subtract(*model.confidence_band(X, level)[::-1]) / 2 for level in (0.5, 0.95)]
    assert np.all(half[0] < half[1])
    np.testing.assert_allclose(half[1], norm.ppf(0.975) * model.standard_error(X))
    with pytest.raises(ValueError, match="level"):
        model.confidence_band(X, 1.0)
    with pytest.raises(ValueError, match="lone"):
        NadarayaWatsonRegressor().fit(X[:1], y[:1]).standard_error(X)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "exponential", "hypercube"])
@pytest.mark.parametrize("estimator", REGRESSORS)
def test_there_is_no_band_outside_the_data(estimator, kernel):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, size=(200, 1)), axis=0)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    model = estimator(bandwidth=0.5, kernel=kernel).fit(X, y)
    Z = np.array([[-0.2], [5.0], [10.2], [20.0], [-20.0]])
    with pytest.warns(UserWarning, match="2 of 5 queries are outside the training data"):
        error = model.standard_error(Z)
    with pytest.warns(UserWarning, match="outside"):
        lower, upper = model.confidence_band(Z)
    for found in (error, lower, upper):
        assert np.isnan(found).tolist() == [False, False, False, True, True]
    assert np.isfinite(model.predict(Z)).all()
    assert error[1] < error[0]


# Quantiles


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("kernel", sorted(SMOOTHING_KERNELS))
def test_quantiles_invert_the_conditional_density(estimator, kernel):
    X, y = waves(60, 1)
    model = estimator(bandwidth=0.6, kernel=kernel).fit(X, y)
    Z, q = [[0.3], [-1.5]], [0.05, 0.5, 0.9]
    found = model.conditional_quantile(Z, q)
    assert found.shape == (2, 3)
    t = np.linspace(-12, 12, 48_001)
    cdf = np.cumsum(model.conditional_density(Z, t), axis=1) * (t[1] - t[0])
    for row, law in zip(found, cdf, strict=True):
        np.testing.assert_allclose(np.interp(row, t, law), q, atol=2e-3)
    np.testing.assert_allclose(model.conditional_quantile(Z), found[:, 1])


def test_quantiles_that_are_not_there():
    X, y = waves()
    model = NadarayaWatsonRegressor(bandwidth=0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        clone(model).fit(X, y).conditional_quantile(X, [0.0])
    with pytest.raises(ValueError, match="one output"):
        clone(model).fit(X, np.column_stack([y, y])).conditional_quantile(X)
    with pytest.raises(ValueError, match="do not vary"):
        clone(model).fit(X, np.ones(80)).conditional_quantile(X)


# Categories


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-2, 2, size=n),
            "colour": rng.choice(["red", "green", "blue"], size=n),
            "size": pd.Categorical(
                rng.choice(["small", "middle", "large"], size=n),
                ["small", "middle", "large"],
                ordered=True,
            ),
            "noise": rng.choice(["a", "b"], size=n),
        }
    )
    y = np.sin(2 * frame.x) + 2.0 * (frame.colour == "red") + 0.5 * frame["size"].cat.codes
    return frame, y.to_numpy() + 0.1 * rng.normal(size=n)


def test_distances_between_categories():
    frame, _ = table()
    coding = ColumnCoding(["colour", "noise"], ["size"]).fit(frame)
    P = coding.transform(frame)
    codes = frame["size"].cat.codes.to_numpy().astype(float)
    for k, expected in (
        (0, (frame.x.to_numpy()[:, None] - frame.x.to_numpy()) ** 2),
        (1, frame.colour.to_numpy()[:, None] != frame.colour.to_numpy()),
        (2, np.abs(codes[:, None] - codes)),
    ):
        part = P[:, coding.owners == k]
        np.testing.assert_allclose(((part[:, None] - part) ** 2).sum(axis=2), expected, atol=1e-12)
    unseen = frame.iloc[:1].assign(colour="purple")
    part = coding.transform(unseen)[:, coding.owners == 1]
    apart = ((part - P[:, coding.owners == 1]) ** 2).sum(axis=1)
    np.testing.assert_allclose(apart, apart[0])


def test_mixed_columns_as_a_product_of_kernels():
    frame, y = table(60)
    h = np.array([0.5, 0.7, 0.9, 3.0])
    model = NadarayaWatsonRegressor(
        bandwidth=h, categorical_features=["colour", "noise"], ordered_features=["size"]
    ).fit(frame, y)
    lam = np.exp(-0.5 / h**2)
    codes = frame["size"].cat.codes.to_numpy().astype(int)
    x, colour, noise = (frame[name].to_numpy() for name in ("x", "colour", "noise"))
    K = np.exp(-0.5 * ((x[:, None] - x) / h[0]) ** 2)
    K = K * lam[1] ** (colour[:, None] != colour) * lam[2] ** np.abs(codes[:, None] - codes)
    K = K * lam[3] ** (noise[:, None] != noise)
    np.testing.assert_allclose(model.predict(frame), K @ y / K.sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("fused", [False, True])
def test_local_lines_slope_along_numbers_only(fused, monkeypatch):
    if fused:
        monkeypatch.setattr(local_estimates, "MANY_PAIRS", 1)
    frame, y = table(60)
    h, mass = np.array([0.5, 0.7, 0.9, 3.0]), np.tile([1.0, 2.0, 3.0], 20)
    model = LocalLinearRegressor(
        bandwidth=h, categorical_features=["colour", "noise"], ordered_features=["size"]
    ).fit(frame, y, sample_weight=mass)
    x, codes = frame.x.to_numpy(), frame["size"].cat.codes.to_numpy().astype(float)
    apart = [np.abs(x[:, None] - x) ** 2]
    apart += [frame.colour.to_numpy()[:, None] != frame.colour.to_numpy()]
    apart += [np.abs(codes[:, None] - codes)]
    apart += [frame.noise.to_numpy()[:, None] != frame.noise.to_numpy()]
    K = mass * np.exp(-0.5 * sum(a / b**2 for a, b in zip(apart, h, strict=True)))
    expected = [np.polyfit(x - z, y, 1, w=np.sqrt(k))[1] for z, k in zip(x, K, strict=True)]
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-9)
    score = model._score(y[:, None], np.ones(1), np.arange(60))
    np.testing.assert_allclose(score(h)[1], by_differences(score, h), rtol=1e-4, atol=1e-9)


def test_local_lines_pool_categories_that_do_not_matter():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(-3, 3, size=200), rng.integers(0, 20, size=200)])
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=200)
    new = np.column_stack([np.linspace(-3, 3, 100), np.arange(100) % 20])
    model = LocalLinearRegressor(categorical_features=[1]).fit(X, y)
    alone = LocalLinearRegressor().fit(X[:, :1], y)
    np.testing.assert_allclose(model.predict(new), alone.predict(new[:, :1]), atol=0.05)


def test_a_line_along_categories_alone_is_a_mean():
    frame, y = table(60)
    columns = {"categorical_features": ["colour", "noise"], "ordered_features": ["size"]}
    frame = frame[["colour", "size", "noise"]]
    line, mean = (
        E(**columns).fit(frame, y) for E in (LocalLinearRegressor, NadarayaWatsonRegressor)
    )
    np.testing.assert_allclose(line.predict(frame), mean.predict(frame), rtol=1e-12)
    np.testing.assert_allclose(line.standard_error(frame), mean.standard_error(frame), rtol=1e-9)


def test_search_with_categories_finds_what_matters():
    frame, y = table()
    model = NadarayaWatsonRegressor(
        categorical_features=["colour", "noise"], ordered_features=["size"]
    ).fit(frame, y)
    lam = np.exp(-0.5 / model.bandwidth_**2)
    assert lam[1] < 0.1
    assert lam[3] > 0.9
    new, expected = table(100, seed=1)
    assert np.mean((model.predict(new) - expected) ** 2) < 0.1 * np.var(expected)
    shuffled = new[["colour", "x", "size", "noise"]]
    with pytest.raises(ValueError, match="order"):
        model.predict(shuffled)


def test_categories_of_a_classifier_and_of_arrays():
    frame, y = table()
    label = np.where(y > 1, "high", "low")
    model = NadarayaWatsonClassifier(categorical_features="from_dtype").fit(frame, label)
    assert model.score(frame, label) > 0.9
    array = frame.to_numpy(dtype=object)
    other = NadarayaWatsonClassifier(
        bandwidth=model.bandwidth_, categorical_features=[1, 2, 3]
    ).fit(array, label)
    np.testing.assert_allclose(other.predict_proba(array), model.predict_proba(frame), atol=1e-9)
    mask = LocalLinearRegressor(bandwidth=1.0, categorical_features=[False, True, True, True])
    assert np.isfinite(mask.fit(array, y).predict(array)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"categorical_features": ["shape"]}, "does not have"),
        ({"categorical_features": ["colour"]}, "column 'size' is not a column of finite numbers"),
        ({"categorical_features": ["size"], "ordered_features": ["size"]}, "name it once"),
        ({"categorical_features": "all"}, "categorical_features"),
        ({"categorical_features": [False, True]}, "mask of 2 columns, and X has 4"),
        (
            {"categorical_features": ["colour", "size", "noise"], "bandwidth": np.eye(4)},
            "X has categories",
        ),
    ],
)
def test_columns_that_cannot_be(parameters, message):
    frame, y = table(20)
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonRegressor(**parameters).fit(frame, y)


@pytest.mark.parametrize("column", ["colour", "size"])
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_categories_are_named(column, missing):
    frame, y = table(20)
    frame["colour"] = frame.colour.astype(object)
    columns = {"categorical_features": ["colour", "noise"], "ordered_features": ["size"]}
    model = NadarayaWatsonRegressor(bandwidth=1.0, **columns).fit(frame, y)
    frame.loc[3, column] = missing
    for call in (lambda: model.predict(frame), lambda: clone(model).fit(frame, y)):
        with pytest.raises(ValueError, match=f"'{column}' has missing values"):
            call()


def test_kinds_of_columns_from_their_dtypes():
    frame, y = table(20)
    both = {"categorical_features": "from_dtype", "ordered_features": "from_dtype"}
    model = NadarayaWatsonRegressor(bandwidth=1.0, **both).fit(frame, y)
    assert model.coding_.kinds == ["numeric", "unordered", "ordered", "unordered"]


def test_a_column_that_is_neither_number_nor_category_is_named():
    frame, y = table(20)
    frame["x"] = pd.date_range("2020", periods=20)
    with pytest.raises(ValueError, match="column 'x' is not a column of finite numbers"):
        NadarayaWatsonRegressor(categorical_features="from_dtype").fit(frame, y)
