"""Predictions of one row: points are packed once, and the answers are those of a batch."""

import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError

import mercer
from mercer import kernels as K
from mercer.estimators import prediction_cache

C, labels = load_breast_cancer(return_X_y=True)
C = (C - C.mean(axis=0)) / C.std(axis=0)
D, targets = load_diabetes(return_X_y=True)
kinds = np.digitize(targets, [90, 140, 200])
MODELS = [
    (mercer.SVC(), C, labels),
    (mercer.SVC(kernel="poly", C=10.0), C, labels),
    (mercer.SVC(kernel=K.RBF(0.1) + K.RBF(1.0, scales=np.full(30, 9.0))), C, labels),
    (mercer.SVC(kernel=K.Laplacian(0.1)), C, labels),
    (mercer.SVC(kernel="linear"), C[:, :2].copy(), labels),
    (mercer.SVC(gamma=5.0), D, kinds),
    (mercer.NuSVC(nu=0.1, decision_function_shape="ovo", gamma=5.0), D, kinds),
    (mercer.SVR(C=100.0, gamma=5.0), D, targets),
    (mercer.OneClassSVM(nu=0.1), C, None),
    (mercer.KernelRidge(kernel="rbf", gamma=3.0, alpha=0.1), D, targets),
    (mercer.KernelRidge(kernel="rbf", fit_intercept=True), D, np.c_[targets, D[:, 0]]),
]
IDS = [repr(model)[:60] for model, *_ in MODELS]


@pytest.fixture
def packed(monkeypatch):
    """How often points are prepared and packed."""
    found = []

    def counted(*arguments):
        found.append(arguments)
        return pack(*arguments)

    pack = prediction_cache.packed_points
    monkeypatch.setattr(prediction_cache, "packed_points", counted)
    return found


def values_of(model):
    return getattr(model, "decision_function", model.predict)


def functions(model, X):
    """The fitted functions by the kernel and the coefficients, as they are defined."""
    points = getattr(model, "X_fit_", getattr(model, "support_vectors_", None))
    coef = model._columns() if hasattr(model, "_columns") else model.dual_coef_
    return model.kernel_(X, points) @ coef + model.intercept_


