"""Support vector machines against their definitions, without a bias, and with a hard margin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn import datasets, svm
from sklearn.exceptions import ConvergenceWarning

from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR
from svm_examples import EXACT, blobs, load

# ---------------------------------------------------------------------- definitions, and no bias


def primal_optimum(X, y, C, loss, bias):
    """The primal problem over (w, b) in the linear kernel, smoothed by slack variables."""
    n, d = X.shape

    def split(v):
        return v[:d], v[d] if bias else 0.0, v[d + 1 :]

    def price(v):
        w, _, slack = split(v)
        return 0.5 * w @ w + C * slack.sum()

    constraints = [
        {"type": "ineq", "fun": lambda v, s=s: split(v)[2] - s(X @ split(v)[0] + split(v)[1], y)}
        for s in loss
    ]
    bounds = [(None, None)] * (d + 1) + [(0, None)] * n
    start = np.concatenate([np.zeros(d + 1), np.full(n, 10.0)])
    found = minimize(
        price,
        start,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return split(found.x)[:2]


@pytest.mark.parametrize("bias", [True, False])
def test_svc_minimises_its_primal(bias):
    X, y = blobs(14, gap=0.5)
    sign = 2.0 * y - 1
    w, _ = primal_optimum(X, sign, 0.7, [lambda f, y: 1 - y * f], bias)
    ours = SVC(kernel="linear", C=0.7, tol=EXACT, fit_intercept=bias).fit(X, y)
    assert_allclose(ours.coef_[0], w, atol=1e-4)
    if not bias:
        assert ours.intercept_[0] == 0
    assert_allclose(ours.margin_, 1 / np.linalg.norm(w), rtol=1e-4)
    assert_allclose(ours.decision_function(X), X @ w + ours.intercept_[0], atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_svr_minimises_its_primal(bias):
    X, y = blobs(14, gap=0.5)
    t = X[:, 0] - 0.5 * X[:, 1] + 2.0 + 0.3 * y
    tube = [lambda f, t: t - f - 0.1, lambda f, t: f - t - 0.1]
    w, _ = primal_optimum(X, t, 0.7, tube, bias)
    ours = SVR(kernel="linear", C=0.7, tol=EXACT, fit_intercept=bias).fit(X, t)
    assert_allclose(ours.coef_[0], w, atol=1e-4)


@pytest.mark.parametrize("solver", ["smo", "interior_point"])
def test_without_a_bias_a_constant_feature_stands_for_none(solver):
    # With a large constant feature, the bias is as good as free: both machines then agree.
    X, y = blobs(30, gap=0.7)
    wide = np.hstack([X, np.full((len(X), 1), 1e3)])
    without = SVC(kernel="linear", fit_intercept=False, tol=1e-7, solver=solver).fit(wide, y)
    within = SVC(kernel="linear", tol=1e-7, solver=solver).fit(X, y)
    assert_allclose(without.decision_function(wide), within.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR])
def test_both_solvers_agree_without_a_bias(model):
    X, y = load("iris")
    options = {"fit_intercept": False, "tol": 1e-9}
    if model in (NuSVC, NuSVR):
        options["nu"] = 0.3
    target = y if model in (SVC, NuSVC) else y + 1.5
    pairs = model(solver="smo", **options).fit(X, target)
    interior = model(solver="interior_point", **options).fit(X, target)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(pairs, method)(X), getattr(interior, method)(X), atol=1e-5)
    assert np.all(pairs.intercept_ == 0)


def test_nu_is_the_price_in_other_words():
    # SVC with C = 1 / (rho n) is NuSVC: its coefficients at the bound are the price.
    X, y = load("breast_cancer")
    by_share = NuSVC(nu=0.2, tol=1e-10).fit(X, y)
    price = np.abs(by_share.dual_coef_).max()
    by_price = SVC(C=price, tol=1e-10).fit(X, y)
    assert_allclose(by_price.decision_function(X), by_share.decision_function(X), atol=1e-5)


def test_nu_without_a_margin_is_said_aloud():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.warns(ConvergenceWarning, match=r"nu=0\.9 leaves no margin.*larger nu"):
        model = NuSVC(nu=0.9, kernel="linear").fit(X, [0, 1, 1, 0])
    assert model.fit_status_ == 1
    assert np.all(np.isfinite(model.decision_function(X)))


def test_a_pair_without_a_margin_leaves_the_others_as_they_are():
    X, y = datasets.make_classification(n_classes=4, n_informative=4, random_state=42)
    with pytest.warns(ConvergenceWarning, match="leaves no margin"):
        model = NuSVC(kernel="linear", decision_function_shape="ovo").fit(X, y)
    pair = (y == 0) | (y == 1)
    alone = NuSVC(kernel="linear").fit(X[pair], y[pair])
    assert_allclose(model.decision_function(X)[:, 0], -alone.decision_function(X), atol=2e-3)
    assert abs(model.score(X, y) - svm.NuSVC(kernel="linear").fit(X, y).score(X, y)) < 0.1


# ------------------------------------------------------------------------------- the hard margin


@pytest.mark.parametrize("solver", ["auto", "smo", "interior_point"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_hard_margin_is_the_limit_of_large_prices(kernel, solver):
    X, y = blobs(40, gap=3.0)
    hard = SVC(C=np.inf, kernel=kernel, tol=1e-7, solver=solver).fit(X, y)
    soft = svm.SVC(C=1e8, kernel=kernel, tol=1e-7).fit(X, y)
    assert_allclose(hard.decision_function(X), soft.decision_function(X), atol=1e-5)
    assert_array_equal(hard.support_, soft.support_)
    margins = (2 * y - 1) * hard.decision_function(X)
    assert_allclose(margins.min(), 1.0, atol=1e-5)
    assert_allclose(margins[hard.support_], 1.0, atol=1e-5)
    assert hard.dual_gap_ < 1e-5


@pytest.mark.parametrize("solver", ["auto", "interior_point"])
def test_hard_margin_of_classes_that_overlap_is_an_error(solver):
    X, y = blobs(40, gap=0.2)
    with pytest.raises(ValueError, match=r"C=inf asks for a hard margin.*use a finite C"):
        SVC(C=np.inf, kernel="linear", solver=solver).fit(X, y)


def test_hard_tube():
    X = np.linspace(0, 1, 12)[:, None]
    t = 3 * X[:, 0] + 0.05 * (-1) ** np.arange(12)
    model = SVR(C=np.inf, kernel="linear", epsilon=0.1, tol=1e-8).fit(X, t)
    assert np.abs(model.predict(X) - t).max() <= 0.1 + 1e-6
    flattest = svm.SVR(C=1e7, kernel="linear", epsilon=0.1, tol=1e-8).fit(X, t)
    assert_allclose(model.coef_, flattest.coef_, atol=1e-5)
    with pytest.raises(ValueError, match=r"within epsilon=0\.01 .*use a finite C"):
        SVR(C=np.inf, kernel="linear", epsilon=0.01).fit(X, t)
