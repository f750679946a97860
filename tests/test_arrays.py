"""Blocks, budgets and the checks of numeric input."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn

import mercer
from mercer import KernelMachineRegressor, KernelPCA, KernelRidge, KernelRidgeCV
from mercer import kernels as K
from mercer.arrays import (
    LazyModule,
    as_vectors,
    memory_budget,
    physical_memory,
    row_blocks,
    take_rows,
)


def test_blocks_cover_every_row_once():
    for n, bytes_per_row, budget in ((10, 8, 24), (1, 1e9, 1), (7, 1, 7), (0, 1, 1)):
        rows = [i for block in row_blocks(n, bytes_per_row, budget) for i in range(n)[block]]
        assert rows == list(range(n))


def test_the_budget_is_scikit_learns():
    with sklearn.config_context(working_memory=3):
        assert memory_budget() == 3 * 2**20


def test_dtypes_and_sparsity_are_kept():
    assert as_vectors(np.ones((2, 2), np.float32)).dtype == np.float32
    assert as_vectors([[1, 2]]).dtype == np.float64
    assert sp.issparse(as_vectors(sp.csc_array(np.eye(3))))


def test_sparse_missing_values_are_found():
    S = sp.csr_array(np.array([[0.0, 1.0], [np.nan, 0.0]]))
    with pytest.raises(ValueError, match="row 1, column 0"):
        as_vectors(S)


def test_rows_are_taken_in_the_objects_own_form():
    assert take_rows(["a", "b", "c"], [2, 0]) == ["c", "a"]
    assert take_rows(["a", "b", "c"], slice(1, None)) == ["b", "c"]
    assert take_rows(np.arange(4), [1, 3]).tolist() == [1, 3]


def test_sparse_duplicates_are_summed_and_the_input_left_alone():
    S = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), (2, 2))
    found = as_vectors(S)
    assert found.has_canonical_format
    assert S.nnz == 3
    np.testing.assert_array_equal(found.toarray(), [[3.0, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(K.RBF(0.1)(S), K.RBF(0.1)(S.toarray()))


@pytest.mark.parametrize(
    "bad",
    [
        [["a", "b"]],
        [1.0, 2.0],
        np.ones((2, 2, 2)),
        np.empty((0, 3)),
        [[1.0], [1.0, 2.0]],
        [[10**400]],
        np.array([[1j]]),
        None,
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
        5,
        "abc",
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_every_message_names_the_argument(bad):
    for name in ("X", "Y", "the matrix"):
        with pytest.raises((TypeError, ValueError), match=f"^{name}\\b"):
            as_vectors(bad, name)
    with pytest.raises((TypeError, ValueError), match=r"^Y\b"):
        K.RBF()([[1.0]], bad if bad is not None else [[None]])


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([[1.0, "abc"], [2.0, 3.0]], "row 0, column 1"),
        (np.array([["1.5", "2"], ["x", "3"]]), "row 1, column 0"),
        (pd.DataFrame({"age": [30.0], "name": ["Ann"]}), "row 0, column 'name'"),
        (["abc", "def"], "row 0"),
        (["0110", "1100"], "row 0"),
    ],
)
def test_text_in_place_of_a_number_is_named(given, place):
    with pytest.raises(ValueError, match=f"X has the text .* at {place}.*Spectrum"):
        K.RBF()(given)
    with pytest.raises(ValueError, match=f"X has the text .* at {place}.*Spectrum"):
        KernelRidge().fit(given, np.arange(len(given), dtype=float))


@pytest.mark.parametrize(
    "fit",
    [
        lambda X: KernelRidge(kernel="rbf").fit(X, X[:, 0]),
        lambda X: KernelRidgeCV(kernel="rbf").fit(X, X[:, 0]),
        lambda X: KernelMachineRegressor(kernel="rbf").fit(X, X[:, 0]),
        lambda X: KernelPCA(kernel="rbf", eigen_solver="dense").fit(X),
    ],
)
def test_a_matrix_too_large_for_the_machine_is_refused_with_advice(fit, monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 2))
    fit(X)
    monkeypatch.setattr(mercer.arrays.memory, "physical_memory", lambda: 3 * 8 * 39**2)
    with pytest.raises(MemoryError, match=r"n = 40 points.*approximate_map"):
        fit(X)
    monkeypatch.setattr(mercer.arrays.memory, "physical_memory", lambda: None)
    fit(X)


def test_the_memory_of_this_machine_is_known_or_not():
    present = physical_memory()
    assert present is None or present > 2**20


def test_memory_is_asked_of_windows_where_there_is_no_sysconf(monkeypatch):
    class Kernel32:
        def GetPhysicallyInstalledSystemMemory(self, kilobytes):
            kilobytes._obj.value = 3 * 2**20
            return 1

    for limit in ("_address_space", "_container"):  # which Windows does not have
        monkeypatch.setattr(mercer.arrays.memory, limit, lambda: None)
    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.delattr(ctypes, "windll", raising=False)
    assert physical_memory() is None
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=Kernel32()), raising=False)
    assert physical_memory() == 3 * 2**30
    monkeypatch.setattr(Kernel32, "GetPhysicallyInstalledSystemMemory", lambda *_: 0)
    assert physical_memory() is None


def test_a_module_is_imported_only_for_what_is_its_own():
    later = LazyModule("antigravity_that_is_not_there")
    with pytest.raises(AttributeError, match=r"^_mock_name$"):
        later._mock_name  # noqa: B018
    with pytest.raises(AttributeError, match="which is not installed"):
        later.something  # noqa: B018
    assert LazyModule("math").pi == np.pi
