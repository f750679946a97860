"""Estimators given tensors: the answers they give for arrays, as tensors where the points are."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import (
    KernelCentroidClassifier,
    KernelDensity,
    KernelPCA,
    KernelRidge,
    NadarayaWatsonRegressor,
)
from mercer import kernels as K
from mercer.arrays import as_numpy
from tensor_devices import DEVICE, WAYS, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
weight = RNG.uniform(size=120)
NEW = RNG.normal(size=(17, 3))


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    use(request.param, monkeypatch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "pcg"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [y, np.column_stack([y, y**2])], ids=["one", "two"])
def test_ridge_is_that_of_arrays(dtype, solver, weighted, targets, monkeypatch):
    use("torch", monkeypatch)
    points, new, s = X.astype(dtype), NEW.astype(dtype), weight if weighted else None
    for fit_intercept in (False, True):
        model = KernelRidge(0.3, kernel=K.RBF(0.5), fit_intercept=fit_intercept, tol=1e-10)
        expected = model.fit(points, targets, s).predict(new)
        model.set_params(solver=solver)
        model.fit(tensor(points), tensor(targets), None if s is None else tensor(s))
        found = model.predict(tensor(new))
        assert model.result_.status.ok
        assert f"tensors on {DEVICE.type}" in model.result_.method
        for array in (found, model.dual_coef_, model.X_fit_):
            assert array.device.type == DEVICE.type
            assert array.dtype == getattr(torch, np.dtype(dtype).name)
        assert tuple(found.shape) == expected.shape
        atol = 1e-8 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(as_numpy(found), expected, atol=atol)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
def test_ridge_by_kernels_of_triton(solver, way):
    model = KernelRidge(0.3, kernel=K.Laplacian(0.2) + K.RBF(0.5), solver=solver)
    expected = model.fit(X[:40], y[:40]).predict(NEW)
    found = model.fit(tensor(X[:40]), tensor(y[:40])).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-6)
    if solver == "pcg":
        assert float(model.error_bound_) < 1e-4


def test_names_and_widths_are_those_of_arrays():
    for gamma in (None, "scale", 0.7):
        for s in (None, weight):
            model = KernelRidge(kernel="rbf", gamma=gamma)
            expected = model.fit(X, y, s).kernel_.gamma
            assert model.fit(tensor(X), tensor(y), s).kernel_.gamma == pytest.approx(expected)
    assert model.score(tensor(X), tensor(y)) == pytest.approx(model.fit(X, y, s).score(X, y))


def test_a_warm_start_goes_on():
    model = KernelRidge(1e-3, kernel=K.RBF(0.5), solver="pcg", n_centers=2, warm_start=True)
    first = model.fit(tensor(X), tensor(y)).n_iter_
    assert model.fit(tensor(X), tensor(y)).n_iter_ < first


def test_what_is_refused():
    model = KernelRidge(kernel="rbf")
    with pytest.raises(TypeError, match=r"fitted on arrays in memory"):
        model.fit(X, y).predict(tensor(X))
    with pytest.raises(TypeError, match=rf"X is a ndarray .* fitted on tensors on {DEVICE.type}"):
        model.fit(tensor(X), y).predict(X)
    with pytest.raises(ValueError, match="solver='gd' is not available for tensors"):
        KernelRidge(solver="gd").fit(tensor(X), y)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        KernelRidge(kernel="sigmoid").fit(tensor(X), y)
    with pytest.raises(ValueError, match="indefinite='clip' is not available for tensors"):
        KernelRidge(kernel="sigmoid", indefinite="clip").fit(tensor(X), y)
    with pytest.raises(ValueError, match="120 samples and y has 119"):
        model.fit(tensor(X), y[1:])
    with pytest.raises(ValueError, match="2 features, but KernelRidge is expecting 3"):
        model.fit(tensor(X), y).predict(tensor(X[:, :2]))
    with pytest.raises(TypeError, match="with tensors pass a kernel object"):
        KernelRidge(kernel=lambda a, b: a @ b).fit(tensor(X), y)


def test_a_matrix_too_large_for_the_device_is_refused_and_auto_does_without(monkeypatch):
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 3 * 8 * 119**2
    )
    model = KernelRidge(0.3, kernel=K.RBF(0.5)).fit(tensor(X), tensor(y))
    assert model.result_.method.startswith("pcg")
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 3 * 8 * 119**2
    )
    with pytest.raises(MemoryError, match="n = 120 points"):
        model.set_params(solver="cholesky").fit(tensor(X), tensor(y))


@pytest.mark.skipif(DEVICE.type != "cpu", reason="tensors on other devices are refused")
def test_other_estimators_take_tensors_of_the_host_as_arrays():
    expected = mercer.SVC(kernel="rbf").fit(X, y > 0).decision_function(NEW)
    model = mercer.SVC(kernel="rbf").fit(tensor(X), tensor(y > 0))
    np.testing.assert_array_equal(as_numpy(model.decision_function(tensor(NEW))), expected)
    np.testing.assert_array_equal(model.decision_function(NEW), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bandwidth", [0.5, [0.3, 0.6, 0.4], "scott", np.eye(3) * 0.3 + 0.1])
@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "epanechnikov", "cosine"])
def test_densities_are_those_of_arrays(kernel, bandwidth, dtype, monkeypatch):
    use("torch", monkeypatch)
    far = np.vstack([NEW, 5 * NEW[:3]])
    s = weight * (weight > 0.2)
    for given in (None, s):
        model = KernelDensity(kernel=kernel, bandwidth=bandwidth)
        expected = model.fit(X, sample_weight=given).score_samples(far)
        model.fit(tensor(X.astype(dtype)), sample_weight=given)
        found = model.score_samples(tensor(far.astype(dtype)))
        assert found.dtype == getattr(torch, np.dtype(dtype).name)
        assert found.device.type == DEVICE.type
        tolerance = 1e-12 if dtype == np.float64 else 2e-4
        np.testing.assert_allclose(as_numpy(found), expected, rtol=tolerance, atol=tolerance)


def test_a_density_by_kernels_of_triton(way):
    model = KernelDensity(bandwidth=0.2)
    expected = model.fit(X).score_samples(5 * NEW)
    model.fit(tensor(X))
    np.testing.assert_allclose(as_numpy(model.score_samples(tensor(5 * NEW))), expected, rtol=1e-12)
    assert model.score(tensor(5 * NEW)) == pytest.approx(expected.sum())
    np.testing.assert_allclose(as_numpy(model.pdf(tensor(NEW))), np.exp(as_numpy(
        model.score_samples(tensor(NEW)))), rtol=1e-12)  # fmt: skip


def test_what_densities_refuse():
    for parameters in ({"bounds": (-9, 9)}, {"adaptive": 0.5}, {"method": "tree"}):
        with pytest.raises(ValueError, match="not available for tensors"):
            KernelDensity(**parameters).fit(tensor(X))
    model = KernelDensity().fit(tensor(X))
    for call in (
        lambda: model.sample(3),
        lambda: model.grid(),
        lambda: model.standard_error(NEW),
        lambda: model.marginal([0]),
        lambda: model.conditional({0: 1.0}),
        lambda: model.partial_fit(NEW),
    ):
        with pytest.raises(TypeError, match="not available for tensors"):
            call()
    with pytest.raises(TypeError, match="X is a ndarray and KernelDensity was fitted on tensors"):
        model.score_samples(NEW)


@pytest.mark.parametrize("labels", [np.where(y > 0, "up", "down"), np.digitize(y, [-0.5, 0.5])])
def test_class_means_are_those_of_arrays(labels, way):
    model = KernelCentroidClassifier(K.RBF(0.4))
    expected, classes = model.fit(X, labels).decision_function(NEW), model.predict(NEW)
    model.fit(tensor(X), labels)
    found = model.decision_function(tensor(NEW))
    assert found.device.type == DEVICE.type
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-13)
    np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eigen_solver", ["auto", "dense", "krylov", "arpack", "randomized"])
def test_components_are_those_of_arrays(eigen_solver, dtype, monkeypatch):
    use("torch", monkeypatch)
    model = KernelPCA(3, kernel=K.RBF(0.4), eigen_solver=eigen_solver, random_state=0)
    points, new = X.astype(dtype), NEW.astype(dtype)
    model.fit(points)
    components, away = model.transform(new), model.reconstruction_error(new)
    values = model.eigenvalues_
    found = model.fit(tensor(points)).transform(tensor(new))
    atol = 1e-6 if dtype == np.float32 or eigen_solver == "randomized" else 1e-10
    for array, expected in (
        (found, components),
        (model.eigenvalues_, values),
        (model.reconstruction_error(tensor(new)), away),
    ):
        assert array.device.type == DEVICE.type
        np.testing.assert_allclose(as_numpy(array), expected, rtol=atol, atol=atol)
    assert found.dtype == model.eigenvectors_.dtype == getattr(torch, np.dtype(dtype).name)
    own = as_numpy(model.fit_transform(tensor(points)))
    np.testing.assert_allclose(own, as_numpy(model.transform(tensor(points))), atol=10 * atol)


def test_components_by_kernels_of_triton(way):
    model = KernelPCA(2, kernel=K.RBF(0.4) + K.Linear())
    expected = model.fit(X[:50]).transform(NEW)
    found = model.fit(tensor(X[:50])).transform(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-10)
    for parameters in ({"fit_inverse_transform": True}, {"eigen_solver": "nystrom"}):
        with pytest.raises(ValueError, match="not available for tensors"):
            KernelPCA(2, kernel="rbf", **parameters).fit(tensor(X))


@pytest.mark.parametrize("bandwidth", [0.3, [0.2, 0.5, 0.4], np.eye(3) * 0.2 + 0.1], ids=str)
@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_kernel_regression_is_that_of_arrays(kernel, bandwidth, monkeypatch):
    use("torch", monkeypatch)
    points, far = np.vstack([X, [[50.0, 50.0, 0.0]]]), np.vstack([NEW, [[-300.0, 0.0, 9.0]]])
    targets, mass = np.append(y, 3.0), np.append(weight, 2.0)
    for s in (None, mass):
        for dtype, atol in ((np.float64, 1e-11), (np.float32, 3e-5)):
            model = NadarayaWatsonRegressor(bandwidth=bandwidth, kernel=kernel)
            expected = model.fit(points, targets, s).predict(far)
            left_out = model.loo_predictions_
            model.fit(tensor(points.astype(dtype)), tensor(targets), s)
            found = model.predict(tensor(far.astype(dtype)))
            assert found.dtype == getattr(torch, np.dtype(dtype).name)
            assert found.device.type == DEVICE.type
            np.testing.assert_allclose(as_numpy(found), expected, atol=atol)
            np.testing.assert_allclose(as_numpy(model.loo_predictions_), left_out, atol=atol)


def test_kernel_regression_by_kernels_of_triton(way):
    both, model = np.column_stack([y, y**2]), NadarayaWatsonRegressor(bandwidth=0.4)
    expected = model.fit(X[:50], both[:50]).predict(NEW)
    found = model.fit(tensor(X[:50]), tensor(both[:50])).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-12)


def test_what_kernel_regression_refuses():
    model = NadarayaWatsonRegressor(bandwidth=0.4).fit(tensor(X), tensor(y))
    with pytest.raises(TypeError, match="anything but predict is not available for tensors"):
        model.weights(tensor(NEW))
    with pytest.raises(ValueError, match="zero far away"):
        NadarayaWatsonRegressor(bandwidth=1.0, kernel="tophat").fit(tensor(X), tensor(y))
