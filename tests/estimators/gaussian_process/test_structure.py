"""Structure search: recovery of known structures, words, limits, and what it is made of."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import GaussianProcessRegressor, StructureSearch
from mercer import kernels as K
from mercer.estimators.gaussian_process.structure_evidence import SumEvidence, slots
from mercer.estimators.gaussian_process.structure_moves import (
    COMPONENTS,
    Feature,
    bounds,
    factors,
    likely_periods,
    separated,
    steps,
)
from mercer.estimators.gaussian_process.structure_search import GreedySearch
from mercer.estimators.gaussian_process.structure_words import Axis, described, share_text
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.exact import ExactEngine

RNG = np.random.default_rng(0)
MONTHS = pd.DataFrame({"month": np.arange(84.0)})
SEASON = 2 * np.sin(2 * np.pi * np.arange(84) / 12)
Y = 0.1 * np.arange(84) + SEASON + 0.2 * RNG.normal(size=84)


@pytest.fixture(scope="module")
def series():
    return StructureSearch(("linear", "periodic")).fit(MONTHS, Y)


def test_a_trend_and_a_season_are_found(series):
    words = [part["words"] for part in series.report_["parts"]]
    assert words == ["a rising linear trend", "a yearly pattern"]
    truth = np.var(0.1 * np.arange(84)), np.var(SEASON)
    shares = [part["share"] for part in series.report_["parts"]]
    np.testing.assert_allclose(shares, truth / np.var(Y), rtol=0.05)
    assert 0.15 < series.noise_ < 0.25
    later = pd.DataFrame({"month": np.arange(84.0, 120.0)})
    truth = 0.1 * np.arange(84, 120) + 2 * np.sin(2 * np.pi * np.arange(84, 120) / 12)
    mean, std = series.predict(later, return_std=True)
    assert np.abs(mean - truth).max() < 0.5
    assert np.mean(np.abs(mean - truth) < 2 * std) > 0.9


def test_parts_add_up_and_evidence_is_that_of_the_process(series):
    parts = series.predict_parts(MONTHS)
    total = sum(part.mean for part in parts)
    assert np.ptp(series.predict(MONTHS) - total) < 1e-8
    scaled = (MONTHS.to_numpy() - series.low_) / series.span_
    process = GaussianProcessRegressor(
        series.kernel_, noise=series.model_.noise_, mean="constant", normalize_y=True,
        optimizer=None,
    ).fit(scaled, Y)  # fmt: skip
    evidence = process.log_marginal_likelihood_value_
    assert series.report_["evidence"] == pytest.approx(evidence)
    best = max(series.report_["tried"], key=lambda entry: entry["score"])
    assert best["evidence"] == pytest.approx(evidence)
    number = 1 + len(learnable(series.kernel_))
    assert best["score"] == pytest.approx(evidence - 0.5 * np.log(84) * (number + 1))
    for part in parts:
        assert part.share == pytest.approx(np.var(part.mean) / np.var(Y))
    assert K.parse(series.report_["kernel"]).validity.status == "valid"


def test_a_change_point_is_found():
    x = np.linspace(0, 10, 90)[:, None]
    y = np.where(x[:, 0] < 6, 0, 2 * np.sin(2 * np.pi * x[:, 0])) + 0.1 * RNG.normal(size=90)
    search = StructureSearch(("periodic", "change_point"), max_steps=2).fit(x, y)
    words = search.report_["parts"][0]["words"]
    assert "from about x0 = " in words
    place = float(words.partition("x0 = ")[2].split()[0])
    assert 5.5 < place < 6.5


def test_dates_and_their_units():
    dates = pd.date_range("2015-01-01", periods=72, freq="MS")
    t = np.arange(72)
    y = 3 * np.cos(2 * np.pi * t / 12) + 0.1 * RNG.normal(size=72)
    search = StructureSearch(("periodic",), max_steps=1).fit(pd.DataFrame({"when": dates}), y)
    assert search.report_["parts"][0]["words"] == "a yearly pattern"
    plain = StructureSearch(("periodic",), max_steps=1).fit(dates.to_numpy()[:, None], y)
    np.testing.assert_allclose(plain.predict(dates.to_numpy()[:, None]), search.predict(
        pd.DataFrame({"when": dates})))  # fmt: skip
    named = StructureSearch(("periodic",), max_steps=1, unit="day").fit(t[:, None] * 7 / 12, y)
    assert named.report_["parts"][0]["words"] == "a weekly pattern"


def test_two_features():
    X = RNG.uniform(0, 1, size=(80, 2))
    y = np.sin(4 * X[:, 0]) + 2 * X[:, 1] + 0.05 * RNG.normal(size=80)
    table = pd.DataFrame(X, columns=["depth", "load"])
    search = StructureSearch(("linear", "smooth"), max_steps=3).fit(table, y)
    assert search.score(table, y) > 0.98
    text = search.describe()
    assert "in depth" in text
    assert "linear trend in load" in text


def test_callback_time_and_interrupt(series):
    seen = []
    search = StructureSearch(callback=lambda entry: seen.append(entry) or len(seen) >= 3)
    search.fit(MONTHS, Y)
    assert seen == search.report_["tried"]
    assert len(seen) == 3
    assert search.report_["stopped"] == "the callback ended the search"
    search = StructureSearch(max_time=1e-3).fit(MONTHS, Y)
    assert search.report_["stopped"] == "max_time was reached"
    assert len(search.report_["tried"]) == 1
    assert np.isfinite(search.predict(MONTHS)).all()

    def press(entry):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        search = StructureSearch(callback=press).fit(MONTHS, Y)
    assert search.report_["stopped"] == "interrupted"
    assert search.predict(MONTHS).shape == (84,)


def test_data_without_structure():
    noise = RNG.normal(size=60)
    search = StructureSearch().fit(np.arange(60.0)[:, None], noise)
    assert search.report_["parts"] == []
    assert search.describe().startswith("A constant and noise:")
    np.testing.assert_allclose(search.predict([[3.0]]), noise.mean(), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = StructureSearch().fit(np.arange(9.0)[:, None], np.full(9, 4.0))
        same = StructureSearch().fit(np.ones((9, 1)), np.arange(9.0))
    np.testing.assert_allclose(flat.predict([[100.0]]), 4.0)
    np.testing.assert_allclose(same.predict([[1.0]]), 4.0)


def test_more_points_than_the_search_looks_at():
    x = np.sort(RNG.uniform(0, 5, 150))[:, None]
    y = np.sin(3 * x[:, 0]) + 0.1 * RNG.normal(size=150)
    search = StructureSearch(("smooth",), max_points=40, max_steps=1).fit(x, y)
    assert search.model_.posterior_.problem.Y.shape == (150, 1)
    assert search.score(x, y) > 0.95
    assert 0.07 < search.noise_ < 0.13


@pytest.mark.parametrize("wrong", [("linear", "cubic"), ("change_point",), ()])
def test_components_that_are_refused(wrong):
    with pytest.raises(ValueError, match="components="):
        StructureSearch(wrong).fit(MONTHS, Y)


def test_saved_and_loaded(series, tmp_path):
    mercer.save(series, tmp_path / "search.mercer")
    again = mercer.load(tmp_path / "search.mercer")
    np.testing.assert_array_equal(again.predict(MONTHS), series.predict(MONTHS))
    assert again.describe() == series.describe()


def test_samples_pass_near_the_mean(series):
    draws = series.sample_y(MONTHS, 20).T
    mean, std = series.predict(MONTHS, return_std=True)
    assert np.mean(np.abs(draws - mean) < 3 * std) > 0.99


def test_every_step_is_a_kernel_within_its_bounds():
    X = RNG.uniform(0, 1, size=(30, 2))
    features = Feature.all_of(X)
    kernel = 0.5 * K.Matern(2.5, 0.2).on([0]) + 0.1 * K.Linear().on([1])
    kernel = kernel + 0.2 * K.Periodic(0.1).on([1]) * K.Polynomial(1, 1.0, 1.0).on([0])
    found = list(steps(kernel, features, COMPONENTS, {0: [0.1], 1: []}))
    kinds = {step.words.split()[0] for step in found}
    assert kinds >= {"add", "multiply", "remove", "part"}
    for step in found:
        assert step.kernel.validity.status == "valid"
        assert np.isfinite(step.kernel(X)).all()
        for path, own in bounds(step.kernel, features).items():
            if not isinstance(own, str):
                value = _value(step.kernel, path)
                assert own[0] <= value <= own[1], (path, value, own)


@pytest.mark.parametrize("alone", [True, False])
def test_evidence_and_gradient_are_those_of_the_exact_engine(alone):
    X, y = RNG.uniform(0, 1, size=(25, 1 if alone else 2)), RNG.normal(size=25)

    def on(kernel, j):
        return kernel if alone else kernel.on([j])

    kernel = 0.7 * on(K.Matern(2.5, 0.2), 0) * on(K.Polynomial(1, 3.0, 1.0), 0)
    kernel += 0.4 * on(K.Periodic(0.15, 0.8), 0) * on(K.Transition(0.6, 0.05, falling=True), 0)
    kernel += 0.2 * on(K.RationalQuadratic(0.6, 0.3), 1) * on(K.Transition(0.4, 0.1), 0)
    kernel += 1.3 * on(K.Linear(), 1)
    search = GreedySearch(X, y, Feature.all_of(X), None)
    problem = search._problem(kernel, 0.3)
    theta = problem.covariance.theta
    expected = ExactEngine(problem).evidence(theta)
    covariance = problem.covariance
    places = slots(kernel, [entry.path for entry in covariance.entries])
    found = SumEvidence(search.pairs, y, lambda t: covariance.at(np.append(t, 0.0)).whole, places)(
        theta
    )
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-7, atol=1e-9)


def _value(kernel, path):
    for name in path.split("__"):
        kernel = getattr(kernel, name)
    return kernel


def test_a_pattern_has_no_level_of_its_own():
    kernel = 2.0 * K.Periodic(0.1, 0.7) * K.Linear() + 0.5 * K.Periodic(0.1, 2.0)
    (trend, _), (pattern, _), (plain, _) = separated(kernel)
    x = np.linspace(0, 1, 200, endpoint=False)[:, None]
    np.testing.assert_allclose(plain(x).mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(trend(x) + pattern(x), 2.0 * (K.Periodic(0.1, 0.7) * K.Linear())(x))
    assert np.abs(pattern(x, x + 0.5)[:, :20].mean(axis=1)).max() < 0.05
    for part in (trend, pattern, plain):
        assert np.linalg.eigvalsh(part(x)).min() > -1e-10


def test_factors_and_periods():
    term = 2.0 * K.Periodic(0.2) * K.Transition(0.5, 0.02)
    assert [type(f).__name__ for f in factors(term)] == ["Periodic", "Transition"]
    x = np.sort(RNG.uniform(0, 1, 200))
    y = 3 * x + np.sin(2 * np.pi * x / 0.07) + 0.5 * RNG.normal(size=200)
    assert likely_periods(x, y, 1 / 200)[0] == pytest.approx(0.07, rel=0.02)
    assert likely_periods(x, 3 * x + 1, 1 / 200) == []


def test_words():
    x = np.linspace(0, 1, 50)[:, None]
    years = [Axis("year", 1950.0, 50.0, "year")]
    season = K.Periodic(1 / 50, 1.0)
    wave = np.sin(2 * np.pi * 50 * x[:, 0])

    def words(kernel, mean):
        return described(kernel, years, x, mean)

    assert words(1.0 * season * K.Matern(2.5, 0.6), wave) == (
        "a yearly pattern, whose shape changes over about 30 years"
    )
    growing = wave * x[:, 0]
    assert words(1.0 * season * K.Polynomial(1, 9.0, 1.0), growing) == (
        "a yearly pattern, whose size grows"
    )
    assert words(1.0 * season * K.Transition(0.5, 0.01), wave) == (
        "a yearly pattern, from about 1975 on"
    )
    assert words(1.0 * K.Linear(), -x[:, 0]) == "a falling linear trend"
    assert words(1.0 * K.Matern(2.5, 0.3), np.sin(9 * x[:, 0])) == (
        "a smooth curve that varies over about 15 years"
    )
    assert words(1.0 * K.Matern(2.5, 0.01), wave) == "variation over about 6 months"
    assert words(1.0 * K.RationalQuadratic(1.0, 0.04), wave) == (
        "variation on several scales around 2 years"
    )
    plain = [Axis("depth", 0.0, 8.0)]
    assert described(1.0 * K.Periodic(0.25), plain, x, wave) == (
        "a pattern of period 2 units of depth"
    )
    assert share_text(0.031) == "3.1 % of the variance"


@parametrize_with_checks([StructureSearch(("linear", "smooth"), max_steps=1, max_points=25)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
