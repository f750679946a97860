"""Arrays of other libraries that follow the array API: answered in kind, as NumPy's are."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import sklearn

from mercer import (
    SVC,
    SVR,
    KernelCentroidClassifier,
    KernelDensity,
    KernelMachineClassifier,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    NadarayaWatsonRegressor,
    gram,
)
from mercer import kernels as K

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 3))
y = np.sin(X[:, 0]) + X[:, 1]
NEW = RNG.normal(size=(7, 3))


@pytest.fixture(autouse=True)
def dispatched(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=["array_api_strict", "jax"])
def xp(request):
    if request.param == "array_api_strict":
        yield array_api_strict
        return
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax.numpy
    jax.config.update("jax_enable_x64", before)


def is_of(library, found):
    return type(found) is type(library.asarray([1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(0.1, kernel=K.RBF(0.5)),
        KernelRidgeCV(kernel=K.RBF(0.5)),
        NadarayaWatsonRegressor(bandwidth=0.4),
        SVR(kernel=K.RBF(0.5)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictions(model, dtype, xp):
    points, new = X.astype(dtype), NEW.astype(dtype)
    expected, score = model.fit(points, y).predict(new), model.score(points, y)
    found = model.fit(xp.asarray(points), xp.asarray(y)).predict(xp.asarray(new))
    assert is_of(xp, found)
    np.testing.assert_array_equal(np.from_dlpack(found), expected)
    assert model.score(xp.asarray(points), xp.asarray(y)) == score


@pytest.mark.parametrize(
    "model",
    [SVC(kernel=K.RBF(0.5)), KernelCentroidClassifier(K.RBF(0.5)),
     KernelMachineClassifier(kernel=K.RBF(0.5))],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_classes(model, xp):
    labels = (y > 0).astype(int)
    expected, score = model.fit(X, labels).decision_function(NEW), model.score(X, labels)
    model.fit(xp.asarray(X), xp.asarray(labels))
    found = model.decision_function(xp.asarray(NEW))
    assert is_of(xp, found)
    np.testing.assert_array_equal(np.from_dlpack(found), expected)
    assert is_of(xp, model.predict(xp.asarray(NEW)))
    assert model.score(xp.asarray(X), xp.asarray(labels)) == score
    words = np.where(labels, "up", "down")
    assert model.fit(xp.asarray(X), words).predict(xp.asarray(NEW)).dtype.kind == "U"


def test_components_and_densities(xp):
    model = KernelPCA(2, kernel=K.RBF(0.4))
    expected = model.fit(X).transform(NEW)
    np.testing.assert_array_equal(
        np.from_dlpack(model.fit(xp.asarray(X)).transform(xp.asarray(NEW))), expected
    )
    assert is_of(xp, model.fit_transform(xp.asarray(X)))
    density = KernelDensity(bandwidth=0.5)
    expected = density.fit(X).score_samples(NEW)
    found = density.fit(xp.asarray(X)).score_samples(xp.asarray(NEW))
    np.testing.assert_array_equal(np.from_dlpack(found), expected)


def test_kernels_and_operators(xp):
    points, kernel, V = xp.asarray(X), K.RBF(0.4) + K.Linear(), np.column_stack([y, y**2])
    for found, expected in (
        (kernel(points), kernel(X)),
        (kernel(points, xp.asarray(NEW)), kernel(X, NEW)),
        (kernel.diag(points), kernel.diag(X)),
        (gram(kernel, points) @ xp.asarray(V), gram(kernel, X) @ V),
        (gram(kernel, X, store=False) @ xp.asarray(y), gram(kernel, X, store=False) @ y),
    ):
        assert is_of(xp, found)
        np.testing.assert_array_equal(np.from_dlpack(found), expected)
    assert type(gram(kernel, points) @ V) is np.ndarray


def test_without_the_setting_nothing_changes():
    with sklearn.config_context(array_api_dispatch=False):
        found = KernelRidge(0.1, kernel=K.RBF(0.5)).fit(X, y).predict(NEW)
    assert type(found) is np.ndarray
