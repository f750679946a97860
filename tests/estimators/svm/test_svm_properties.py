"""What must hold of support vector machines on any small data set, however strange."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
TIGHT = {"tol": 1e-8, "solver": "smo"}


@st.composite
def data_sets(draw, classes=2, exponents=(-40, 40)):
    """Few points, often repeated, of few values at any scale; every class is there."""
    n, d = draw(st.integers(classes, 12)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(-3, 3), min_size=d, max_size=d)
    X = np.array(draw(st.lists(rows, min_size=n, max_size=n)), dtype=float)
    y = np.array(
        [
            *range(classes),
            *draw(
                st.lists(st.integers(0, classes - 1), min_size=n - classes, max_size=n - classes)
            ),
        ]
    )
    weight = np.array(draw(st.lists(st.sampled_from([0.25, 1.0, 3.0]), min_size=n, max_size=n)))
    return X * 2.0 ** draw(st.integers(*exponents)), y, weight


def gram(model, X):
    return model.kernel_(X)


def hinge_gap(model, X, y, weight):
    """Primal minus dual objective of a fitted SVC for two classes, from the definitions."""
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    G, sign, price = gram(model, X), 2.0 * y - 1, model.C * weight
    assert np.all(sign * beta >= 0)
    assert np.all(np.abs(beta) <= price * (1 + 1e-12))
    assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    f = G @ beta + model.intercept_
    primal = 0.5 * beta @ G @ beta + price @ np.maximum(0, 1 - sign * f)
    dual = np.abs(beta).sum() - 0.5 * beta @ G @ beta
    return primal - dual, dual


@EXAMPLES
@given(
    data_sets(exponents=(-8, 8)),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from(["rbf", "linear"]),
)
def test_the_certificate_is_true(data, C, kernel):
    X, y, weight = data
    model = SVC(C=C, kernel=kernel).fit(X, y, weight)
    gap, dual = hinge_gap(model, X, y, weight)
    assert model.fit_status_ == 0
    assert gap <= 0.011 * max(1.0, abs(dual))
    assert_allclose(gap / max(1.0, abs(dual)), model.dual_gap_, rtol=1e-4, atol=1e-7 * (1 + C))


@EXAMPLES
@given(data_sets(classes=3), st.integers(-200, 200))
def test_scale_does_not_matter_where_gamma_follows_it(data, exponent):
    X, y, weight = data
    for model in (SVC(decision_function_shape="ovo"), SVR(), OneClassSVM()):
        one = clone(model).fit(X, y, sample_weight=weight)
        other = clone(model).fit(X * 2.0**exponent, y, sample_weight=weight)
        if X.var() > 0 and (X * 2.0**exponent).var() > 0:
            assert_array_equal(one.support_, other.support_)
            assert_array_equal(one.dual_coef_, other.dual_coef_)
            assert_array_equal(one.intercept_, other.intercept_)


@EXAMPLES
@given(data_sets(exponents=(0, 0)), st.sampled_from([0.5, 8.0]))
def test_weights_are_prices(data, factor):
    X, y, weight = data
    one = SVC(C=2.0, **TIGHT).fit(X, y, weight)
    other = SVC(C=2.0 * factor, **TIGHT).fit(X, y, weight / factor)
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)
    by_class = SVC(C=2.0, class_weight={0: factor, 1: 1.0}, **TIGHT).fit(X, y, weight)
    by_point = SVC(C=2.0, **TIGHT).fit(X, y, weight * np.where(y == 0, factor, 1.0))
    assert_allclose(by_class.decision_function(X), by_point.decision_function(X), atol=1e-6)


@EXAMPLES
@given(data_sets(classes=3, exponents=(0, 0)), st.data())
def test_a_weight_of_two_is_a_point_twice(data, more):
    X, y, _ = data
    times = np.array(more.draw(st.lists(st.integers(1, 3), min_size=len(y), max_size=len(y))))
    models = [SVC(decision_function_shape="ovo"), SVR(epsilon=0.2), NuSVR(nu=0.4), OneClassSVM()]
    for model in models:
        model.set_params(gamma=0.3, tol=1e-9, solver="interior_point")
        weighed = clone(model).fit(X, y, sample_weight=times)
        repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        method = "predict" if isinstance(model, SVR | NuSVR) else "decision_function"
        found, expected = getattr(weighed, method)(X), getattr(repeated, method)(X)
        # f is unique; b is not, where no point lies on the margin or on the tube.
        moved = found - found[:1], expected - expected[:1]
        assert_allclose(*moved, atol=1e-5)


@EXAMPLES
@given(data_sets(exponents=(0, 0)), st.randoms(use_true_random=False))
def test_the_order_of_points_does_not_matter(data, random):
    X, y, weight = data
    order = np.array(random.sample(range(len(y)), len(y)))
    for model in (SVC(gamma=0.5, **TIGHT), SVR(gamma=0.5, **TIGHT)):
        one = clone(model).fit(X, y, weight)
        other = clone(model).fit(X[order], y[order], weight[order])
        method = "predict" if isinstance(model, SVR) else "decision_function"
        assert_allclose(getattr(one, method)(X), getattr(other, method)(X), atol=1e-6)


@EXAMPLES
@given(data_sets(), st.integers(-20, 20))
def test_a_constant_feature_adds_nothing_to_a_machine_with_a_bias(data, exponent):
    X, y, weight = data
    X = X / max(1.0, np.abs(X).max())
    wide = np.hstack([X, np.full((len(X), 1), 2.0**exponent)])
    options = {"kernel": K.RBF(0.5), **TIGHT}
    assert_allclose(
        SVC(**options).fit(wide, y, weight).decision_function(wide),
        SVC(**options).fit(X, y, weight).decision_function(X),
        atol=1e-6,
    )


@EXAMPLES
@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=9),
    st.integers(-100, 100),
    st.sampled_from(["rbf", "linear"]),
)
def test_of_identical_points_the_heavier_class_is_told(weight, exponent, kernel):
    n = len(weight)
    # With values of 1e30 in a linear kernel, rounding is all there is to see.
    X = np.full((n, 2), 2.0 ** (exponent if kernel == "rbf" else min(exponent, 4)))
    y, weight = np.arange(n) % 2, np.array(weight)
    model = SVC(kernel=kernel).fit(X, y, weight)
    f = model.decision_function(X)
    assert np.ptp(f) <= 1e-9
    heavier = weight[y == 1].sum() - weight[y == 0].sum()
    if heavier != 0:
        assert model.predict(X[:1])[0] == (heavier > 0)
        assert_allclose(f, np.sign(heavier), atol=1e-2)
    assert np.all(np.isfinite(SVR(kernel=kernel).fit(X, y, weight).predict(X)))
    assert_array_equal(OneClassSVM(kernel=kernel).fit(X, None, weight).predict(X), 1)


@EXAMPLES
@given(data_sets(exponents=(-20, 20)), st.sampled_from([1e-2, 1.0, 1e4, np.inf]))
def test_one_point_per_class(data, C):
    X, y, _ = data
    X, y = X[:2], y[:2]
    kernel = K.RBF(1.0 / (X.var() + 1e-300))
    G = kernel(X)
    distance = G[0, 0] + G[1, 1] - 2 * G[0, 1]
    if distance == 0 and np.isinf(C):
        return
    alpha = min(C, 2.0 / distance) if distance > 0 else C
    model = SVC(C=C, kernel=kernel, tol=1e-8).fit(X, y)
    assert_allclose(np.abs(model.dual_coef_), alpha, rtol=1e-6)
    assert_allclose(
        model.decision_function(X), [-alpha * distance / 2, alpha * distance / 2], atol=1e-6
    )
    if distance > 0:
        assert_allclose(model.margin_, 1 / (alpha * np.sqrt(distance)), rtol=1e-6)
        assert_array_equal(NuSVC(nu=1.0, kernel=kernel).fit(X, y).predict(X), [0, 1])


@EXAMPLES
@given(data_sets(classes=3), st.sampled_from([SVC(), SVR(), NuSVR(), OneClassSVM()]))
def test_nothing_breaks(data, model):
    X, y, weight = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(model).fit(X, y, sample_weight=weight)
    assert model.result_.status.ok
    assert np.all(np.isfinite(model.predict(X)))
    assert np.all(np.isfinite(model.intercept_))
    assert model.dual_coef_.shape[1] == len(model.support_) == model.n_support_.sum()
