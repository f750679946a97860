"""Paths over the price, and leave-one-out, against fitting again from nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_score

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR
from svm_examples import EXACT, blobs, load

CS = [10.0, 0.01, 1.0, np.inf, 100.0]


def target(model, y):
    return y if isinstance(model, SVC) else y + np.sin(np.arange(len(y)))


def values(model, X):
    return model.decision_function(X) if isinstance(model, SVC) else model.predict(X)


def brute_force(model, X, y, weight=None):
    """Fitted again without each point."""
    found = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        given = None if weight is None else weight[others]
        if weight is not None and weight[i] <= 0:
            others[i], given = True, weight
        found.append(values(clone(model).fit(X[others], y[others], given), X[[i]])[0])
    return np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "model", [SVC(gamma=0.5, decision_function_shape="ovo"), SVR(gamma=0.5, epsilon=0.2)]
)
def test_a_path_is_a_fit_for_every_price(model, weighted):
    X, y = load("iris")
    y = target(model, y)
    weight = np.random.default_rng(0).uniform(0.2, 2, size=len(y)) if weighted else None
    model = clone(model).set_params(tol=EXACT)
    path = model.path(X, y, CS, sample_weight=weight, validation=(X[::3], y[::3]))
    assert_array_equal(path.Cs, CS)
    assert [machine.C for machine in path.machines] == CS
    for i, C in enumerate(CS):
        alone = clone(model).set_params(C=C).fit(X, y, weight)
        machine = path.machines[i]
        assert_allclose(values(machine, X), values(alone, X), atol=1e-5)
        assert_array_equal(machine.support_, alone.support_)
        assert path.n_supports[i] == len(alone.support_)
        assert path.dual_gaps[i] == machine.dual_gap_ <= 1e-5
        functions = K.RBF(0.5)(X) @ path.dual_coefs[i] + machine.intercept_
        expected = values(machine, X)
        assert_allclose(functions.reshape(expected.shape), expected, atol=1e-7)
        assert path.scores[i] == machine.score(X[::3], y[::3])
        assert machine.n_features_in_ == X.shape[1]
    assert path.best.score(X[::3], y[::3]) == max(path.scores)
    assert not hasattr(model, "support_")


def test_a_path_starts_each_machine_where_the_last_ended():
    X, y = load("breast_cancer")
    prices = np.logspace(-2, 3, 11)
    path = SVC(solver="smo", tol=1e-5).path(X, y, prices)
    warm = sum(int(machine.n_iter_.sum()) for machine in path.machines)
    cold = [SVC(solver="smo", tol=1e-5, C=C).fit(X, y).n_iter_.sum() for C in prices]
    assert warm < 0.8 * sum(cold)
    assert all(machine.result_.status.ok for machine in path.machines)
    with pytest.raises(AttributeError, match="validation"):
        _ = path.best


def test_machines_of_a_path_are_free_of_each_other():
    X, y = blobs()
    kernel = K.RBF(0.5)
    first, second = SVC(kernel=kernel).path(X, y, [1.0, 1.0]).machines
    first.set_params(kernel__gamma=7.0)
    assert second.kernel.gamma == kernel.gamma == 0.5
    assert_array_equal(first.predict(X), second.predict(X))


def test_folds_that_say_nothing_are_refused():
    X, y = load("iris")
    with pytest.raises(ValueError, match=r"fold 0 of cv leaves no sample of class 0 .*Stratified"):
        SVC().path(X, y, [1.0], cv=KFold(3))  # sorted by class
    weight = np.ones(len(y))
    weight[:30] = [0.0, -1.0] * 15
    with pytest.raises(ValueError, match=r"fold 0 of cv holds out 30 samples, none of positive"):
        SVC().path(X, y, [1.0], sample_weight=weight, cv=KFold(5))
    everything = np.arange(len(y))
    with pytest.raises(ValueError, match=r"fold 1 of cv leaves no sample of positive weight"):
        SVR().path(X, y, [1.0], cv=[(everything, everything), ([], everything)])


def test_points_of_negative_weight_do_not_count_in_scores():
    X, y = load("iris")
    weight = np.where(np.arange(len(y)) % 7, 1.0, -3.0)
    cv = StratifiedKFold(3)
    found = SVC().path(X, y, [1.0], sample_weight=weight, cv=cv).fold_scores
    expected = SVC().path(X, y, [1.0], sample_weight=np.maximum(weight, 0.0), cv=cv).fold_scores
    assert_allclose(found, expected)
    assert np.all(found <= 1.0)


@pytest.mark.parametrize("prices", [[], 1.0, [[1.0]]])
def test_a_path_needs_prices(prices):
    with pytest.raises(ValueError, match="expected a sequence of values of C"):
        SVC().path(*blobs(), prices)


def test_a_path_refuses_what_fit_refuses():
    X, y = blobs(gap=0.2)
    with pytest.raises(ValueError, match="'C' parameter"):
        SVC().path(X, y, [1.0, -1.0])
    with pytest.raises(ValueError, match="'tol' parameter"):
        SVC(tol=-1.0).path(X, y, [1.0])
    with pytest.raises(ValueError, match="hard margin"):
        SVC(kernel="linear").path(X, y, [1.0, np.inf])
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        SVC(max_iter=1, solver="smo").path(X, y, [1.0, 2.0])
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("C", [0.02, 1.0, 1e3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_of_a_classifier(C, bias, classes):
    X, y = load("iris")
    kept = np.flatnonzero(y < classes)[::3]
    X, y = X[kept], np.array(["a", "b", "c"])[y[kept]]
    model = SVC(C=C, gamma=0.5, tol=1e-9, fit_intercept=bias, decision_function_shape="ovo")
    found = model.leave_one_out(X, y)
    expected = brute_force(model, X, y)
    assert_allclose(found.values, expected, atol=1e-6)
    clear = np.abs(expected).reshape(len(y), -1).min(axis=1) > 1e-5
    alone = [clone(model).fit(np.delete(X, i, 0), np.delete(y, i)) for i in np.flatnonzero(clear)]
    predicted = [m.predict(X[[i]])[0] for m, i in zip(alone, np.flatnonzero(clear), strict=True)]
    assert_array_equal(found.predictions[clear], predicted)
    assert not hasattr(model, "support_")


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("bias", [True, False])
def test_leave_one_out_of_a_regression(C, bias):
    X, y = load("iris")
    X, y = X[::3], target(None, y)[::3]
    model = SVR(C=C, gamma=0.5, tol=1e-9, epsilon=0.3, fit_intercept=bias)
    found = model.leave_one_out(X, y)
    assert_allclose(found.values, brute_force(model, X, y), atol=1e-6)
    assert_array_equal(found.values, found.predictions)
    assert found.n_refits == len(model.fit(X, y).support_)


def test_only_support_vectors_are_fitted_again():
    X, y = blobs(60, gap=2.0)
    model = SVC(kernel="linear", C=np.inf, tol=1e-9)
    found = model.leave_one_out(X, y)
    assert found.n_refits == len(model.fit(X, y).support_) <= 4
    assert_allclose(found.values, brute_force(model, X, y), atol=1e-6)


def test_a_bias_that_nothing_fixes_is_found_again():
    # All points at their bounds: b is the middle of an interval that any point may end.
    X, y = np.array([[-1.0], [-0.5], [0.7], [1.0]]), np.array([0, 0, 1, 1])
    model = SVC(kernel="linear", C=1e-3, tol=1e-10)
    assert_allclose(model.leave_one_out(X, y).values, brute_force(model, X, y), atol=1e-9)


def test_leave_one_out_with_weights_and_on_other_inputs():
    X, y = load("iris")
    X, y = np.where(np.abs(X) < 0.4, 0.0, X)[::3], y[::3]
    weight = np.random.default_rng(0).uniform(0.2, 2, size=len(y))
    weight[::7] = 0.0
    model = SVC(gamma=0.5, tol=1e-9, decision_function_shape="ovo")
    found = model.leave_one_out(X, y, weight)
    assert_allclose(found.values, brute_force(model, X, y, weight), atol=1e-6)
    stored = clone(model).set_params(kernel="precomputed", gamma="scale")
    assert_allclose(stored.leave_one_out(K.RBF(0.5)(X), y, weight).values, found.values, atol=1e-7)
    sparse = model.leave_one_out(sp.csr_array(X), y, weight)
    assert_allclose(sparse.values, found.values, atol=1e-7)


def test_leave_one_out_needs_two_of_every_class():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "b", "b", "b"])
    with pytest.raises(ValueError, match="class 'a' has one sample"):
        SVC().leave_one_out(X, y)
    with pytest.raises(ValueError, match="training set has one sample"):
        SVR().leave_one_out(X[:1], [1.0])


def test_leave_one_out_says_where_it_stopped_early():
    X, y = load("breast_cancer")
    with pytest.warns(ConvergenceWarning, match="without one of the points") as caught:
        SVC(max_iter=1, solver="smo").leave_one_out(X[:60], y[:60])
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_folds_share_the_matrix_and_score_as_a_search_does(kernel, weighted):
    X, y = load_iris(return_X_y=True)
    G = K.RBF(0.3)(X)
    points = G if kernel == "precomputed" else X
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    Cs = [10.0, 0.01, 1.0]
    path = SVC(kernel=kernel, gamma=0.3).path(points, y, Cs, cv=4, sample_weight=weight)
    assert path.fold_scores.shape == (3, 4)
    for i, C in enumerate(Cs):
        for f, (train, test) in enumerate(StratifiedKFold(4).split(X, y)):
            w = (weight[train], weight[test]) if weighted else (None, None)
            alone = sklearn.svm.SVC(kernel="precomputed", C=C)
            alone.fit(G[np.ix_(train, train)], y[train], w[0])
            expected = alone.score(G[np.ix_(test, train)], y[test], w[1])
            assert_allclose(path.fold_scores[i, f], expected, rtol=1e-12)
    assert_allclose(path.scores, path.fold_scores.mean(axis=1))
    assert Cs[np.lexsort((Cs, -path.scores))[0]] == path.best.C


def test_folds_of_a_regression():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:120], (y[:120] - 150) / 80
    path = SVR(kernel=K.RBF(5.0), tol=1e-8).path(X, y, [0.1, 1.0], cv=KFold(3))
    for i, C in enumerate([0.1, 1.0]):
        alone = sklearn.svm.SVR(gamma=5.0, C=C, tol=1e-8)
        expected = cross_val_score(alone, X, y, cv=KFold(3))
        assert_allclose(path.fold_scores[i], expected, atol=1e-6)


def test_one_way_to_score_a_path():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="expected one way to score"):
        SVC().path(X, y, [1.0], cv=3, validation=(X, y))


def test_folds_are_learned_from_what_the_splitter_says():
    X, y = load_iris(return_X_y=True)
    cv = ShuffleSplit(3, train_size=0.2, test_size=0.2, random_state=0)
    path = SVC(gamma=0.3).path(X, y, [1.0], cv=cv)
    expected = cross_val_score(sklearn.svm.SVC(gamma=0.3), X, y, cv=cv)
    assert_allclose(path.fold_scores[0], expected)


def test_no_time_at_all_leaves_a_machine_of_nothing():
    X = np.random.default_rng(0).normal(size=(1500, 5))
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_time=1e-9).fit(X, X[:, 0] > 0)
    assert model.result_.status.name == "MAX_TIME"
