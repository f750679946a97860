"""Kernels on columns of tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer import kernels as K


def test_tables_mix_text_and_numbers():
    frame = pd.DataFrame(
        {"dna": ["ACGT", "ACCA", "TTGA"], "a": [0.1, 0.5, 2.0], "b": [1.0, 0.0, 1.0]}
    )
    kernel = 0.5 * K.Spectrum(2).normalize().on("dna") + K.RBF(0.3).on(["a", "b"])
    expected = 0.5 * K.Spectrum(2).normalize()(frame["dna"]) + K.RBF(0.3)(frame[["a", "b"]])
    np.testing.assert_allclose(kernel(frame), expected)
    np.testing.assert_allclose(kernel(frame, frame[:2]), expected[:, :2])
    by_position = 0.5 * K.Spectrum(2).normalize().on(0) + K.RBF(0.3).on([1, 2])
    np.testing.assert_allclose(by_position(frame.to_numpy(dtype=object)), expected)
    assert kernel.validity.status == "valid"
    assert K.parse(repr(kernel)).key() == kernel.key()
    with pytest.raises(ValueError, match="no column 'rna'"):
        K.Spectrum(2).on("rna")(frame)
    with pytest.raises(TypeError, match="without names"):
        K.RBF().on(["a"])(frame[["a"]].to_numpy())


def test_a_table_and_its_numbers_meet():
    X = np.random.default_rng(0).normal(size=(5, 3))
    kernel = K.RBF() + K.Linear().on([0])
    expected = K.RBF()(X) + X[:, :1] @ X[:, :1].T
    np.testing.assert_allclose(kernel(X), expected)
    np.testing.assert_allclose((K.Linear().on([0]) + K.RBF())(pd.DataFrame(X)), expected)
    assert kernel.validity.status == "valid"
    with pytest.raises(ValueError, match="negative"):
        (K.Min() * K.Linear().on([0]))(X)
    with pytest.raises(TypeError, match=r"k\.on\(columns\)"):
        K.Spectrum(2) + K.Linear().on([0])


@pytest.mark.parametrize(
    "kernel",
    [
        K.Sigmoid(coef0=500.0).on([3, 0]),
        K.Sigmoid(coef0=1.0).on(["b", "a", "c"]),
        K.Polynomial(3, coef0=-1.0).on(2),
        K.Polynomial(3, coef0=-1.0).on([-1]),
        (K.Min() - 2 * K.Min()).on(["a"]),
        K.RBF().on([0]) - 2 * K.RBF().on([2]),
        K.RBF().on(["a"]) - 2 * K.RBF().on(["b", "c"]),
        K.RBF(scales=[1.0] * 6) - 2 * K.Linear().on([0]),
    ],
    ids=repr,
)
def test_counterexamples_on_columns_are_tables(kernel):
    found = kernel.validity.counterexample
    assert np.linalg.eigvalsh(kernel(found.points))[0] == pytest.approx(found.eigenvalue)


@pytest.mark.parametrize(
    "kernel",
    [
        (1 + K.Linear() - K.Conjunction()).on([0]),  # nothing at all in one dimension
        K.Spectrum(2).on(0) - K.Spectrum(2).normalize().on(0),
    ],
    ids=repr,
)
def test_columns_without_a_counterexample_are_not_refuted(kernel):
    assert kernel.validity.status == "unknown"


@pytest.mark.parametrize("columns", [[5], [-10], 5, -4, ["a", 7]], ids=repr)
def test_columns_that_are_not_there_are_named(columns):
    frame = pd.DataFrame(np.ones((2, 3)), columns=["a", "b", "c"])
    wide = pd.DataFrame(np.ones((2, 12)), columns=list("abcdefghijkl"))
    with pytest.raises(ValueError, match="Y has no column"):
        K.RBF().on(columns)(wide, frame)
    if columns != ["a", 7]:
        with pytest.raises(ValueError, match="X has no column"):
            K.RBF().on(columns)(frame.to_numpy())


def test_columns_by_name_and_position_together():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "b", "c"])
    np.testing.assert_allclose(K.Linear().on(["c", 0])(frame), K.Linear().on([2, 0])(frame))
    text = np.array([["x", 1.0]], dtype=object)
    with pytest.raises(ValueError, match=r"^X"):
        K.Linear().on([0])(text)


@pytest.mark.parametrize("columns", [[1.5], [True, False], True, 1.0, [None], None, [], {"a"}])
def test_columns_are_names_or_positions(columns):
    with pytest.raises(TypeError, match=r"on\(columns\) takes"):
        K.RBF().on(columns)(np.ones((2, 3)))
