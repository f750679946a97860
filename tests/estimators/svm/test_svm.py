"""Support vector machines against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.base import clone

from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from svm_examples import EXACT, blobs, load, same_machine

# ------------------------------------------------------------------ scikit-learn's own data sets


@pytest.mark.parametrize("solver", ["auto", "smo", "interior_point"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_svc_equals_scikit_learns(name, solver):
    X, y = load(name)
    ours = SVC(tol=EXACT, solver=solver).fit(X, y)
    theirs = svm.SVC(tol=EXACT).fit(X, y)
    same_machine(ours, theirs, X)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_gap_ < 1e-6
    assert ours.fit_status_ == 0


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_nusvc_equals_scikit_learns(name, nu):
    X, y = load(name)
    ours = NuSVC(nu=nu, tol=EXACT).fit(X, y)
    theirs = svm.NuSVC(nu=nu, tol=EXACT).fit(X, y)
    same_machine(ours, theirs, X, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("C", [1.0, 50.0])
def test_svr_equals_scikit_learns(C):
    X, y = load("diabetes")
    ours = SVR(C=C, epsilon=5.0, tol=1e-7).fit(X, y)
    same_machine(ours, svm.SVR(C=C, epsilon=5.0, tol=1e-7).fit(X, y), X)


@pytest.mark.parametrize("nu", [0.2, 0.7])
def test_nusvr_equals_scikit_learns(nu):
    X, y = load("diabetes")
    y = y / y.std()
    ours = NuSVR(nu=nu, tol=EXACT).fit(X, y)
    theirs = svm.NuSVR(nu=nu, tol=EXACT).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    outside = np.abs(ours.predict(X) - y) > ours.epsilon_ + 1e-6
    assert outside.mean() <= nu
    assert len(ours.support_) >= nu * len(y)


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_equals_scikit_learns(name, nu):
    X, _ = load(name)
    ours, theirs = OneClassSVM(nu=nu, tol=EXACT).fit(X), svm.OneClassSVM(nu=nu, tol=EXACT).fit(X)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert_allclose(ours.offset_, theirs.offset_, atol=1e-5)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-5)
    clear = np.abs(theirs.decision_function(X)) > 1e-4
    assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    assert_allclose(ours.dual_coef_.sum(), nu * len(X))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "poly", "gamma": "auto"},
        {"kernel": "rbf", "gamma": 0.3, "C": 10.0},
    ],
)
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_kernels_and_shapes_of_scikit_learn(options, shape):
    X, y = load("iris")
    ours = SVC(tol=EXACT, decision_function_shape=shape, **options).fit(X, y)
    theirs = svm.SVC(tol=EXACT, decision_function_shape=shape, **options).fit(X, y)
    found, expected = ours.decision_function(X), theirs.decision_function(X)
    assert_allclose(found, expected, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    if options["kernel"] == "linear":
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert not ours.coef_.flags.writeable
    else:
        with pytest.raises(AttributeError, match="linear kernel"):
            _ = ours.coef_


def test_ties_are_broken_as_in_scikit_learn():
    X, y = load("digits")
    ours = SVC(tol=1e-6, gamma=0.5, break_ties=True).fit(X, y)
    theirs = svm.SVC(tol=1e-6, gamma=0.5, break_ties=True).fit(X, y)
    new = np.random.default_rng(0).normal(size=(200, X.shape[1]))
    assert_array_equal(ours.predict(new), theirs.predict(new))
    ours.set_params(decision_function_shape="ovo")
    with pytest.raises(ValueError, match="break_ties must be False"):
        ours.predict(new)


@pytest.mark.parametrize("model", [SVC, SVR, NuSVC, NuSVR, OneClassSVM])
def test_takes_every_parameter_of_scikit_learns_class(model):
    theirs = getattr(svm, model.__name__)().get_params()
    if "probability" in theirs:
        theirs["probability"] = "deprecated"  # as scikit-learn has it since 1.9
    ours = model().get_params()
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) >= {"solver", "max_time", "warm_start", "indefinite"}
    assert clone(model(tol=0.5)).get_params()["tol"] == 0.5


# --------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
def test_sample_weights_scale_the_price(name):
    X, y = load(name)
    weight = np.random.default_rng(0).uniform(0.1, 3, size=len(y))
    weight[::7] = 0.0
    ours = SVC(tol=EXACT).fit(X, y, sample_weight=weight)
    theirs = svm.SVC(tol=EXACT).fit(X, y, sample_weight=weight)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert not np.any(weight[ours.support_] == 0)


@pytest.mark.parametrize("model", [NuSVC, SVR, NuSVR, OneClassSVM])
def test_sample_weights_elsewhere(model):
    X, y = load("iris")
    weight = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    options = {"nu": 0.2} if model is not SVR else {}
    ours = model(tol=EXACT, **options).fit(X, y, sample_weight=weight)
    theirs = getattr(svm, model.__name__)(tol=EXACT, **options).fit(X, y, sample_weight=weight)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(ours, method)(X), getattr(theirs, method)(X), atol=1e-5)


@pytest.mark.parametrize("model", [SVC(), NuSVC(nu=0.3), SVR(), NuSVR(), OneClassSVM()])
def test_whole_weights_are_repeated_points(model):
    X, y = load("iris")
    weight = np.random.default_rng(2).integers(0, 4, size=len(y))
    model = model.set_params(gamma=0.5, solver="interior_point", tol=1e-7)
    weighed = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    method = "predict" if isinstance(model, SVR | NuSVR) else "decision_function"
    assert_allclose(getattr(weighed, method)(X), getattr(repeated, method)(X), atol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0, 1: 0.5}])
def test_class_weights(class_weight):
    X, y = load("breast_cancer")
    ours = SVC(tol=EXACT, class_weight=class_weight).fit(X, y)
    theirs = svm.SVC(tol=EXACT, class_weight=class_weight).fit(X, y)
    same_machine(ours, theirs, X)
    assert_allclose(ours.class_weight_, theirs.class_weight_)


def test_class_weights_make_any_nu_feasible():
    X, y = load("breast_cancer")
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0\.9 .* at most 0\.74"):
        NuSVC(nu=0.9).fit(X, y)
    with pytest.raises(ValueError, match="nu is infeasible"):
        svm.NuSVC(nu=0.9).fit(X, y)
    weight = len(y) / (2 * np.bincount(y))
    balanced = NuSVC(nu=0.9, class_weight="balanced", tol=EXACT).fit(X, y)
    theirs = svm.NuSVC(nu=0.9, tol=EXACT).fit(X, y, sample_weight=weight[y])
    assert_allclose(balanced.decision_function(X), theirs.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_class_weights_must_be_positive(C, value):
    X, y = blobs()
    with pytest.raises(ValueError, match=f"class_weight gives class 1 the weight {value}"):
        SVC(C=C, class_weight={0: 1.0, 1: value}).fit(X, y)


def test_weights_that_leave_nothing_to_learn():
    X, y = blobs()
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        SVC().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="belong to the same class"):
        SVC().fit(X, y, sample_weight=(y == 1).astype(float))
    iris, species = load("iris")
    with pytest.raises(ValueError, match=r"no sample of class .*2.* has a positive weight"):
        SVC().fit(iris, species, sample_weight=(species < 2).astype(float))
    for empty in (SVR(), NuSVR(), OneClassSVM()):
        with pytest.raises(ValueError, match="zero or negative weights"):
            empty.fit(X, y, sample_weight=-np.ones(len(y)))
