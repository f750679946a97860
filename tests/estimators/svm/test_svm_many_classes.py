"""Support vector classification of many classes: all pairs at once, predictions class by class."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm as peer
from sklearn.datasets import make_classification

import mercer
from mercer import SVC, NuSVC
from mercer import kernels as K


def lesson(n_classes, n=240):
    X, y = make_classification(
        n, 12, n_informative=10, n_classes=n_classes, n_clusters_per_class=1, random_state=0
    )
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("n_classes", [3, 5, 6, 12, 24])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_pair_is_the_machine_of_its_two_classes(n_classes, fit_intercept):
    X, y = lesson(n_classes)
    options = {"C": 3.0, "gamma": 0.1, "tol": 1e-8, "fit_intercept": fit_intercept}
    model = SVC(decision_function_shape="ovo", **options).fit(X, y)
    values = model.decision_function(X)
    assert values.shape == (len(X), n_classes * (n_classes - 1) // 2)
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        part = (y == i) | (y == j)
        alone = SVC(**options).fit(X[part], y[part])
        assert_allclose(-values[:, column], alone.decision_function(X), atol=1e-6)
    assert model.dual_gap_ <= 1e-6
    assert model.n_iter_.shape == model.intercept_.shape == model.margin_.shape


@pytest.mark.parametrize("n_classes", [6, 12])
def test_everything_scikit_learn_has(n_classes):
    X, y = lesson(n_classes)
    options = {"C": 3.0, "gamma": 0.1, "tol": 1e-6}
    ours, theirs = SVC(**options).fit(X, y), peer.SVC(**options).fit(X, y)
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.n_support_, theirs.n_support_)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize(
    "form", ["float32", "sparse", "precomputed", "weights", "callable", "kernel"]
)
def test_points_of_every_form(form):
    X, y = lesson(8)
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    weight[:30] = 0.0
    options = {"C": 3.0, "gamma": 0.1, "tol": 1e-6}
    train, fit = X, {}
    if form == "float32":
        X = train = X.astype(np.float32)
    elif form == "sparse":
        train = sp.csr_matrix(X)
    elif form == "precomputed":
        train = K.RBF(0.1)(X)
        options = {"C": 3.0, "kernel": "precomputed", "tol": 1e-6}
    elif form == "weights":
        fit = {"sample_weight": weight}
    elif form == "callable":
        options["kernel"] = lambda A, B: K.RBF(0.1)(A, B)
    else:
        options = {"C": 3.0, "kernel": K.RBF(0.1), "tol": 1e-6}
    model = SVC(**options).fit(train, y, **fit)
    theirs = peer.SVC(C=3.0, gamma=0.1, tol=1e-6).fit(X, y, **fit)
    assert_allclose(model.decision_function(train), theirs.decision_function(X), atol=1e-3)


def test_coefficients_of_pairs_follow_from_the_layout():
    X, y = lesson(7)
    model = SVC(gamma=0.1, tol=1e-6).fit(X, y)
    whole = K.RBF(0.1)(X, model.support_vectors_) @ model.pair_coef_ + model.intercept_
    assert_allclose(model.set_params(decision_function_shape="ovo").decision_function(X), whole)


def test_a_limit_on_steps_gives_the_same_model():
    X, y = lesson(7)
    at_once = SVC(gamma=0.1, tol=1e-7).fit(X, y)
    one_by_one = SVC(gamma=0.1, tol=1e-7, max_iter=10**6).fit(X, y)
    assert_allclose(at_once.decision_function(X), one_by_one.decision_function(X), atol=1e-5)
    assert len(at_once.result_.value) == len(one_by_one.result_.value) == 21


def test_pairs_that_take_too_many_steps_are_finished_otherwise(monkeypatch):
    X, y = lesson(7)
    expected = SVC(gamma=0.1, tol=1e-7).fit(X, y)
    monkeypatch.setattr("mercer.solvers.qp.class_pairs._MOST_STEPS", 5)
    model = SVC(gamma=0.1, tol=1e-7).fit(X, y)
    assert model.fit_status_ == 0
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-5)


def test_warm_start_goes_on_from_a_fit_of_all_pairs():
    X, y = lesson(7)
    model = SVC(gamma=0.1, tol=1e-6).fit(X, y)
    first = model.n_iter_.sum()
    model.set_params(warm_start=True).fit(X, y)
    assert model.n_iter_.sum() < first / 10


def test_saved_and_loaded(tmp_path):
    X, y = lesson(9)
    for model in (SVC(gamma=0.1), NuSVC(nu=0.1, gamma=0.1)):
        model.fit(X, y)
        mercer.save(model, tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert_array_equal(again.pair_coef_, model.pair_coef_)


def test_threads_do_not_matter(monkeypatch):
    X, y = lesson(12)
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(SVC(gamma=0.1).fit(X, y).decision_function(X))
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])
