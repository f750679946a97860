"""Support vector machines on little, strange or impossible data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from svm_examples import EXACT, blobs, load

# -------------------------------------------------------------------------------------- extremes


def test_two_points_one_column():
    for model in (SVC(), NuSVC(nu=1.0), SVC(solver="interior_point")):
        assert_array_equal(
            model.fit([[0.0], [1.0]], ["a", "b"]).predict([[0.1], [2.0]]), ["a", "b"]
        )


def test_repeated_points_and_constant_columns():
    X, y = blobs(30, gap=0.5)
    X = np.hstack([np.repeat(X[:10], 3, axis=0), np.ones((30, 1))])
    ours = SVC(tol=EXACT).fit(X, y)
    theirs = svm.SVC(tol=EXACT).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    flat = SVC(kernel="linear").fit(np.zeros((4, 2)), [0, 0, 1, 1])
    assert np.all(np.isfinite(flat.decision_function(np.zeros((1, 2)))))


@pytest.mark.parametrize("C", [1e-10, 1e10])
@pytest.mark.parametrize("gamma", [1e-6, 1e6])
def test_extreme_parameters(C, gamma):
    X, y = load("iris")
    model = SVC(C=C, gamma=gamma).fit(X, y)
    assert model.fit_status_ == 0
    assert np.all(np.isfinite(model.decision_function(X)))


def test_a_target_within_the_tube_needs_no_support():
    X, y = blobs()
    model = SVR(epsilon=5.0).fit(X, y)
    assert len(model.support_) == 0
    assert_allclose(model.predict(X), model.intercept_[0])
    assert model.margin_ == np.inf


def test_one_class_and_nu_one():
    X, _ = blobs()
    model = OneClassSVM(nu=1.0).fit(X)
    assert np.all(np.isfinite(model.decision_function(X)))
    assert len(model.support_) == len(X)
    with pytest.raises(ValueError, match="fit_intercept=False"):
        OneClassSVM(fit_intercept=False).fit(X)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (SVC(C=0), "'C' parameter"),
        (SVC(C=-1.0), "'C' parameter"),
        (NuSVC(nu=0), "'nu' parameter"),
        (NuSVR(nu=1.5), "'nu' parameter"),
        (NuSVR(C=np.inf), "'C' parameter"),
        (SVR(epsilon=-1), "'epsilon' parameter"),
        (SVC(tol=0), "'tol' parameter"),
        (SVC(solver="newton"), "'solver' parameter"),
        (SVC(gamma=0.0), "'gamma' parameter of SVC"),
        (SVC(kernel="gauss"), "kernel='gauss'"),
        (SVC(kernel=K.RBF(1.0), gamma=0.5), "has no effect with kernel"),
    ],
)
def test_bad_parameters_are_named(model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(*blobs())


def test_one_class_of_labels_is_an_error():
    X, _ = blobs()
    for model in (SVC(), NuSVC()):
        with pytest.raises(ValueError, match="one class only"):
            model.fit(X, np.ones(len(X)))


# --------------------------------------------------------------------- scikit-learn's own checks

REPEATS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "scikit-learn's own class fails this check "
    "too: gamma='scale' does not look at weights, and tol is looser than the check"
    for kind in ("dense", "sparse")
}
INFEASIBLE = {
    "check_class_weight_classifiers": "scikit-learn's own NuSVC fails this check too: with weights "
    "of 1000 to 0.0001 no solution exists for nu=0.5"
}


def shared_with_scikit_learn(model):
    """What scikit-learn's own class fails too, with its default parameters."""
    if model.get_params()["solver"] == "interior_point":
        return {}
    return {**REPEATS, **INFEASIBLE} if isinstance(model, NuSVC) else REPEATS


@parametrize_with_checks(
    [
        *(model() for model in (SVC, NuSVC, SVR, NuSVR, OneClassSVM)),
        # With a fixed kernel and an exact solver, weights are the same as repeated points.
        SVC(gamma=0.1, solver="interior_point"),
        SVR(gamma=0.1, solver="interior_point"),
        NuSVR(gamma=0.1, solver="interior_point"),
        OneClassSVM(gamma=0.1, solver="interior_point"),
    ],
    expected_failed_checks=shared_with_scikit_learn,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
