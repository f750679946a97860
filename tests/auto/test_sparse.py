"""Sparse rows of very many columns stay sparse: scalings, memory, agreement with dense formulas."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import estimator_checks

import mercer
from mercer.arrays import row_blocks
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.auto.likelihood import fit_likelihood
from mercer.tables import sparse
from mercer.tables.coding import TableCoding
from mercer.tables.sparse import SPARSE_SCALINGS, SparseCoding, are_all_equal, sparse_rows


def texts(n=200, d=1_300_000, entries=40, seed=0):
    """Rows with words in many columns, classes by a few hundred of them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    common = rng.integers(0, 400, (n, entries // 2)) * 2 + (
        rng.random((n, entries // 2)) < np.where(y == 1, 0.7, 0.3)[:, None]
    )
    rare = rng.integers(800, d, (n, entries - entries // 2))
    columns = np.hstack([common, rare])
    data = rng.exponential(size=columns.size) + 0.1
    X = sp.coo_array((data, (np.repeat(np.arange(n), entries), columns.ravel())), shape=(n, d))
    return X.tocsr(), y


def scaled(X, scaling):
    """The scalings by dense formulas, over all columns."""
    n = len(X)
    if scaling == "rare":
        X = X * (1 + np.log((1 + n) / (1 + (X != 0).sum(axis=0))))
    if scaling in ("rows", "rare"):
        lengths = np.sqrt((X**2).sum(axis=1))
        return X / np.where(lengths > 0, lengths, 1)[:, None]
    if scaling == "columns":
        largest = np.abs(X).max(axis=0)
        X = X / np.where(largest > 0, largest, 1)
    return X / np.sqrt((X**2).sum() / n)


@pytest.mark.parametrize("scaling", SPARSE_SCALINGS)
@pytest.mark.parametrize("wide", [0, 100_000])  # columns that are counted, or sorted
def test_scalings_are_those_of_dense_formulas(scaling, wide):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.2)
    X[4] = 0  # a row without entries
    X[:, [7, 49]] = 0  # columns without
    new = rng.normal(size=(9, 50)) * (rng.random((9, 50)) < 0.3)
    given = sp.csr_array(X)
    given.resize((30, 50 + wide))
    coding = SparseCoding(scaling).fit(given)
    assert coding.columns_.tolist() == np.flatnonzero(X.any(axis=0)).tolist()
    points = coding.transform(given)
    points.check_format()
    np.testing.assert_allclose(points.toarray(), scaled(X, scaling)[:, coding.columns_])
    # New rows by what was learnt, and without the columns that training did not have.
    other = sp.csr_array(new)
    other.resize((9, 50 + wide))
    found = coding.transform(other).toarray()
    known = new[:, coding.columns_]
    factor = scaled(X, scaling)[:, coding.columns_].sum(axis=0) / X[:, coding.columns_].sum(axis=0)
    if scaling in ("rows", "rare"):
        counts = (X != 0).sum(axis=0)[coding.columns_]
        factor = 1 + np.log(31 / (1 + counts)) if scaling == "rare" else 1.0
        known = known * factor
        factor = 1 / np.sqrt((known**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, known * factor, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("scaling", SPARSE_SCALINGS)
def test_scalings_of_numbers_of_any_size(scaling, size):
    X, _ = texts(20)
    points = SparseCoding(scaling).fit(size * X).transform(size * X)
    expected = SparseCoding(scaling).fit(X).transform(X)
    np.testing.assert_allclose(points.data, expected.data, rtol=1e-12)
    assert np.sum(expected.data**2) / 20 == pytest.approx(1)


def test_models_of_sparse_rows_are_kernel_machines_on_the_coded_points():
    X, y = texts()
    model = AutoKernelClassifier().fit(X, y)
    assert isinstance(model.coding_, SparseCoding)
    assert model.n_features_in_ == X.shape[1]
    assert model.report_["leave_one_out_accuracy"] > 0.7 > model.report_["baseline_accuracy"]
    new, truth = texts(100, seed=5)
    assert np.mean(model.predict(new) == truth) > 0.7
    # By hand, on the few columns that occur.
    fitted, asked = (model.coding_.transform(A).toarray() for A in (X, new))
    found = fit_likelihood(model.kernel_(fitted), y.astype(int), 2, model.alpha_)
    scores = model.kernel_(asked, fitted) @ found.coef[:, 0] + found.intercept
    np.testing.assert_allclose(model.decision_function(new), scores, rtol=1e-3, atol=1e-4)


def test_linear_functions_of_sparse_rows_are_found():
    X, _ = texts(900, d=2000, entries=80)
    weights = np.random.default_rng(2).normal(size=2000) * (np.arange(2000) < 800)
    y = X @ weights
    model = AutoKernelRegressor().fit(X[:800], y[:800])
    names = [tried["kernel"] for tried in model.report_["tried"]]
    assert "Linear" in names
    assert {tried["scaling"] for tried in model.report_["tried"]} == set(SPARSE_SCALINGS)
    assert np.mean((y[800:] - model.predict(X[800:])) ** 2) < 0.6 * np.var(y[800:])


def test_many_sparse_rows_are_fitted_on_centres(monkeypatch):
    X, y = texts()
    monkeypatch.setattr("mercer.auto.automatic.EXACT_AT_MOST", 100)
    model = AutoKernelClassifier().fit(X, y)
    assert model.model_.solver == "nystrom"
    assert np.mean(model.predict(X) == y) > 0.8


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
def test_all_forms_of_sparse_matrices_are_the_same(form):
    X, y = texts(40, d=5000)
    model = AutoKernelRegressor().fit(X, y)
    expected = model.predict(X)
    for make in (sp.csr_array, sp.csr_matrix):
        given = make(X).asformat(form)
        other = AutoKernelRegressor().fit(given, y)
        np.testing.assert_allclose(other.predict(given), expected, rtol=1e-10)
    np.testing.assert_allclose(model.predict(X.toarray()), expected)
    counts = X.astype(np.int64)  # with explicit zeros
    np.testing.assert_allclose(
        AutoKernelRegressor().fit(counts, y).predict(counts.toarray()),
        AutoKernelRegressor().fit(counts.astype(float), y).predict(counts),
    )


def test_the_matrix_of_the_caller_stays_as_it_is():
    X = sp.csr_array(
        (np.array([1.0, np.nan, 0.0, 2.0]), np.array([5, 3, 1, 1]), np.array([0, 3, 4])),
        shape=(2, 2000),
    )
    before = X.data.copy()
    rows = sparse_rows(X)
    np.testing.assert_array_equal(X.data, before)
    assert (rows.indices.tolist(), rows.data.tolist()) == ([5, 1], [1.0, 2.0])


def test_what_sparse_rows_may_not_hold():
    X, y = texts(30, d=2000)
    gaps = X.copy()
    gaps.data[::7] = np.nan
    zeros = X.copy()
    zeros.data[::7] = 0
    np.testing.assert_allclose(
        AutoKernelRegressor().fit(gaps, y).predict(gaps),
        AutoKernelRegressor().fit(zeros, y).predict(zeros),
    )
    model = AutoKernelRegressor().fit(X, y)
    with pytest.raises(ValueError, match="Complex data"):
        AutoKernelRegressor().fit(X * 1j, y)
    X.data[0] = np.inf
    column = X.indices[0]
    for call in (lambda: AutoKernelRegressor().fit(X, y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match=f"infinite value at row 0, column {column}"):
            call()
    with pytest.raises(
        ValueError, match="2001 features, but AutoKernelRegressor is expecting 2000"
    ):
        model.predict(sp.csr_array((3, 2001)))


def test_rows_that_tell_nothing():
    y = np.arange(30.0)
    same = sp.csr_array(np.tile(sp.random(1, 2000, 0.1, random_state=0).toarray(), (30, 1)))
    for X in (sp.csr_array((30, 2000)), same):
        model = AutoKernelRegressor().fit(X, y)
        np.testing.assert_allclose(model.predict(X), y.mean())
    assert are_all_equal(same)
    assert not are_all_equal(2 * sp.eye(3, format="csr"))


def test_weights_of_zero_leave_sparse_rows_out():
    X, y = texts(60, d=2000)
    weight = 1.0 * (np.arange(60) < 40)
    whole = AutoKernelClassifier().fit(X, y, sample_weight=weight)
    part = AutoKernelClassifier().fit(X[:40], y[:40])
    np.testing.assert_allclose(whole.decision_function(X), part.decision_function(X))


def test_narrow_and_full_matrices_are_coded_as_tables():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    for dense in (rng.normal(size=(40, 1500)), np.eye(40)):
        model = AutoKernelRegressor().fit(sp.csr_array(dense), y)
        assert isinstance(model.coding_, TableCoding)
        np.testing.assert_allclose(
            model.predict(sp.csr_array(dense)), AutoKernelRegressor().fit(dense, y).predict(dense)
        )


def test_tables_predict_sparse_rows_in_blocks(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 4))
    model = AutoKernelRegressor().fit(X, X[:, 0])
    seen = []

    def blocks(n, size):
        seen.extend(row_blocks(n, size, 16 * size))
        return seen

    monkeypatch.setattr("mercer.auto.automatic.row_blocks", blocks)
    np.testing.assert_allclose(model.predict(sp.csr_array(X)), model.predict(X))
    assert len(seen) == 4
    with pytest.raises(ValueError, match="5 features, but AutoKernelRegressor is expecting 4"):
        model.predict(sp.csr_array((3, 5)))


def test_saved_models_of_sparse_rows_predict_the_same(tmp_path):
    X, y = texts(80)
    model = AutoKernelClassifier().fit(X, y)
    mercer.save(model, tmp_path / "m.mercer")
    loaded = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (tmp_path / "m.mercer").stat().st_size < 40 * X.nnz + 200_000


@pytest.mark.parametrize("d", [1_300_000, 2**31 - 1])
def test_memory_goes_with_the_entries(d):
    """Dense, these rows would take 2 GiB, or 3 TiB; a number for each column, 10 MiB or 16 GiB."""
    X, y = texts(200, d)
    tracemalloc.start()
    model = AutoKernelClassifier().fit(X, y)
    model.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20


@pytest.fixture
def all_stay_sparse(monkeypatch):
    monkeypatch.setattr(sparse, "TABLE_COLUMNS", 0)


OF_SPARSE_ROWS = [
    estimator_checks.check_estimator_sparse_array,
    estimator_checks.check_estimator_sparse_matrix,
    estimator_checks.check_estimator_sparse_tag,
]


@pytest.mark.usefixtures("all_stay_sparse")
@pytest.mark.parametrize("model", [AutoKernelRegressor(), AutoKernelClassifier()])
@pytest.mark.parametrize("check", OF_SPARSE_ROWS)
def test_scikit_learns_checks_of_sparse_rows(model, check):
    check(type(model).__name__, model)