@pytest.mark.parametrize(("model", "X", "y"), MODELS, ids=IDS)
def test_rows_one_by_one_are_the_rows_of_a_batch(packed, model, X, y):
    model = clone(model).fit(X, y)
    before, values = dict(vars(model)), values_of(model)
    together = values(X[:40])
    alone = np.concatenate([values(X[i : i + 1]) for i in range(40)])
    assert_allclose(alone, together, rtol=1e-10, atol=1e-12 * np.abs(together).max())
    assert_allclose(
        np.concatenate([model.predict(X[i : i + 1]) for i in range(40)]),
        model.predict(X[:40]),
        rtol=1e-10,
    )
    if together.ndim == 1 or not hasattr(model, "classes_"):
        expected = functions(model, X[:40]).reshape(together.shape)
        assert_allclose(together, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert len(packed) == 1
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize(("model", "X", "y"), MODELS[:1] + MODELS[7:10:2], ids=repr)
def test_nothing_kept_is_pickled_or_saved(packed, tmp_path, model, X, y):
    model = clone(model).fit(X, y)
    pickled = pickle.dumps(model)
    mercer.save(model, tmp_path / "before.mercer")
    expected = model.predict(X[:1])
    assert pickle.dumps(model) == pickled
    mercer.save(model, tmp_path / "after.mercer")
    sizes = [(tmp_path / f"{name}.mercer").stat().st_size for name in ("before", "after")]
    assert sizes[0] == sizes[1]
    for again in (pickle.loads(pickled), mercer.load(tmp_path / "after.mercer")):
        assert_array_equal(again.predict(X[:1]), expected)
        assert_array_equal(again.predict(X[1:2]), model.predict(X[1:2]))
    assert len(packed) == 3


def test_a_model_changed_by_hand_predicts_as_changed(packed):
    model = mercer.SVR(gamma=5.0, C=100.0).fit(D, targets)
    first, row = model.predict(D[:1]), D[:1]
    model.dual_coef_ *= 2  # in place
    assert_allclose(model.predict(row) - model.intercept_, 2 * (first - model.intercept_))
    model.dual_coef_ = model.dual_coef_ / 2
    assert_allclose(model.predict(row), first)
    model.intercept_ = model.intercept_ + 1
    assert_allclose(model.predict(row), first + 1)
    assert len(packed) == 1
    model.support_vectors_ = model.support_vectors_[::-1].copy()
    assert_allclose(model.predict(row), functions(model, row)[:, 0])
    model.kernel_ = K.RBF(1.0)
    assert_allclose(model.predict(row), functions(model, row)[:, 0])
    model.kernel_.gamma = 2.0
    assert_allclose(model.predict(row), functions(model, row)[:, 0])
    assert len(packed) == 4


def test_another_fit_packs_its_own_points(packed):
    X = D.copy()
    model = mercer.KernelRidge(kernel="rbf", gamma=3.0).fit(X, targets)
    model.predict(X[:1])
    X[:] = X[::-1].copy()  # the same array with other points
    model.fit(X, targets[::-1])
    assert_allclose(model.predict(X[:1]), functions(model, X[:1]))
    assert len(packed) == 2


def test_threads_share_what_is_packed():
    model = mercer.SVC().fit(C, labels)
    expected, wrong, start = model.decision_function(C), [], threading.Barrier(6)
    prediction_cache.drop_cache(model)

    def predict(own):
        start.wait()
        for i in range(own, len(C), 6):
            if abs(model.decision_function(C[i : i + 1])[0] - expected[i]) > 1e-12:
                wrong.append(i)

    threads = [threading.Thread(target=predict, args=(own,)) for own in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_rows_that_are_refused_as_before():
    model = mercer.SVC().fit(C, labels)
    model.predict(C[:1])
    row = C[:1].copy()
    row[0, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.predict(row)
    with pytest.raises(ValueError, match="30 features"):
        model.predict(C[:1, :7])
    with pytest.raises(ValueError, match="2D array"):
        model.predict(C[0])
    with pytest.raises(NotFittedError):
        mercer.SVC().predict(row)


def test_zeros_and_ones_and_large_values():
    B = (C > 0).astype(float)
    model = mercer.SVC(gamma=0.1).fit(B, labels)
    for rows in (B[:5], C[:5], 1e200 * C[:5]):
        values = model.decision_function(rows)
        assert_allclose(values, functions(model, rows)[:, 0], rtol=1e-9, atol=1e-12)
        alone = np.concatenate([model.decision_function(row[None]) for row in rows])
        assert_allclose(alone, values, rtol=1e-12)


@pytest.mark.parametrize("scaling", ["standard", "common", "normal"])
def test_tables_of_numbers_are_coded_alike_as_arrays_and_as_lists(scaling):
    from mercer.tables.coding import TableCoding

    X = C[:, :6].copy()
    X[:, 2] = 1.0  # tells nothing
    for table in (X, np.where(np.arange(len(X))[:, None] % 7 == np.arange(6), np.nan, X)):
        coding = TableCoding(scaling).fit(table)
        assert_array_equal(coding.transform(X[:9]), coding.transform(X[:9].tolist()))


@pytest.mark.parametrize("model", [mercer.AutoKernelRegressor(), mercer.AutoKernelClassifier()])
def test_models_without_choices_pack_once(packed, model):
    model.fit(D[:150], targets[:150] if "Reg" in repr(model) else kinds[:150] > 1)
    packed.clear()
    together = model.predict(D[:20])
    assert_allclose([model.predict(row[None])[0] for row in D[:20]], together)
    assert len(packed) <= 1
