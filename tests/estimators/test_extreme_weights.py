"""Sample weights as small as 1e-300 and as large as 1e300: the right answer or a clear error."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import mercer
from every_estimator import lesson, made, names, said

TINY, HUGE = 2.0**-996, 2.0**996  # 1.5e-300 and 6.7e299: powers of two round nothing
WEIGHT = np.random.default_rng(1).uniform(0.1, 1.0, 40)
# Estimators of which ratios of weights are all that matters.
SCALE_FREE = {
    "KernelCentroidClassifier", "KernelDensity", "KernelKMeans", "KernelSGDClassifier", "NuSVC",
}  # fmt: skip
# A row of these counts as many times as its weight says, and at most one of them is left out.
COUNTED = {"LocalLinearRegressor", "NadarayaWatsonClassifier", "NadarayaWatsonRegressor"}

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def fitted(model, name, weight):
    return model.fit(*lesson(name, 40), sample_weight=weight)


def answers(name, weight, **parameters):
    return said(fitted(made(name).set_params(**parameters), name, weight), lesson(name, 40)[0])


@pytest.mark.parametrize("name", sorted(SCALE_FREE))
@pytest.mark.parametrize("scale", [TINY, HUGE])
def test_only_ratios_of_weights_matter(name, scale):
    for found, expected in zip(answers(name, scale * WEIGHT), answers(name, WEIGHT), strict=True):
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_only_ratios_of_small_weights_matter_to_smoothers(name):
    small = WEIGHT / 1024
    for found, expected in zip(answers(name, TINY * WEIGHT), answers(name, small), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.all(np.isfinite(answers(name, HUGE * WEIGHT)[0]))


@pytest.mark.parametrize("scale", [TINY, HUGE])
def test_models_without_choices_are_free_of_the_scale_of_weights(scale):
    for name in ("AutoKernelClassifier", "AutoKernelRegressor"):
        found, expected = (answers(name, s * WEIGHT, max_time=20) for s in (scale, 1.0))
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", [TINY, HUGE])
def test_the_one_class_machine_grows_with_its_weights(scale):
    X = lesson("OneClassSVM", 40)[0]
    one, other = (fitted(made("OneClassSVM"), "OneClassSVM", s * WEIGHT) for s in (scale, 1.0))
    assert_array_equal(one.decision_function(X) / scale, other.decision_function(X))
    assert_array_equal(one.predict(X), other.predict(X))
    assert_allclose(one.margin_ * scale, other.margin_, rtol=1e-12)


@pytest.mark.parametrize("name", ["SVC", "SVR", "NuSVR"])
def test_a_penalty_near_zero_leaves_the_intercept(name):
    model, limit = (made(name).set_params(C=C) for C in (1.0, 1e-12))
    X = lesson(name, 40)[0]
    values = fitted(model, name, 1e-300 * WEIGHT).predict(X)
    assert_allclose(values, fitted(limit, name, WEIGHT).predict(X), atol=1e-9)
    assert len(np.unique(values)) == 1
    made(name).set_params(C=1e-30).fit(*lesson(name, 40), sample_weight=1e-300 * WEIGHT)


@pytest.mark.parametrize("name", ["SVC", "SVR"])
def test_a_penalty_beyond_all_rounding_is_the_hard_margin(name):
    X = lesson(name, 40)[0]
    hard = fitted(made(name).set_params(C=np.inf), name, WEIGHT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(made(name), name, 1e300 * WEIGHT)
        same = fitted(made(name).set_params(C=1e300), name, None)
    for found in (model, same):
        assert_array_equal(found.predict(X), hard.predict(X))
        assert found.result_.status.ok


def test_where_there_is_no_hard_margin_it_is_said():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    for model in (mercer.SVC(kernel="linear"), mercer.SVR(kernel="linear")):
        with pytest.raises(ValueError, match=r"C=1\.0, times the weight of a point, asks for"):
            model.fit(X, y, sample_weight=np.full(40, 1e300))
    # One point that must be right, among others that need not.
    weight = np.ones(40)
    weight[3] = 1e300
    model = mercer.SVC(kernel="linear").fit(X, y, sample_weight=weight)
    assert (2 * y[3] - 1) * model.decision_function(X)[3] >= 1 - 1e-3
    with pytest.raises(ValueError, match=r"C times sample_weight is so large.*smaller C"):
        mercer.NuSVR().fit(X, y, sample_weight=np.full(40, 1e300))


@pytest.mark.parametrize("name", ["KernelMachineClassifier", "KernelMachineRegressor"])
@pytest.mark.parametrize("scale", [2.0**-300, 2.0**20])
def test_weights_and_alpha_in_other_units_make_the_same_machine(name, scale):
    found, expected = answers(name, scale * WEIGHT), answers(name, WEIGHT, alpha=0.1 / scale)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("loss", ["squared", "absolute", "epsilon_insensitive", "huber"])
def test_machines_with_next_to_no_regulariser_warn(loss):
    model, (X, y) = made("KernelMachineRegressor").set_params(loss=loss), lesson("SVR", 40)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model.fit(X, y, sample_weight=1e300 * WEIGHT)
    assert np.all(np.isfinite(model.dual_coef_))
    level = made("KernelMachineRegressor").set_params(loss=loss, alpha=1e300).fit(X, y)
    assert_allclose(level.predict(X), level.intercept_, atol=1e-12)


@pytest.mark.parametrize("name", ["KernelRidge", "KernelRidgeCV"])
def test_ridge_regression_of_no_weight_is_zero(name):
    assert_allclose(answers(name, 1e-300 * WEIGHT)[0], 0.0, atol=1e-200)


def test_every_estimator_with_weights_is_here():
    here = SCALE_FREE | COUNTED | {
        "AutoKernelClassifier", "AutoKernelRegressor", "KernelMachineClassifier",
        "KernelMachineRegressor", "KernelRidge", "KernelRidgeCV", "KernelRidgeClassifier",
        "NuSVR", "OneClassSVM", "SVC", "SVR",
    }  # fmt: skip
    weighed = (n for n in names() if "sample_weight" in inspect.signature(made(n).fit).parameters)
    assert set(weighed) == here
