"""Arrays of numpy.ma: what is masked is never read as a number."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer
from every_estimator import SETTINGS, lesson, made, said
from mercer import kernels as K

AUTO = {"AutoKernelClassifier", "AutoKernelRegressor"}  # they take X with gaps
METHODS = ("decision_function", "predict", "predict_proba", "score_samples", "transform", "weights")


def masked(values, *where):
    found = np.ma.array(values, mask=np.zeros(np.shape(values), dtype=bool))
    found[where] = np.ma.masked
    return found


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - AUTO))
def test_masked_points_are_refused_with_their_place(name):
    data, words = lesson(name, 30), "X is masked at row 2, column 1, .*SimpleImputer"
    hole = masked(data[0], 2, 1)
    with pytest.raises(ValueError, match=words):
        made(name).fit(hole, *data[1:])
    model = made(name).fit(*data)
    for method in METHODS:
        if hasattr(model, method):
            with pytest.raises(ValueError, match=words):
                getattr(model, method)(hole)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_masked_targets_and_weights_are_refused(name):
    data, parameters = lesson(name, 30), inspect.signature(made(name).fit).parameters
    if len(data) == 2 and name != "KernelCCA":
        with pytest.raises(ValueError, match=r"y is masked at row 4, .*leave out the masked rows"):
            made(name).fit(data[0], masked(data[1], 4))
        with pytest.raises(ValueError, match="y is masked at row 4"):
            made(name).fit(*data).score(data[0], masked(data[1], 4))
    if "sample_weight" in parameters:
        with pytest.raises(ValueError, match="sample_weight is masked at row 5"):
            made(name).fit(*data, sample_weight=masked(np.ones(30), 5))


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_mask_of_nothing_changes_nothing(name):
    data = lesson(name, 30)
    nothing = [np.ma.array(A, mask=np.zeros(A.shape, dtype=bool)) for A in data]
    found, expected = (
        said(made(name).fit(*nothing), nothing[0]),
        said(made(name).fit(*data), data[0]),
    )
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(AUTO))
def test_a_masked_cell_of_a_table_is_a_gap(name):
    X, y = lesson(name, 30)
    gap = X.copy()
    gap[2, 1] = np.nan
    model = made(name).fit(gap, y)
    assert_allclose(made(name).fit(masked(X, 2, 1), y).predict(X), model.predict(X))
    assert_allclose(model.predict(masked(X, 2, 1)), model.predict(gap))
    words = np.array([["a", "b"]] * 15 + [["b", "a"]] * 15, dtype=object)
    made(name).fit(masked(words, 3, 0), y).predict(masked(words, 3, 0))


def test_second_views_and_further_chunks_are_looked_at():
    X, Y = lesson("KernelCCA", 30)
    for hole in (masked(Y, 2, 1), masked(Y[:, 0], 2)):
        with pytest.raises(ValueError, match="masked at row 2"):
            made("KernelCCA").fit(X, hole)
    X, y = lesson("KernelPerceptron", 30)
    model = made("KernelPerceptron").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="y is masked at row 4"):
        model.partial_fit(X, masked(y, 4))
    smoother = made("NadarayaWatsonRegressor").set_params(categorical_features=[0]).fit(X, y)
    with pytest.raises(ValueError, match="X is masked at row 2, column 1"):
        smoother.predict(masked(X, 2, 1))
    with pytest.raises(ValueError, match="t is masked at row 1"):
        smoother.conditional_density(X, masked(np.zeros(3), 1))


KERNELS = [
    K.RBF(),
    K.Chi2(),
    K.RBF(scales=[1.0, 2.0]),
    K.RBF().on([0]) + K.Linear().on([1]),
    K.RBF().compose(np.abs),
    K.FromFunction(lambda a, b: float(a @ b)),
    K.FromFunction(lambda A, B: A @ B.T, pairwise=False),
    K.Precomputed(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_refuse_masked_points(kernel):
    X = np.array([[1.0, 0.5], [0.5, 1.0]])
    hole = masked(X, 1, 0)
    for call in (
        lambda: kernel(hole),
        lambda: kernel.diag(hole),
        lambda: mercer.gram(kernel, hole),
        lambda: mercer.check_kernel(kernel, hole),
    ):
        with pytest.raises(ValueError, match="X is masked at row 1, column 0"):
            call()
    if not isinstance(kernel, K.Precomputed):
        with pytest.raises(ValueError, match="Y is masked at row 1, column 0"):
            kernel(X, hole)
    assert_array_equal(kernel(np.ma.array(X)), kernel(X))


def test_structured_kernels_refuse_masked_objects():
    words = masked(np.array(["abc", "abd", "b"], dtype=object), 1)
    with pytest.raises(ValueError, match="X is masked at row 1"):
        K.Spectrum(2)(words)
    with pytest.raises(ValueError, match="X is masked at row 1"):
        K.FromMatrix(np.eye(3))(masked(np.arange(3), 1))
    for hole in (masked(np.zeros((4, 1)), 2, 0), masked(np.zeros(4), 2)):
        with pytest.raises(ValueError, match="X is masked at row 2"):
            mercer.hsic(hole, np.zeros((4, 1)))
