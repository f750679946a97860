"""Support vector machines on inputs of other kinds than dense arrays of numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from svm_examples import EXACT, blobs, load


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_sparse_input_equals_dense(model):
    X, y = load("iris")
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = model(gamma=0.5, tol=1e-7).fit(X, y)
    sparse = model(gamma=0.5, tol=1e-7).fit(sp.csr_array(X), y)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert sp.issparse(sparse.support_vectors_)
    assert_allclose(getattr(sparse, method)(sp.csr_array(X)), getattr(dense, method)(X), atol=1e-7)
    assert_allclose(getattr(sparse, method)(X), getattr(dense, method)(X), atol=1e-7)


def test_sparse_linear_weights():
    X, y = load("iris")
    sparse = SVC(kernel="linear", tol=1e-7).fit(sp.csr_array(X), y)
    dense = SVC(kernel="linear", tol=1e-7).fit(X, y)
    assert sp.issparse(sparse.coef_)
    assert_allclose(sparse.coef_.toarray(), dense.coef_, atol=1e-7)
    with pytest.raises(ValueError, match="read-only"):
        sparse.coef_.data[0] = 1.0


def test_precomputed_keeps_indices_only():
    X, y = load("iris")
    gram = X @ X.T
    ours = SVC(kernel="precomputed", tol=EXACT).fit(gram[::2, ::2], y[::2])
    theirs = svm.SVC(kernel="precomputed", tol=EXACT).fit(gram[::2, ::2], y[::2])
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape == (0, 0)
    assert_array_equal(ours.support_, theirs.support_)
    new = gram[1::2, ::2]
    assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-5)
    with pytest.raises(ValueError, match="75"):
        ours.predict(gram[:3])
    with pytest.raises(ValueError, match="square"):
        SVC(kernel="precomputed").fit(gram[:, :5], y)


def test_a_function_of_two_arrays_as_kernel():
    X, y = load("iris")
    ours = SVC(kernel=lambda A, B: A @ B.T, tol=EXACT).fit(X, y)
    named = SVC(kernel="linear", tol=EXACT).fit(X, y)
    assert_allclose(ours.decision_function(X), named.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("container", [list, lambda words: np.array(words, dtype=object)])
def test_strings(container):
    words = ["abab", "baba", "abba", "cdcd", "dcdc", "cddc"]
    labels = ["left"] * 3 + ["right"] * 3
    model = SVC(kernel=K.Spectrum(k=2), C=10).fit(container(words), labels)
    assert list(model.predict(container(["ababab", "cdcdcd"]))) == ["left", "right"]
    assert len(model.support_vectors_) == len(model.support_)
    assert model.support_vectors_[0] in words
    assert OneClassSVM(kernel=K.Spectrum(k=2), nu=0.3).fit(container(words)).shape_fit_[0] == 6


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_indefinite_kernels_are_refused_or_corrected(method):
    X, y = load("iris")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC(kernel="sigmoid", coef0=1.0).fit(X, y)
    model = SVC(kernel="sigmoid", coef0=1.0, gamma=0.5, indefinite=method, tol=1e-6).fit(X, y)
    from mercer.operators import corrected

    gram = K.Sigmoid(gamma=0.5, coef0=1.0)(X)
    fixed, carry = corrected(gram, method)
    by_hand = SVC(kernel="precomputed", tol=1e-6, decision_function_shape="ovo").fit(fixed, y)
    model.set_params(decision_function_shape="ovo")
    expected = by_hand.decision_function(fixed if carry is not None else gram)
    assert_allclose(model.decision_function(X), expected, atol=1e-5)
    regression = SVR(kernel="sigmoid", coef0=1.0, gamma=0.5, indefinite=method).fit(X, y)
    assert np.all(np.isfinite(regression.predict(X)))


def test_rows_of_the_gram_are_enough():
    X, y = load("iris")
    stored = SVC(tol=1e-6).fit(X, y)
    with sklearn.config_context(working_memory=0.05):
        fetched = SVC(tol=1e-6, cache_size=0.01).fit(X, y)
        with pytest.raises(ValueError, match="use solver='smo'"):
            SVC(cache_size=0.01, solver="interior_point").fit(X, y)
        regression = SVR(tol=1e-6, cache_size=0.01).fit(X, y)
        assert_allclose(regression.predict(X), SVR(tol=1e-6).fit(X, y).predict(X), atol=1e-5)
    assert_allclose(fetched.decision_function(X), stored.decision_function(X), atol=1e-5)


def test_labels_and_points_of_other_shapes():
    X, y = blobs(12)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC().fit(X, y[:-1])
    expected = SVC().fit(X, y).decision_function(X)
    labels = np.repeat(y[:, None], 2, axis=1)[:, 1]
    assert not labels.flags.c_contiguous
    turned = SVC().fit(np.asfortranarray(X), labels)
    assert_allclose(turned.decision_function(X), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="square"):
        SVC(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="12 features"):
        turned.predict(X.T)


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_dense_and_sparse_points_may_follow_each_other(model):
    X, y = load("iris")
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, sparse = model().fit(X, y), model().fit(sp.csr_array(X), y)
    assert sp.issparse(sparse.dual_coef_)
    assert_array_equal(sparse.dual_coef_.toarray(), dense.dual_coef_)
    for points in (X, sp.csr_array(X), sp.coo_array(X)):
        assert_allclose(dense.predict(points), dense.predict(X), atol=1e-12)
        assert_allclose(sparse.predict(points), dense.predict(X), atol=1e-12)


def test_very_sparse_points_stay_sparse(monkeypatch):
    X = sp.random_array((60, 3000), density=0.004, random_state=np.random.RandomState(0)).tocsr()
    y = np.arange(60) % 2
    dense = SVC(gamma=1.0, tol=EXACT).fit(X.toarray(), y)
    toarray = sp.csr_array.toarray

    def only_of_products(matrix, *arguments, **named):
        assert matrix.shape[1] != X.shape[1]
        return toarray(matrix, *arguments, **named)

    monkeypatch.setattr(sp.csr_array, "toarray", only_of_products)
    sparse = SVC(gamma=1.0, tol=EXACT).fit(X, y)
    values = sparse.decision_function(X)
    monkeypatch.undo()
    assert_allclose(values, dense.decision_function(X.toarray()), atol=1e-6)


def test_a_precomputed_matrix_may_be_sparse():
    X, y = load("iris")
    gram = np.where(np.abs(X @ X.T) > 0, X @ X.T, 0.0)
    dense = SVC(kernel="precomputed").fit(gram, y)
    sparse = SVC(kernel="precomputed").fit(sp.csr_array(gram), y)
    assert_array_equal(sparse.dual_coef_, dense.dual_coef_)
    assert_allclose(sparse.decision_function(sp.csr_array(gram)), dense.decision_function(gram))


def test_a_function_that_returns_the_wrong_shape_is_named_in_fit():
    with pytest.raises(ValueError, match=r"returned shape \(1, 1\) for 2 and 2 points"):
        SVR(kernel=lambda A, B: np.ones((1, 1))).fit([[0.0], [1.0]], [0.0, 0.5])


@pytest.mark.parametrize("model", [SVC, SVR])
def test_a_function_as_kernel_takes_anything(model):
    words = ["A A", "A", "B", "B B", "A B"]
    counts = np.array([[word.count("A"), word.count("B")] for word in words], dtype=float)
    y = np.array([1, 1, 2, 2, 1])

    def by_letters(one, other):
        assert isinstance(one[0], str)
        left, right = ([[w.count("A"), w.count("B")] for w in part] for part in (one, other))
        return sp.csr_array(np.array(left) @ np.array(right).T)

    by_function = model(kernel=by_letters).fit(words, y)
    by_name = model(kernel="linear").fit(counts, y)
    method = "decision_function" if model is SVC else "predict"
    assert_allclose(getattr(by_function, method)(words), getattr(by_name, method)(counts))
    assert by_function.score(words, y) == by_name.score(counts, y)
    ragged = [["A", "A"], ["A"], ["B"], ["B", "B"], ["A", "B"]]
    assert model(kernel=lambda A, B: np.array([[len(set(a) & set(b)) for b in B] for a in A])).fit(
        ragged, y
    ).predict(ragged).shape == (5,)


def test_gamma_is_read_off_the_kernel():
    assert SVC().fit([[0.0], [1.0]], [0, 1]).kernel_.gamma == 4.0


def test_values_beyond_floating_point_are_refused():
    X, y = blobs()
    with pytest.raises(ValueError, match=r"not finite: X has values of 1\.0e\+200"):
        SVC().fit(np.where(X[0, 0] == X, 1e200, X), y)
    # What the kernel makes of points is its own affair, as long as it is finite.
    same = SVC(kernel=lambda A, B: (A / 1e200) @ (B / 1e200).T).fit(1e200 * X, y)
    assert_allclose(same.dual_coef_, SVC(kernel="linear").fit(X, y).dual_coef_, atol=1e-6)


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_precision_of_what_is_learned(model):
    X, y = load("iris")
    single = model(gamma=0.5).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    for name in ("dual_coef_", "intercept_"):
        assert getattr(single, name).dtype == np.float64
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    found = getattr(single, method)(X.astype(np.float32))
    assert found.dtype == np.float64
    double = model(gamma=0.5).fit(X.astype(np.float32).astype(np.float64), y)
    assert_allclose(found, getattr(double, method)(X), atol=1e-4)
    assert_array_equal(single.support_, double.support_)


def test_single_precision_predicts_within_tol_or_gives_way_to_double():
    X, y = load("breast_cancer")
    X = X.astype(np.float32)
    for C, tol in ((1.0, 1e-3), (1e6, 1e-3), (1.0, 1e-12)):
        model = SVC(C=C, tol=tol, gamma=0.05).fit(X, y)
        exact = K.RBF(0.05)(X.astype(np.float64), X[model.support_].astype(np.float64))
        expected = exact @ model.dual_coef_[0] + model.intercept_
        assert_allclose(model.decision_function(X), expected, atol=tol, rtol=1e-12)


def test_single_precision_is_solved_in_double():
    X, y = load("iris")
    single = SVC(tol=1e-7, gamma=0.5).fit(X.astype(np.float32), y)
    double = SVC(tol=1e-7, gamma=0.5).fit(X.astype(np.float32).astype(np.float64), y)
    assert_allclose(single.dual_coef_, double.dual_coef_, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_probabilities():
    X, y = load("iris")
    model = SVC(probability=True, random_state=0).fit(X, y)
    shares = model.predict_proba(X)
    assert_allclose(shares.sum(axis=1), 1)
    assert (model.classes_[shares.argmax(axis=1)] == y).mean() > 0.95
    assert_allclose(np.exp(model.predict_log_proba(X)), shares)
    again = SVC(probability=True, random_state=0).fit(X, y)
    assert_array_equal(again.predict_proba(X), shares)
    assert not hasattr(SVC().fit(X, y), "predict_proba")
    model.set_params(probability="deprecated").fit(X, y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        model.predict_proba(X)


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
@pytest.mark.filterwarnings("error:X has feature names")
def test_probabilities_of_a_table_know_its_columns():
    X, y = load("iris")
    table = pd.DataFrame(X, columns=list("abcd"))
    model = SVC(probability=True, random_state=0).fit(table, y)
    expected = SVC(probability=True, random_state=0).fit(X, y).predict_proba(X)
    assert_array_equal(model.predict_proba(table), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(table[list("dcba")])
    columns = SVC(kernel=K.RBF(0.5).on(["a", "b"]), probability=True).fit(table, y)
    assert_allclose(columns.predict_proba(table).sum(axis=1), 1)


@pytest.mark.parametrize("probability", [True, False])
def test_probability_is_deprecated_at_the_line_of_the_user(probability):
    with pytest.warns(FutureWarning, match="CalibratedClassifierCV.NuSVC") as caught:
        NuSVC(probability=probability).fit(*blobs())
    assert [warning.filename for warning in caught] == [__file__]


def test_probabilities_of_a_class_of_one_are_said_to_be_too_sure():
    X, y = load("iris")
    names = np.array(["a", "b", "lonely"])[np.where(np.arange(len(y)) == 120, 2, y % 2)]
    with (
        pytest.warns(FutureWarning, match="probability"),
        pytest.warns(UserWarning, match="class 'lonely' has one sample") as caught,
    ):
        model = SVC(probability=True).fit(X, names)
    assert {warning.filename for warning in caught} == {__file__}
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_nested_parameters_change_under_grid_search():
    X, y = load("iris")
    grid = {"kernel__left__gamma": [1e-3, 0.5], "C": [1.0]}
    search = GridSearchCV(SVC(kernel=K.RBF(1.0) + K.Linear()), grid, cv=3).fit(X, y)
    assert search.best_estimator_.kernel_.left.gamma == search.best_params_["kernel__left__gamma"]


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_many_points_are_solved_class_by_class_and_given_back_in_order(kernel, monkeypatch):
    X, y = load("iris")
    shuffled = np.random.default_rng(0).permutation(len(X))
    X, y = X[shuffled], y[shuffled]
    points = X if kernel == "rbf" else X @ X.T
    options = {"kernel": kernel, "gamma": 0.1, "tol": 1e-7, "C": 3.0}
    plain = SVC(**options).fit(points, y)
    left_out = SVC(**options).leave_one_out(points, y)
    monkeypatch.setattr("mercer.estimators.svm.training.FEW_POINTS", 10)
    ordered = SVC(**options).fit(points, y)
    assert_array_equal(ordered.support_, plain.support_)
    assert_allclose(ordered.dual_coef_, plain.dual_coef_, atol=1e-4)
    assert_allclose(ordered.decision_function(points), plain.decision_function(points), atol=1e-5)
    again = SVC(**options).leave_one_out(points, y)
    assert_allclose(again.values, left_out.values, atol=1e-4)
    path = SVC(**options).path(points, y, [1.0, 3.0])
    assert_allclose(path.machines[1].dual_coef_, plain.dual_coef_, atol=1e-4)


@pytest.mark.parametrize("model", [SVC, NuSVC])
def test_an_object_that_cannot_be_read_is_named_by_its_place_in_x(model):
    X = ["ACGT"] * 8
    X[5] = "ACXT"
    with pytest.raises(ValueError, match="object 5: the symbol 'X'"):
        model(kernel=K.Mismatch(3, 1)).fit(X, [1, 0] * 4)
    G = np.eye(8)
    G[5, 5] = np.inf
    function = K.FromFunction(
        lambda A, B: G[A[:, 0].astype(int)][:, B[:, 0].astype(int)], pairwise=False, valid=True
    )
    with pytest.raises(ValueError, match="between training points 5 and 5"):
        model(kernel=function).fit(np.arange(8.0)[:, None], [1, 0] * 4)
