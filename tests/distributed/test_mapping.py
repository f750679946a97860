"""Methods of every fitted estimator map over the blocks of a collection, lazily."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_regressor

import mercer
from mercer import kernels as K
from model_zoo import IRIS, SPECIES, X_REG, Y_REG

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.usefixtures("one_thread")
# Methods of points that are no fits and give no single number, and what else they need.
LAZY = {
    "predict": {},
    "decision_function": {},
    "predict_proba": {},
    "predict_log_proba": {},
    "transform": {},
    "score_samples": {},
    "pdf": {},
    "latent_mean_and_variance": {},
    "standard_error": {},
    "reconstruction_error": {},
    "weights": {},
    "confidence_band": {},
    "conditional_quantile": {"q": [0.1, 0.5, 0.9]},
    "conditional_density": {"t": None},
    "novelty": {},
}
AT_ONCE = [
    "calibrate_intervals", "fit", "fit_predict", "fit_transform", "leave_one_out", "partial_fit",
    "path", "predict_interval", "predict_parts", "sample_y", "score",
]  # fmt: skip
MORE = {
    "NuSVC": {"nu": 0.2},
    "KernelPerceptron": {"random_state": 0},
    "KernelSGDClassifier": {"n_iter": 50, "random_state": 0},
    "KernelPCA": {"n_components": 2},
    "KernelDensity": {"bandwidth": 0.7},
    "NadarayaWatsonRegressor": {"bandwidth": 1.0},
    "NadarayaWatsonClassifier": {"bandwidth": 1.0},
    "LocalLinearRegressor": {"bandwidth": 2.0},
    "KernelMachineRegressor": {"loss": "quantile", "quantile": [0.2, 0.8]},
    "AutoKernelClassifier": {"max_time": 1.0, "random_state": 0},
    "AutoKernelRegressor": {"max_time": 1.0, "random_state": 0},
}
# Without methods of new points.
OF_TRAINING = {"KernelSpectralClustering"}
NAMES = sorted(
    {*mercer.estimators.__all__, "AutoKernelClassifier", "AutoKernelRegressor"} - OF_TRAINING
)


def fitted(name):
    model = getattr(mercer, name)(**MORE.get(name, {}))
    X, y = (X_REG, Y_REG) if is_regressor(model) else (IRIS, SPECIES)
    if name == "GaussianProcessClassifier":
        y = y == 1  # of which there are a mean and a variance
    if name == "KernelCCA":
        return model.fit(X[:, :2], X[:, 2:]), X[:, :2]
    if "y" not in inspect.signature(model.fit).parameters:
        return model.fit(X), X
    return model.fit(X, y), X


def methods_of(model):
    """The methods of points that a fitted model has."""
    for name, method in inspect.getmembers(model, inspect.ismethod):
        if not name.startswith("_") and "X" in inspect.signature(method).parameters:
            assert name in LAZY or name in AT_ONCE or name == "inverse_transform", name
            if name in LAZY:
                yield name, {**LAZY[name]}


def several(found):
    return found if isinstance(found, tuple) else (found,)


def equal(found, expected):
    if expected.dtype.kind == "f":
        assert_allclose(found, expected, atol=1e-10)
    else:
        assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_every_estimator_map_over_blocks(name):
    model, X = fitted(name)
    read = []

    def block(values):
        read.append(len(values))
        return values

    known = da.from_array(X, chunks=(17, 1))
    points = known.map_blocks(block, meta=np.zeros((0, 0)))
    table = dd.from_pandas(pd.DataFrame(X), npartitions=3).map_partitions(
        block, meta=pd.DataFrame(X)
    )
    tried = list(methods_of(model))
    assert tried
    for method, more in tried:
        if "t" in more:
            more["t"] = SPECIES[:1] if hasattr(model, "classes_") else Y_REG[:2]
        expected = several(getattr(model, method)(X, **more))
        for data, kind in ((points, da.Array), (table, (dd.Series, dd.DataFrame))):
            lazy = several(getattr(model, method)(data, **more))
            assert read == []
            for each, wanted in zip(lazy, expected, strict=True):
                assert isinstance(each, kind), method
                if kind is da.Array:
                    assert each.chunks == (known.chunks[0], *((size,) for size in wanted.shape[1:]))
                    assert each.dtype == each._meta.dtype == wanted.dtype
                    assert each._meta.ndim == wanted.ndim
                else:
                    assert each.npartitions == 3
                    assert_array_equal(each.index.compute(), np.arange(len(X)))
                    assert set(np.atleast_1d(each._meta.dtypes)) == {wanted.dtype}
                    read.clear()
                equal(np.asarray(each.compute()), wanted)
                assert len(read) > 0
                read.clear()


def test_several_arrays_come_as_several_collections():
    model = mercer.NadarayaWatsonRegressor(bandwidth=1.0).fit(X_REG, Y_REG)
    points = da.from_array(X_REG, chunks=(25, 4))
    for found, expected in zip(
        model.predict(points, return_std=True), model.predict(X_REG, return_std=True), strict=True
    ):
        assert_allclose(found.compute(), expected, atol=1e-10)


def test_feature_maps_and_pre_images_map_over_blocks():
    points = da.from_array(IRIS, chunks=(40, 4))
    features = K.RBF(0.3).approximate_map(20, random_state=0).fit(IRIS)
    assert_allclose(features.transform(points).compute(), features.transform(IRIS), atol=1e-12)
    explicit = K.Polynomial(2).feature_map().fit(IRIS)
    assert_allclose(explicit.transform(points).compute(), explicit.transform(IRIS), atol=1e-12)
    components = mercer.KernelPCA(3, kernel="rbf", gamma=0.2, fit_inverse_transform=True).fit(IRIS)
    back = components.inverse_transform(components.transform(points))
    expected = components.inverse_transform(components.transform(IRIS))
    assert_allclose(back.compute(), expected, atol=1e-10)


def test_nothing_is_computed_until_it_is_asked_for():
    read = []

    def block(seed):
        read.append(seed)
        return np.random.default_rng(seed).normal(size=(10, 4))

    parts = [da.from_delayed(dask.delayed(block)(i), (10, 4), float) for i in range(5)]
    points = da.concatenate(parts)
    model = mercer.KernelRidge(kernel="rbf").fit(X_REG, Y_REG)
    predicted = model.predict(points)
    assert read == []
    assert len(predicted[10:30].compute()) == 20
    assert sorted(read) == [1, 2]
