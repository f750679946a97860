"""AutoKernel*: the criterion against refits, raw tables, and what a user would try first."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_friedman1
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelRidge
from mercer import kernels as K
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor, automatic, table_search
from mercer.auto.leave_one_out import Slopes, best_alpha, least_alpha, left_out, weighed
from mercer.auto.search import median_distance
from mercer.solvers.eigensystem import Eigensystem
from mercer.solvers.result import Budget
from mercer.tables.coding import TableCoding


def refitted(G, Y, alpha):
    """Residuals of as many fits as there are points, each without one."""
    residual = np.empty_like(Y)
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        A = G[np.ix_(rest, rest)] + alpha * np.eye(len(rest))
        residual[i] = Y[i] - G[i, rest] @ np.linalg.solve(A, Y[rest])
    return residual


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_errors_of_leave_one_out_are_those_of_refits(alpha):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(25, 3)), rng.normal(size=(25, 2))
    G = K.RBF(0.2)(X)
    expected = refitted(G, Y, alpha)
    error, residual = left_out(G, Y, alpha)
    np.testing.assert_allclose(residual, expected, rtol=1e-9)
    assert error == pytest.approx(np.mean(expected**2))
    single = left_out(G.astype(np.float32), Y, alpha)[1]
    np.testing.assert_allclose(single, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(Y - Eigensystem(G).leave_one_out(Y, alpha), expected, rtol=1e-9)


def test_weighted_errors_of_leave_one_out_are_those_of_refits():
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(25, 3)), rng.normal(size=(25, 2)), rng.uniform(0.2, 3, 25)
    G, alpha, roots = K.RBF(0.2)(X), 0.3, np.sqrt(weight)
    expected = np.empty_like(Y)
    for i in range(25):
        rest = np.arange(25) != i
        model = KernelRidge(alpha=alpha, kernel="precomputed")
        model.fit(G[np.ix_(rest, rest)], Y[rest], sample_weight=weight[rest])
        expected[i] = Y[i] - model.predict(G[i, rest][None])[0]
    error, residual = left_out(weighed(G, roots), roots[:, None] * Y, alpha)
    np.testing.assert_allclose(residual / roots[:, None], expected, rtol=1e-8)
    assert error == pytest.approx(np.mean(weight @ expected**2) / 25)


@pytest.mark.parametrize("start", [None, 1e-12, 1e-6, 1.0, 1e6])
def test_the_walk_ends_where_neighbours_are_no_better(start):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(60, 2))
    G, Y = K.RBF(0.5)(X), np.sin(X[:, :1]) + 0.3 * rng.normal(size=(60, 1))
    looked = []
    error, alpha, residual = best_alpha(G, Y, start, 4.0, lambda *found: looked.append(found))
    assert error == min(found for _, found in looked)
    np.testing.assert_allclose(residual, refitted(G, Y, alpha), rtol=1e-5, atol=1e-9)
    for neighbour in (alpha / 4, 4 * alpha):
        if least_alpha(G) <= neighbour <= 100:
            assert left_out(G, Y, neighbour)[0] > 0.98 * error

    def tired(alpha, error):
        raise TimeoutError

    assert best_alpha(G, Y, 1.0, 4.0, tired)[1] == 1.0


def test_what_rounding_makes_indefinite_has_no_error():
    G = np.array([[1.0, 2.0], [2.0, 1.0]])
    error, residual = left_out(G, np.ones((2, 1)), 0.1)
    assert error == np.inf
    assert np.all(np.isinf(residual))


@pytest.mark.parametrize(
    "kernel", [K.RBF(0.3), K.Matern(1.5, 1.3), K.Matern(2.5, 0.8), K.Exponential(0.4)], ids=repr
)
@pytest.mark.parametrize("roots", [None, np.linspace(0.3, 1.8, 20)], ids=["plain", "weighted"])
def test_slopes_against_differences(kernel, roots):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    scales, alpha, h = np.array([0.7, 1.4, 2.0]), 0.3, 1e-5

    def error(scales, alpha):
        return left_out(weighed(kernel.set_params(scales=scales)(X), roots), Y, alpha)[0]

    expected = [
        scales @ e * (error(scales + h * e, alpha) - error(scales - h * e, alpha)) / (2 * h)
        for e in np.eye(3)
    ]
    by_alpha = (error(scales, alpha + h) - error(scales, alpha - h)) / (2 * h)
    found = Slopes(kernel.set_params(scales=np.ones(3)), X, Y, roots).at(scales, alpha)
    assert found[0] == pytest.approx(error(scales, alpha))
    np.testing.assert_allclose(found[1], expected, rtol=1e-6, atol=1e-9)
    assert found[2] == pytest.approx(by_alpha, rel=1e-6)


def test_tables_of_all_kinds_become_points():
    table = pd.DataFrame(
        {
            "height": [1.0, 2.0, np.nan, 3.0, 4.0, 2.5],
            "colour": ["red", "blue", "red", None, "blue", "green"],
            "same": [7, 7, 7, 7, 7, 7],
            "number in words": ["1", "2", "3", "4", "5", "6"],
        }
    )
    coding = TableCoding().fit(table)
    assert coding.kinds_ == ["number", "category", "number", "number"]
    points = coding.transform(table)
    # height and the words' number, a gap, and three colours: red, blue and any other
    assert points.shape == (6, 6)
    np.testing.assert_allclose(points[:, :2].mean(axis=0), 0, atol=1e-12)
    assert points[2, 0] == pytest.approx(
        (2.5 - np.mean([1, 2, 2.5, 3, 4, 2.5])) / np.std([1, 2, 2.5, 3, 4, 2.5])
    )
    assert points[:, 2].tolist() == [0, 0, 1, 0, 0, 0]
    colours = points[:, 3:]
    distances = np.sum((colours[0] - colours) ** 2, axis=1)
    np.testing.assert_allclose(distances, [0, 1, 0, 1, 1, 1])
    np.testing.assert_allclose(colours[3], colours[5])  # missing and rare
    unseen = coding.transform(table.assign(colour="violet"))
    np.testing.assert_allclose(unseen[0, 3:], colours[5])


@pytest.mark.parametrize("scaling", ["standard", "normal", "common"])
def test_scalings(scaling):
    rng = np.random.default_rng(2)
    X = np.exp(rng.normal(size=(500, 3)) * [1, 2, 3])
    points = TableCoding(scaling).fit(X).transform(X)
    again = TableCoding(scaling).fit(1000 * X).transform(1000 * X)
    np.testing.assert_allclose(points, again, atol=1e-9)
    if scaling == "standard":
        np.testing.assert_allclose(points.std(axis=0), 1)
    elif scaling == "normal":
        np.testing.assert_allclose(
            np.quantile(points, [0.16, 0.5, 0.84], axis=0)[:, 0], [-0.994, 0, 0.994], atol=0.05
        )
    else:
        np.testing.assert_allclose(
            points.std(axis=0), X.std(axis=0) / np.sqrt(np.mean(X.var(axis=0)))
        )


def test_equal_values_have_equal_scores():
    X = np.repeat([0.0, 1.0, 5.0], [60, 30, 10])[:, None]
    scores = TableCoding("normal").fit(X).transform(X).ravel()
    assert len(np.unique(scores)) == 3
    assert np.all(np.diff(scores) >= 0)
    assert abs(scores[0]) < 1


def test_the_features_that_matter_are_found():
    X, y = make_friedman1(1200, n_features=12, noise=0.5, random_state=0)
    model = AutoKernelRegressor().fit(X[:900], y[:900])
    parts = model.kernel_.get_params()
    rates = [parts[f"{side}__right__scales"] ** -1.0 for side in ("left", "right")]
    # What a column moves, whichever kernel and coordinate of it.
    moved = np.maximum(*rates)
    of_columns = np.array([moved[model.coding_.owners_ == k].max() for k in range(12)])
    assert np.median(of_columns[5:]) < of_columns[:5].min()
    assert model.score(X[900:], y[900:]) > 0.95
    assert model.report_["left_one_out"] == model.report_["leave_one_out"]  # the key before
    assert model.report_["leave_one_out"] < 0.1 * model.report_["baseline"]
    assert [trial["seconds"] for trial in model.report_["tried"]] == sorted(
        trial["seconds"] for trial in model.report_["tried"]
    )


def test_scales_that_fit_noise_are_not_taken():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 30)), rng.normal(size=120)
    model = AutoKernelRegressor().fit(X, y)
    assert model.report_["leave_one_out"] > 0.8 * model.report_["baseline"]


def test_numbers_categories_and_sequences_in_one_table():
    rng = np.random.default_rng(4)
    n = 300
    group = rng.choice(["a", "b", "c"], n)
    sequence = ["".join(rng.choice(list("ACGT"), 30)) for _ in range(n)]
    marked = rng.random(n) < 0.5
    sequence = [
        s[:10] + "TTTTTTT" + s[17:] if m else s for s, m in zip(sequence, marked, strict=True)
    ]
    table = pd.DataFrame({"dose": rng.normal(size=n), "group": group, "sequence": sequence})
    y = np.where(marked ^ (group == "a"), "yes", "no")
    model = AutoKernelClassifier().fit(table[:220], y[:220])
    assert model.coding_.kinds_ == ["number", "category", "text"]
    assert model.score(table[220:], y[220:]) > 0.7
    assert "Spectrum" in repr(model.kernel_) or "WeightedDegree" in repr(model.kernel_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_sequences_alone():
    rng = np.random.default_rng(5)
    texts = np.array(
        ["".join(rng.choice(list("ACGT"), rng.integers(20, 40))) for _ in range(150)], dtype=object
    )
    y = np.array(["AC" in t[:10] for t in texts])
    model = AutoKernelClassifier().fit(texts[:, None], y)
    assert model.coding_.kinds_ == ["text"]
    assert model.predict(texts[:, None]).dtype == bool


def test_probabilities_are_calibrated_by_leave_one_out():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(800, 2))
    chance = 1 / (1 + np.exp(-3 * X[:, 0]))
    y = (rng.random(800) < chance).astype(int)
    model = AutoKernelClassifier().fit(X[:400], y[:400])
    found = model.predict_proba(X[400:])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.mean(np.abs(found[:, 1] - chance[400:])) < 0.1
    np.testing.assert_array_equal(found.argmax(axis=1), model.predict(X[400:]))
    signs = model.decision_function(X[400:]) > 0
    np.testing.assert_array_equal(signs.astype(int), model.predict(X[400:]))


def test_more_rows_than_are_fitted_exactly(monkeypatch):
    X, y = make_friedman1(900, n_features=6, noise=0.5, random_state=1)
    exact = AutoKernelRegressor().fit(X[:700], y[:700])
    monkeypatch.setattr(automatic, "EXACT_AT_MOST", 100)
    monkeypatch.setattr(automatic, "_CENTRES", 200)
    model = AutoKernelRegressor().fit(X[:700], y[:700])
    assert "nystrom" in model.report_["solver"]
    assert model.score(X[700:], y[700:]) > exact.score(X[700:], y[700:]) - 0.02


def test_the_same_seed_gives_the_same_model():
    X, y = load_diabetes(return_X_y=True)
    first, second = (AutoKernelRegressor(random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


def test_little_time_gives_a_usable_model():
    X, y = load_iris(return_X_y=True)
    model = AutoKernelClassifier(max_time=1e-6).fit(X, y)
    assert len(model.report_["tried"]) < 6
    assert model.score(X, y) > 0.9


def test_it_cross_validates():
    X, y = load_iris(return_X_y=True, as_frame=True)
    assert cross_val_score(AutoKernelClassifier(), X, y, cv=3).mean() > 0.94


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(ValueError, match="one class"):
        AutoKernelClassifier().fit([[1.0], [2.0]], ["a", "a"])
    with pytest.raises(ValueError, match="inconsistent"):
        AutoKernelRegressor().fit([[1.0], [2.0]], [1.0])
    with pytest.raises(ValueError, match="infinite value at row 1"):
        AutoKernelRegressor().fit([[1.0], [np.inf]], [1.0, 2.0])


def test_a_table_of_another_width_is_refused_by_name():
    X, y = make_friedman1(60, n_features=5, random_state=0)
    with pytest.raises(ValueError, match="AutoKernelRegressor is expecting 5 features"):
        AutoKernelRegressor().fit(X, y).predict(X[:, :2])


def test_columns_that_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AutoKernelRegressor().fit(np.zeros((10, 2)), np.arange(10.0))
        classes = AutoKernelClassifier().fit(np.zeros((10, 2)), list("aabcccabcc"))
    np.testing.assert_allclose(model.predict(np.ones((2, 2))), 4.5)
    assert classes.predict(np.ones((3, 2))).tolist() == ["c"] * 3
    two = AutoKernelRegressor().fit(np.zeros((4, 1)), np.arange(8.0).reshape(4, 2))
    np.testing.assert_allclose(two.predict(np.ones((3, 1))), [[3.0, 4.0]] * 3)


def test_the_time_that_is_left_bounds_the_last_fit(monkeypatch):
    X, y = make_friedman1(900, n_features=6, noise=0.5, random_state=1)
    monkeypatch.setattr(Budget, "seconds", property(lambda budget: 0.0))
    exact = AutoKernelRegressor(max_time=1e6).fit(X, y)
    assert len(exact.model_.dual_coef_) == 900
    monkeypatch.setattr(Budget, "seconds", property(lambda budget: 1e6))
    few = AutoKernelRegressor(max_time=1.0).fit(X, y)
    assert len(few.model_.dual_coef_) == automatic._FEWEST_CENTRES
    assert few.score(X, y) > 0.5


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e200, 1e300])
@pytest.mark.parametrize("scaling", ["standard", "normal", "common"])
def test_numbers_of_any_size(size, scaling):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(50, 2)) + 3
    plain = TableCoding(scaling).fit(X).transform(X)
    found = TableCoding(scaling).fit(size * X).transform(size * X)
    np.testing.assert_allclose(found, plain, atol=1e-6)
    y = X[:, 0] * X[:, 1]
    model = AutoKernelRegressor().fit(size * X, size * y)
    expected = AutoKernelRegressor().fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(size * X) / size, expected, rtol=1e-3)


def test_words_where_numbers_were_count_as_missing_with_a_warning():
    rng = np.random.default_rng(10)
    table = pd.DataFrame({"dose": rng.normal(size=40), "age": rng.normal(size=40)})
    model = AutoKernelRegressor().fit(table, table.dose + table.age)
    later = table.astype(object)
    later.loc[[4, 7], "dose"] = ["much", "little"]
    later.loc[5, "dose"] = None
    later.loc[6, "dose"] = "1.5"
    with pytest.warns(UserWarning, match="'dose' .* 2 .* 'much'") as heard:
        found = model.predict(later)
    assert len(heard) == 1
    later.loc[[4, 7], "dose"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(found, model.predict(later))


def test_the_median_distance():
    assert median_distance(np.zeros((5, 2))) == 1.0
    assert median_distance(np.array([[0.0], [3.0]])) == pytest.approx(3.0)


def weighed_table(n=80):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice([*"uv"], n)}
    )
    y = np.sin(2 * X.a) + X.b * (X.c == "u") + 0.2 * rng.normal(size=n)
    return X, y.to_numpy(), rng.integers(0, 4, size=n)


def models_of(y):
    """A regression and a classification, with what each says of a table."""
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    return [
        (AutoKernelRegressor(), y, AutoKernelRegressor.predict),
        (AutoKernelClassifier(), labels, AutoKernelClassifier.predict_proba),
    ]


@pytest.mark.parametrize("exact", [True, False])
def test_rows_without_weight_are_not_there(exact, monkeypatch):
    monkeypatch.setattr(automatic, "EXACT_AT_MOST", 5000 if exact else 0)
    X, y, weight = weighed_table()
    there = weight > 0
    for model, targets, said in models_of(y):
        whole = clone(model).fit(X, targets, sample_weight=weight)
        part = clone(model).fit(X[there], targets[there], sample_weight=weight[there])
        assert repr(whole.kernel_) == repr(part.kernel_)
        assert whole.alpha_ == part.alpha_
        np.testing.assert_array_equal(said(whole, X), said(part, X))
        louder = clone(model).fit(X, targets, sample_weight=8.0 * weight)
        np.testing.assert_allclose(said(louder, X), said(whole, X), rtol=1e-9)
        plain = clone(model).fit(X, targets)
        even = clone(model).fit(X, targets, sample_weight=np.full(len(X), 3.0))
        np.testing.assert_allclose(said(even, X), said(plain, X), rtol=1e-6, atol=1e-9)
        assert not np.allclose(said(whole, X), said(plain, X), atol=1e-3)


def test_the_fit_counts_a_weight_of_two_as_two_rows():
    X, y, weight = weighed_table()
    times = np.repeat(np.arange(len(X)), weight)
    model = AutoKernelRegressor().fit(X, y, sample_weight=weight)
    scale = weight[weight > 0].mean()  # weights have mean 1 in the fit
    points, targets = model.coding_.transform(X), (y - model.y_mean_) / model.y_scale_
    assert model.y_mean_ == pytest.approx(y[times].mean())
    assert model.y_scale_ == pytest.approx(y[times].std())
    ridge = KernelRidge(alpha=scale * model.alpha_, kernel=model.kernel_)
    ridge.fit(points[times], targets[times])
    expected = ridge.predict(points) * model.y_scale_ + model.y_mean_
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6, atol=1e-8)


def test_weights_count_in_what_is_reported():
    X, y, weight = weighed_table()
    labels = np.where(y > 0, "b", "a")
    model = AutoKernelClassifier().fit(X, labels, sample_weight=weight)
    assert model.report_["baseline_accuracy"] == pytest.approx(
        max(weight[labels == c].sum() for c in "ab") / weight.sum()
    )
    np.testing.assert_allclose(model.shares_, weight[labels == "b"].sum() / weight.sum())
    regression = AutoKernelRegressor().fit(X, y, sample_weight=weight)
    assert regression.report_["baseline"] == pytest.approx(1.0)


def test_weights_that_leave_too_little():
    X, y, _ = weighed_table()
    with pytest.raises(ValueError, match=r"1 sample\(s\) of positive weight"):
        AutoKernelRegressor().fit(X, y, sample_weight=1.0 * (np.arange(len(y)) == 3))
    with pytest.raises(ValueError, match="all samples of class True have weight zero"):
        AutoKernelClassifier().fit(X, y > 0, sample_weight=1.0 * (y <= 0))
    with pytest.raises(ValueError, match="Negative values"):
        AutoKernelRegressor().fit(X, y, sample_weight=-np.ones(len(y)))


TWINS = "the kernel is chosen by leave-one-out, which removes a row of weight two as a whole"
REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": TWINS for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [AutoKernelRegressor(), AutoKernelClassifier()], expected_failed_checks=lambda model: REPEATED
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_the_same_values_in_another_dress():
    rng = np.random.default_rng(7)
    level = rng.choice(["1", "2", "A"], 60)
    y = np.select([level == "1", level == "2"], [0.0, 5.0], -5.0)
    model = AutoKernelRegressor().fit(pd.DataFrame({"g": level}), y)
    words = pd.DataFrame({"g": ["1", "2"]})
    numbers = pd.DataFrame({"g": [1.0, 2.0]})
    np.testing.assert_allclose(model.predict(numbers), model.predict(words))
    truth = pd.DataFrame({"b": rng.random(60) < 0.5})
    model = AutoKernelRegressor().fit(truth, 5.0 * truth.b)
    with_gap = pd.DataFrame({"b": pd.Series([True, False, None], dtype=object)})
    np.testing.assert_allclose(model.predict(with_gap)[:2], [5, 0], atol=0.5)


def test_words_that_never_come_twice_are_texts():
    words = np.array([["hund"], ["katze"], ["chien"], ["chat"]], dtype=object)
    assert TableCoding().fit(words).kinds_ == ["text"]
    assert TableCoding().fit(np.vstack([words, words[:1]])).kinds_ == ["category"]


def test_kinds_that_pandas_tells():
    days = pd.date_range("2020-01-01", periods=60)
    table = pd.DataFrame(
        {
            "day": days.tz_localize("Europe/Paris"),
            "code": pd.Categorical(np.arange(60) % 3),
            "words": pd.array(["x", None, "z"] * 20, dtype="string"),
            "yes": pd.array([True, None, False] * 20, dtype="boolean"),
        }
    )
    table.loc[3, "day"] = pd.NaT
    coding = TableCoding().fit(table)
    assert coding.kinds_ == ["number", "category", "category", "number"]
    points = coding.transform(table)
    assert np.all(np.isfinite(points))
    assert AutoKernelRegressor().fit(table, np.arange(60.0)).score(table, np.arange(60.0)) > 0.9


DAYS = pd.date_range("2020-01-30", periods=60)


@pytest.mark.parametrize(
    "written",
    [
        DAYS.strftime("%Y-%m-%d").to_numpy(dtype=object),
        DAYS.strftime("%Y-%m-%d").to_numpy(dtype=str),
        DAYS.strftime("%d.%m.%Y"),
        DAYS.strftime(" %Y-%m-%d 00:00"),
        DAYS.strftime("%Y-%m-%dT01:00:00.000+01:00"),
        DAYS.date,
        DAYS.to_period("D"),
        pd.array(DAYS.strftime("%Y-%m-%d"), dtype="string"),
    ],
    ids=["words", "array", "points", "minutes", "zone", "dates", "periods", "strings"],
)
def test_written_days_are_days(written):
    times, words = pd.DataFrame({"day": DAYS}), pd.DataFrame({"day": written})
    expected = TableCoding().fit(times).transform(times)
    for training in (times, words):
        coding = TableCoding().fit(training)
        assert (coding.kinds_, coding.days_) == (["number"], [0])
        np.testing.assert_allclose(coding.transform(words), expected)
        np.testing.assert_allclose(coding.transform(times), expected)


def test_periods_are_known_by_their_beginning():
    months = pd.DataFrame({"month": pd.period_range("2019-11", periods=12, freq="M")})
    begun = pd.DataFrame({"month": months.month.dt.to_timestamp()})
    points = TableCoding().fit(months).transform(months)
    np.testing.assert_allclose(points, TableCoding().fit(begun).transform(begun))


def test_what_is_no_day_among_days():
    words = pd.DataFrame({"day": DAYS.strftime("%Y-%m-%d").astype(object)})
    words.loc[3, "day"] = None
    coding = TableCoding().fit(words)
    new = pd.DataFrame({"day": ["2020-02-29", "2020-02-30", None, "7"]})
    with pytest.warns(UserWarning, match="'day' held days in training and now has 2 .*2020-02-30"):
        points = coding.transform(new)
    assert points[:, 1].tolist() == [0, 1, 1, 1]
    words.loc[3, "day"] = "2020-02-30"
    assert TableCoding().fit(words).kinds_ == ["text"]
    assert TableCoding().fit(words.astype("category")).kinds_ == ["category"]


def test_days_of_other_centuries():
    table = pd.DataFrame({"day": np.array(["1500-01-01", "2500-01-01"], dtype="M8[s]")})
    assert TableCoding().fit(table).transform(table).ravel().tolist() == [-1, 1]


@pytest.mark.parametrize("seed", [0, 6])
def test_no_regulariser_is_chosen_that_rounding_forbids(seed, recwarn):
    n, rng = 300, np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.normal(80, 25, n),
            "rooms": rng.integers(1, 6, n),
            "district": rng.choice(list("ABCD"), n),
            "balcony": rng.choice(["y", "n"], n),
        }
    )
    districts = table.district.map({"A": 0, "B": 2e4, "C": 6e4, "D": 4e4})
    y = 2000 * table["size"] + 15000 * table.rooms + districts + rng.normal(0, 12000, n)
    model = AutoKernelRegressor().fit(table, y)
    assert not recwarn
    assert model.model_.result_.status.ok
    assert model.report_["leave_one_out"] < 0.05


def test_a_regulariser_that_is_too_small_for_all_rows_is_raised(monkeypatch, recwarn):
    def least(G, Y, *others):
        return np.inf, least_alpha(G), np.full_like(Y, np.inf)

    monkeypatch.setattr(automatic, "best_alpha", least)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    monkeypatch.setattr(table_search, "kernel_of", lambda parts: K.RBF(1e-6))
    model = AutoKernelRegressor().fit(X, X.sum(axis=1) + rng.normal(size=300))
    assert model.alpha_ > 3 * least_alpha(model.kernel_(model.coding_.transform(X)))
    assert model.report_["leave_one_out"] < 0.5
    assert not recwarn


def test_an_error_that_rounding_makes_is_none():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(100, 2)), rng.normal(size=(100, 1))
    Y -= Y.mean()
    G = K.RBF(1e-5)(X)
    assert left_out(G, Y, least_alpha(G))[0] == np.inf
    assert np.isfinite(left_out(G, Y, 1e-3)[0])
    assert np.isfinite(left_out(np.ones((100, 100)), Y, 1e-3)[0])  # which does not see Y


def test_rows_that_are_all_the_same_give_the_mean(recwarn):
    table, y = pd.DataFrame({"a": ["x"] * 40, "b": 1.0}), np.arange(40.0)
    model = AutoKernelRegressor().fit(table, y)
    assert not recwarn
    np.testing.assert_allclose(model.predict(pd.DataFrame({"a": ["x", "z"], "b": [1, 2]})), 19.5)
    assert model.report_["leave_one_out"] == pytest.approx(1)


def test_masks_and_empty_tables():
    masked = np.ma.masked_array(np.arange(40.0).reshape(20, 2), mask=False)
    masked[:, 0] = np.ma.masked
    assert TableCoding().fit(masked).transform(masked).shape == (20, 2)  # column 1 and a gap
    with pytest.raises(ValueError, match="0 feature"):
        AutoKernelRegressor().fit(pd.DataFrame(index=range(5)), np.arange(5.0))


def test_one_text_of_another_length():
    rng = np.random.default_rng(8)
    texts = np.array(["".join(rng.choice(list("ACGT"), 12)) for _ in range(500)], dtype=object)
    y = np.array([t[3] == "A" for t in texts])
    texts[-1] = None
    model = AutoKernelClassifier().fit(pd.DataFrame({"t": texts}), y)
    assert "WeightedDegree" not in repr(model.kernel_)
    model.predict(pd.DataFrame({"t": [None, "ACG"]}))


def test_ranks_are_those_of_float32_too():
    rng = np.random.default_rng(0)
    X = np.stack([rng.choice([0.1, 0.7, 0.3], 601), 1e6 + rng.normal(size=601)], axis=1)
    coding = TableCoding("normal").fit(X)
    points = coding.transform(X)
    assert len(np.unique(points[:, 0])) == 3
    assert len(np.unique(points[:, 1])) > 400
    shares = np.mean(X[:, :1] < [0.1, 0.3, 0.7], axis=0) + np.mean(
        X[:, :1] <= [0.1, 0.3, 0.7], axis=0
    )
    np.testing.assert_allclose(np.unique(points[:, 0]), ndtri(shares / 2), atol=0.01)
    np.testing.assert_allclose(coding.transform(X.astype(np.float32))[:, 0], points[:, 0])


def test_probabilities_leave_room_for_doubt_where_all_rows_are_told_apart():
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = X[:, 0] > 0
    model = AutoKernelClassifier(random_state=0).fit(X[:120], y[:120])
    assert model.report_["leave_one_out_accuracy"] > 0.98
    assert log_loss(y[120:], model.predict_proba(X[120:])) < 0.05
