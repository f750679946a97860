"""Nadaraya-Watson and local linear smoothers against slow loops and n refits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer.estimators.smoothing.smoothers import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS
from smoother_examples import EVERY, REGRESSORS, slow_kernel, waves


@parametrize_with_checks(
    [NadarayaWatsonRegressor(), NadarayaWatsonClassifier(), LocalLinearRegressor()]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def slow_local_linear(X, y, z, k):
    """The weighted least squares line at z, by lstsq."""
    A = np.column_stack([np.ones(len(X)), X - z])
    root = np.sqrt(k)
    return np.linalg.lstsq(A * root[:, None], y * root, rcond=None)[0][0]


# Predictions


@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "exponential"])
@pytest.mark.parametrize("h", [1.1, np.array([0.8, 1.5])])
def test_nadaraya_watson_formula(name, h):
    (X, y), (Z, _) = waves(), waves(15, seed=1)
    k = slow_kernel(X, Z, h, name)
    model = NadarayaWatsonRegressor(bandwidth=h, kernel=name).fit(X, y)
    np.testing.assert_allclose(model.predict(Z), (k @ y) / k.sum(axis=1))
    np.testing.assert_allclose(model.weights(Z), k / k.sum(axis=1, keepdims=True), atol=1e-14)


def test_weights_of_the_notes_example():
    """Gaussian f(x, t) in one dimension; N = 1 gives t₁ everywhere."""
    x, t, sigma = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, -1.0, 2.0]), 0.6
    g = np.exp(-((0.4 - x[:, 0]) ** 2) / (2 * sigma**2))
    model = NadarayaWatsonRegressor(bandwidth=sigma).fit(x, t)
    assert model.predict([[0.4]])[0] == pytest.approx(g @ t / g.sum())
    alone = NadarayaWatsonRegressor().fit(x[:1], t[:1])
    np.testing.assert_array_equal(alone.predict([[-7.0], [0.0], [1e9]]), 1.0)


@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "exponential"])
@pytest.mark.parametrize("d", [1, 3])
def test_local_linear_against_a_loop(name, d):
    (X, y), (Z, _) = waves(60, d), waves(15, d, seed=1)
    h = 2.4
    k = slow_kernel(X, Z, h, name)
    expected = [slow_local_linear(X, y, z, row) for z, row in zip(Z, k, strict=True)]
    model = LocalLinearRegressor(bandwidth=h, kernel=name).fit(X, y)
    np.testing.assert_allclose(model.predict(Z), expected, rtol=1e-9)
    weights = model.weights(Z)
    np.testing.assert_allclose(weights @ y, expected, rtol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    # The line is reproduced: Σ l_n (x_n - x) = 0.
    np.testing.assert_allclose(weights @ X, Z, atol=1e-9)


def test_local_lines_in_more_features_than_points_have_the_smallest_slope():
    (X, y), (Z, _) = waves(6, 15), waves(4, 15, seed=1)
    h = 3.0
    model = LocalLinearRegressor(bandwidth=h).fit(X, y)
    for z, k, found in zip(Z, slow_kernel(X, Z, h), model.predict(Z), strict=True):
        w = k / k.sum()
        centre = w @ X
        unit = np.sqrt(w @ (X - centre) ** 2 + (centre - z) ** 2)  # the size of each coordinate
        root = np.sqrt(w)[:, None]
        slope = np.linalg.pinv(root * (X - centre) / unit) @ (root[:, 0] * (y - w @ y))
        assert found == pytest.approx(w @ y + (z - centre) / unit @ slope, rel=1e-9)
    np.testing.assert_allclose(model.weights(Z) @ y, model.predict(Z), rtol=1e-9)


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_many_features_share_one_factor(estimator, kernel):
    X, y = waves(30, 120)
    X *= np.geomspace(1.0, 100.0, 120)
    y = y > 0 if estimator is NadarayaWatsonClassifier else y
    model = estimator(kernel=kernel).fit(X, y)
    assert not model.selection_["per_feature"]
    np.testing.assert_allclose(
        model.bandwidth_ / X.std(axis=0), model.bandwidth_[0] / X[:, 0].std()
    )
    common = estimator(kernel=kernel, bandwidth="loo_common").fit(X, y)
    np.testing.assert_allclose(model.bandwidth_, common.bandwidth_, rtol=0.02)
    few = estimator(kernel=kernel).fit(X[:, :3], y)
    assert few.selection_["per_feature"]


def test_local_linear_tends_to_the_global_line():
    X, y = waves(40, 3)
    model = LocalLinearRegressor(bandwidth=1e4).fit(X, y)
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), rtol=1e-5)


def test_local_linear_is_exact_on_lines_far_outside():
    X, _ = waves(40, 3)
    y = X @ [1.0, -2.0, 3.0] + 5
    Z = 3 * X
    model = LocalLinearRegressor(bandwidth=1.5).fit(X, y)
    np.testing.assert_allclose(model.predict(Z), Z @ [1.0, -2.0, 3.0] + 5, rtol=1e-6)


def test_weights_of_local_lines_where_one_point_has_nearly_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        X, y, Z = rng.normal(size=(8, 2)), rng.normal(size=8), 2 * rng.normal(size=(20, 2))
        model = LocalLinearRegressor(bandwidth=0.4).fit(X, y)
        L = model.weights(Z)
        np.testing.assert_allclose(L.sum(axis=1), 1, rtol=1e-9)
        np.testing.assert_allclose(L @ y, model.predict(Z), rtol=1e-8, atol=1e-8)


def test_singular_design_falls_back_to_nadaraya_watson():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    y = np.array([1.0, 2.0, 6.0])
    for kernel in ("gaussian", "epanechnikov"):
        model = LocalLinearRegressor(bandwidth=1.0, kernel=kernel).fit(X, y)
        np.testing.assert_allclose(model.predict([[0.3, 1.0], [9.0, -9.0]]), 3.0)
    one_in_reach = LocalLinearRegressor(bandwidth=0.5, kernel="tophat").fit([[0.0], [1.0]], [3, 4])
    np.testing.assert_allclose(one_in_reach.predict([[0.1], [0.9]]), [3, 4])


def test_collinear_and_constant_columns_change_nothing():
    X, y = waves(60, 1)
    Z, _ = waves(9, 1, seed=1)
    plain = LocalLinearRegressor(bandwidth=0.8).fit(X, y).predict(Z)
    more = LocalLinearRegressor(bandwidth=[0.8, 1e6, 1.0])

    def wide(A):
        return np.column_stack([A, 2 * A, np.full(len(A), 0.1)])

    np.testing.assert_allclose(more.fit(wide(X), y).predict(wide(Z)), plain, rtol=1e-6)


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_matrix_bandwidth(estimator):
    (X, y), (Z, _) = waves(), waves(10, seed=1)
    diagonal = estimator(bandwidth=[0.5, 0.9]).fit(X, y)
    matrix = estimator(bandwidth=np.diag([0.25, 0.81])).fit(X, y)
    np.testing.assert_allclose(matrix.predict(Z), diagonal.predict(Z), rtol=1e-9)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = estimator(bandwidth=turn @ np.diag([0.25, 0.81]) @ turn.T).fit(X @ turn.T, y)
    np.testing.assert_allclose(turned.predict(Z @ turn.T), diagonal.predict(Z), rtol=1e-8)
    with pytest.raises(ValueError, match="radial kernel"):
        estimator(bandwidth=np.eye(2), kernel="hypercube").fit(X, y)


# Far from the data


@pytest.mark.parametrize("kernel", sorted(SMOOTHING_KERNELS))
@pytest.mark.parametrize("estimator", EVERY)
def test_never_zero_over_zero(estimator, kernel):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 0.0, 2.0])
    model = estimator(bandwidth=1e-3, kernel=kernel).fit(X, y)
    assert model.predict([[1e6]])[0] == pytest.approx(2.0)
    np.testing.assert_allclose(model.weights([[1e6]]).sum(axis=1), 1)


def test_nearest_points_share_the_weight():
    X = np.array([[0.0], [2.0], [2.0], [9.0]])
    model = NadarayaWatsonRegressor(bandwidth=0.1, kernel="epanechnikov")
    weights = model.fit(X, X[:, 0], sample_weight=[4, 1, 1, 1]).weights([[1.0]])
    np.testing.assert_allclose(weights, [[4 / 6, 1 / 6, 1 / 6, 0]])


# Leave-one-out


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("estimator", REGRESSORS)
def test_leave_one_out_equals_n_refits(estimator, kernel):
    X, y = waves(30, 2)
    X[3] = X[4]  # a duplicate stays when its twin is left out
    model = estimator(bandwidth=0.5, kernel=kernel).fit(X, y)
    refits = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        refits.append(clone(model).fit(X[rest], y[rest]).predict(X[i : i + 1])[0])
    np.testing.assert_allclose(model.loo_predictions_, refits, rtol=1e-8)


def test_leave_one_out_probabilities_equal_n_refits():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    model = NadarayaWatsonClassifier(bandwidth=0.4).fit(X, y)
    refits = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        refits.append(clone(model).fit(X[rest], y[rest]).predict_proba(X[i : i + 1])[0])
    np.testing.assert_allclose(model.loo_probabilities_, refits, atol=1e-12)


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_chosen_bandwidth_is_the_best_of_a_fine_grid(estimator):
    X, y = waves(80, 1)
    chosen = estimator().fit(X, y)
    best = np.mean((y - chosen.loo_predictions_) ** 2)
    for factor in np.geomspace(0.2, 20, 40):
        other = estimator(bandwidth=factor * chosen.bandwidth_).fit(X, y)
        assert np.mean((y - other.loo_predictions_) ** 2) >= best * (1 - 1e-3)


def test_chosen_bandwidth_minimises_the_brier_score():
    X, y = load_iris(return_X_y=True)
    chosen = NadarayaWatsonClassifier().fit(X, y)
    indicators = np.eye(3)[y]
    best = np.mean((indicators - chosen.loo_probabilities_) ** 2)
    for factor in np.geomspace(0.1, 10, 25):
        other = NadarayaWatsonClassifier(bandwidth=factor * chosen.bandwidth_).fit(X, y)
        assert np.mean((indicators - other.loo_probabilities_) ** 2) >= best * (1 - 1e-3)


@pytest.mark.parametrize("estimator", EVERY)
def test_search_follows_the_scale_of_the_data(estimator):
    X, t = waves(60)
    y = t if estimator is not NadarayaWatsonClassifier else (t > 0).astype(int)
    scales = np.array([1000.0, 1e-4])
    one, other = estimator().fit(X, y), estimator().fit(X * scales + 3, y)
    np.testing.assert_allclose(other.bandwidth_, one.bandwidth_ * scales, rtol=1e-5)
    np.testing.assert_allclose(other.predict(X * scales + 3), one.predict(X), rtol=1e-5)


def test_search_does_not_depend_on_the_units_of_y():
    X, y = waves(60)
    Y = np.column_stack([y, X[:, 0] ** 2])
    one = NadarayaWatsonRegressor().fit(X, Y)
    other = NadarayaWatsonRegressor().fit(X, Y * [1e5, 1e-5])
    np.testing.assert_allclose(other.bandwidth_, one.bandwidth_)


def test_search_per_feature_finds_the_irrelevant_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(3 * X[:, 0])
    together = NadarayaWatsonRegressor(bandwidth="loo_common").fit(X, y)
    apart = NadarayaWatsonRegressor().fit(X, y)
    again = NadarayaWatsonRegressor(bandwidth="loo_per_feature").fit(X, y)
    np.testing.assert_array_equal(again.bandwidth_, apart.bandwidth_)
    assert apart.bandwidth_[1] > 10 * apart.bandwidth_[0]
    assert r2_score(y, apart.loo_predictions_) > r2_score(y, together.loo_predictions_)


@pytest.mark.parametrize("estimator", EVERY)
def test_degenerate_data(estimator):
    same = estimator().fit(np.ones((4, 2)), [0, 1, 1, 1])
    assert same.predict([[1.0, 1.0]])[0] == pytest.approx(
        1 if estimator is NadarayaWatsonClassifier else 0.75
    )
    alone = estimator().fit([[2.0]], [3])
    assert alone.predict([[0.0]])[0] == 3
    assert alone.bandwidth_ == 1.0
    duplicates = estimator().fit(np.repeat([[0.0], [1.0]], 3, axis=0), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(duplicates.predict([[0.0], [1.0]]), [0, 1], atol=1e-3)


# Weights of samples, several outputs


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_sample_weight_counts_repetitions(estimator):
    X, y = waves(25)
    w = np.random.default_rng(0).integers(0, 4, size=25)
    weighted = estimator().fit(X, y, sample_weight=w)
    repeated = estimator().fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.bandwidth_, repeated.bandwidth_, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)
    np.testing.assert_allclose(
        np.repeat(weighted.loo_predictions_, w[w > 0]), repeated.loo_predictions_, rtol=1e-5
    )


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_several_outputs(estimator):
    X, y = waves(40)
    Y = np.column_stack([y, X[:, 0], np.ones(40)])
    model = estimator(bandwidth=0.6).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == model.loo_predictions_.shape == (40, 3)
    for j in range(3):
        single = estimator(bandwidth=0.6).fit(X, Y[:, j])
        np.testing.assert_allclose(mean[:, j], single.predict(X), rtol=1e-9)


# The classifier


def test_probabilities_are_bayes_rule_with_parzen_densities():
    X, y = load_wine(return_X_y=True)
    X, h = StandardScaler().fit_transform(X), 0.9
    k = slow_kernel(X, X[:5], h)
    expected = np.column_stack([k[:, y == c].sum(axis=1) for c in range(3)])
    expected /= expected.sum(axis=1, keepdims=True)
    model = NadarayaWatsonClassifier(bandwidth=h).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:5]), expected, rtol=1e-8, atol=1e-12)


def test_classifier_keeps_labels():
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    model = NadarayaWatsonClassifier().fit(X, names)
    assert set(model.predict(X)) == set(names)
    np.testing.assert_allclose(
        model.conditional_density(X, ["virginica", "setosa"]), model.predict_proba(X)[:, [2, 0]]
    )
    with pytest.raises(ValueError, match="tulip"):
        model.conditional_density(X, ["tulip"])


@pytest.mark.parametrize("estimator", REGRESSORS)
@pytest.mark.parametrize("bandwidth", ["loo", "loo_common"])
def test_targets_in_other_units_give_the_same_bandwidth(estimator, bandwidth):
    X, y = waves(60)
    h = estimator(bandwidth=bandwidth).fit(X, y).bandwidth_
    for scale in (1e9, 1e-12, 1e-200):
        moved = estimator(bandwidth=bandwidth).fit(X, scale * y)
        np.testing.assert_allclose(moved.bandwidth_, h, rtol=1e-3)


@pytest.mark.parametrize("estimator", EVERY)
def test_weights_whose_sum_is_no_number_are_refused(estimator):
    X, y = waves(20)
    with pytest.raises(ValueError, match=r"sums to more.*1e\+308; give smaller weights"):
        estimator().fit(X, y > 0, sample_weight=np.full(20, 1e308))


def test_scores_beside_nearest_neighbours():
    """Over repeated splits, for one split in five differs from another by more than the margin."""
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
    for load in (load_iris, load_wine):
        X, y = load(return_X_y=True)
        ours, peer = (
            cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=folds).mean()
            for model in (NadarayaWatsonClassifier(), KNeighborsClassifier())
        )
        assert ours > peer - 0.01
    X, y = load_diabetes(return_X_y=True)
    folds = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    peer = cross_val_score(KNeighborsRegressor(10), X, y, cv=folds).mean()
    for estimator in REGRESSORS:
        ours = cross_val_score(estimator(bandwidth="loo_common"), X, y, cv=folds).mean()
        assert ours > peer
    # With ten features, a bandwidth for each is a little too much for 300 points.
    assert cross_val_score(NadarayaWatsonRegressor(), X, y, cv=folds).mean() > peer - 0.03


# Housekeeping


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_memory_budget_does_not_change_the_answer(estimator):
    X, y = waves(80)
    whole = estimator(bandwidth=0.5).fit(X, y)
    with sklearn.config_context(working_memory=0.02):
        parts = estimator(bandwidth=0.5).fit(X, y)
        np.testing.assert_allclose(parts.loo_predictions_, whole.loo_predictions_, rtol=1e-10)
        np.testing.assert_allclose(parts.weights(X), whole.weights(X), atol=1e-12)
        np.testing.assert_allclose(
            parts.conditional_density(X, [0.0, 1.0]), whole.conditional_density(X, [0.0, 1.0])
        )


@pytest.mark.parametrize("estimator", EVERY)
def test_pickle_keeps_predictions(estimator):
    X, t = waves(30)
    model = estimator().fit(X, t > 0)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if estimator in REGRESSORS:
        np.testing.assert_array_equal(
            again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1]
        )


@pytest.mark.parametrize("estimator", EVERY)
def test_bad_input(estimator):
    X, y = waves(20)
    y = y > 0
    for bandwidth in (0.0, -1.0, "scott", [1.0, 2.0, 3.0], [1.0, -1.0], [[1.0, 2.0], [2.0, 1.0]]):
        with pytest.raises(ValueError, match="bandwidth"):
            estimator(bandwidth=bandwidth).fit(X, y)
    with pytest.raises(ValueError, match="kernel"):
        estimator(kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        estimator().fit(np.full((3, 2), np.nan), [0, 1, 1])
    with pytest.raises(ValueError, match="3 features"):
        estimator().fit(X, y).predict(np.ones((1, 3)))
    if estimator in REGRESSORS:
        with pytest.raises(ValueError, match="target_bandwidth"):
            estimator(target_bandwidth=[[1.0]]).fit(X, y)


def test_no_probability_is_beyond_one():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], [-0.5, 0.5])
    model = NadarayaWatsonClassifier(bandwidth=[0.044, 0.073, 0.62]).fit(X, y)
    found = model.predict_proba(X)
    assert found.max() == 1.0
    assert np.nanmax(model.loo_probabilities_) <= 1.0
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
