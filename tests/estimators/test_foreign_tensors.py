"""Arrays of other libraries on a device, as of CuPy: computed with by torch, answered in kind.

The library here holds torch's tensors; on the host it says that it is on a device of its own.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import mercer
from mercer import gram
from mercer import kernels as K
from mercer.arrays import as_numpy
from tensor_devices import DEVICE, tensor, torch

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(30, 3)), RNG.normal(size=(7, 3))
y = np.sin(X[:, 0])
ELSEWHERE = 8  # kDLMetal of DLPack, which torch does not ask for a stream


class Array:
    """An array on a device, that speaks DLPack and nothing else."""

    def __init__(self, numbers):
        self.held = numbers

    @property
    def shape(self):
        return tuple(self.held.shape)

    def __len__(self):
        return len(self.held)

    def __dlpack__(self, **named):
        return self.held.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.held.__dlpack_device__() if DEVICE.type == "cuda" else (ELSEWHERE, 0)

    def __array__(self, *arguments, **named):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")


class StandardArray(Array):
    """The same, that names its library as the array API says."""

    def __array_namespace__(self, api_version=None):
        return types.SimpleNamespace(from_dlpack=lambda A: StandardArray(torch.from_dlpack(A)))


Array.__module__ = "devicearrays.core"


@pytest.fixture(params=[Array, StandardArray])
def array(request, monkeypatch):
    module = types.ModuleType("devicearrays")
    module.from_dlpack = lambda A: Array(torch.from_dlpack(A))
    monkeypatch.setitem(sys.modules, "devicearrays", module)
    return lambda A: request.param(tensor(A))


def numbers(found, like):
    """The numbers of an answer, which is of the library that was given."""
    assert type(found) is type(like)
    return as_numpy(found.held)


def test_kernels_and_operators(array):
    kernel, points, V = K.RBF(0.4) + K.Linear(), array(X), np.column_stack([y, y**2])
    for found, expected in (
        (kernel(points), kernel(X)),
        (kernel(points, array(NEW)), kernel(X, NEW)),
        (kernel.diag(points), kernel.diag(X)),
        (gram(kernel, points) @ array(V), kernel(X) @ V),
        (gram(kernel, points, store=False) @ array(y), kernel(X) @ y),
    ):
        np.testing.assert_allclose(numbers(found, points), expected, rtol=1e-11, atol=1e-12)
    assert gram(kernel, points).dense().device.type == DEVICE.type


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        mercer.KernelRidge(0.1, kernel=K.RBF(0.5)),
        mercer.SVR(kernel=K.RBF(0.5), tol=1e-8),
        mercer.NadarayaWatsonRegressor(bandwidth=0.4),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictions(model, dtype, array):
    points, new = X.astype(dtype), NEW.astype(dtype)
    expected = model.fit(points, y).predict(new)
    found = model.fit(array(points), array(y)).predict(array(new))
    atol = 1e-8 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(numbers(found, array(new)), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["SVC", "KernelRidgeClassifier", "KernelCentroidClassifier"])
def test_labels(name, array):
    labels, model = np.digitize(y, [-0.4, 0.4]), getattr(mercer, name)(kernel=K.RBF(0.5))
    expected, values = model.fit(X, labels).predict(NEW), model.decision_function(NEW)
    model.fit(array(X), array(labels))
    np.testing.assert_array_equal(numbers(model.predict(array(NEW)), array(NEW)), expected)
    found = numbers(model.decision_function(array(NEW)), array(NEW))
    np.testing.assert_allclose(found, values, rtol=0, atol=5e-3)
    words = np.array(["a", "b", "c"])[labels]
    assert model.fit(array(X), words).predict(array(NEW)).dtype.kind == "U"


def test_components_and_densities(array):
    model = mercer.KernelPCA(2, kernel=K.RBF(0.4))
    expected = model.fit(X).transform(NEW)
    found = numbers(model.fit(array(X)).transform(array(NEW)), array(NEW))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    assert type(model.fit_transform(array(X))) is type(array(X))
    density = mercer.KernelDensity(bandwidth=0.5)
    expected = density.fit(X).score_samples(NEW)
    found = numbers(density.fit(array(X)).score_samples(array(NEW)), array(NEW))
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    variates = mercer.KernelCCA(1, regularization=0.1)
    expected = variates.fit(X, X[:, :1]).transform(NEW, Y=NEW[:, :1])
    found = variates.fit(array(X), array(X[:, :1])).transform(array(NEW), Y=array(NEW[:, :1]))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(numbers(one, array(X)), other, rtol=0, atol=1e-8)


def test_without_torch_it_is_an_error_that_says_so(array, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    found = types.SimpleNamespace(import_module=missing)
    monkeypatch.setattr("mercer.arrays.libraries.importlib", found)
    for ask in (lambda: K.RBF()(array(X)), lambda: mercer.KernelRidge().fit(array(X), y)):
        with pytest.raises(ImportError, match=r"Array on a device, where mercer computes with tor"):
            ask()
