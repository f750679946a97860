"""Support vector machines given tensors on a device: the answers they give for arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import set_twins
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.estimators.svm.engine import SupportVectorMachine
from mercer.solvers.qp import smo_tensors
from tensor_devices import DEVICE, tensor, torch, use

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NEW = RNG.normal(size=(9, 2))
KERNEL = K.RBF(0.7)


@pytest.fixture(autouse=True)
def at_hand(monkeypatch):
    """Kernels that are there: Triton's on a device, on the host what is sooner than these are."""
    if DEVICE.type == "cpu":
        use("torch", monkeypatch)
        declared = replace(SupportVectorMachine._arrays, tensors="everywhere")
        monkeypatch.setattr(SupportVectorMachine, "_arrays", declared)
        monkeypatch.setattr(smo_tensors, "kernels", lambda: set_twins)


def values(model, points):
    if isinstance(model, SVR | NuSVR):
        return model.predict(points)
    return model.decision_function(points)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        SVC(C=3.0, kernel=KERNEL),
        SVC(C=3.0, kernel=KERNEL, fit_intercept=False),
        SVC(C=3.0, kernel=KERNEL, class_weight={"same": 3.0}),
        NuSVC(nu=0.4, kernel=KERNEL),
        NuSVC(nu=0.4, kernel=KERNEL, fit_intercept=False),
    ],
    ids=["svc", "no intercept", "weights", "nu", "nu, no intercept"],
)
def test_classes_are_those_of_arrays(model, dtype):
    model.set_params(tol=1e-5)
    points, new = X.astype(dtype), NEW.astype(dtype)
    expected, labels = model.fit(points, y).decision_function(new), model.predict(new)
    model.fit(tensor(points), y)
    found = model.decision_function(tensor(new))
    assert model.result_.status.ok
    assert f"smo on {DEVICE.type}" in model.result_.method
    assert model.result_.value.violation <= 1e-5
    assert found.device.type == model.support_vectors_.device.type == DEVICE.type
    assert found.dtype == getattr(torch, np.dtype(dtype).name)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    np.testing.assert_array_equal(model.predict(tensor(new)), labels)


@pytest.mark.parametrize(
    "model",
    [
        SVR(C=2.0, epsilon=0.1, kernel=KERNEL),
        NuSVR(nu=0.5, C=2.0, kernel=KERNEL),
        NuSVR(nu=0.5, C=2.0, kernel=KERNEL, fit_intercept=False),
        OneClassSVM(nu=0.3, kernel=KERNEL),
    ],
    ids=["svr", "nu", "nu, no intercept", "one class"],
)
def test_functions_are_those_of_arrays(model):
    model.set_params(tol=1e-5)
    targets = np.sin(2 * X[:, 0]) + X[:, 1]
    expected = values(model.fit(X, targets), NEW)
    found = values(model.fit(tensor(X), targets), tensor(NEW))
    assert model.result_.status.ok
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    if isinstance(model, OneClassSVM):
        np.testing.assert_array_equal(
            as_numpy(model.predict(tensor(NEW))), np.where(as_numpy(found) >= 0, 1, -1)
        )


def test_all_pairs_of_classes_at_once():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = SVC(C=5.0, kernel=KERNEL, tol=1e-5)
    expected, classes = model.fit(X, labels).decision_function(NEW), model.predict(NEW)
    found = model.fit(tensor(X), labels).decision_function(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)
    assert model.n_iter_.shape == (3,)


@pytest.mark.parametrize("model", [SVC(C=3.0), NuSVC(nu=0.4)], ids=str)
def test_by_triton_all_the_way(model, monkeypatch):
    monkeypatch.undo()
    use("triton", monkeypatch)
    model.set_params(kernel=K.RBF(3.0), tol=1e-5)
    expected = model.fit(X[:12], y[:12]).decision_function(NEW)
    found = model.fit(tensor(X[:12]), y[:12]).decision_function(tensor(NEW))
    assert model.result_.status.ok
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)


def test_a_class_of_one_point_and_prices_of_points():
    labels, price = np.zeros(40, dtype=int), np.linspace(0.0, 3.0, 40)
    labels[7] = 1
    model = SVC(C=5.0, kernel=KERNEL, tol=1e-5)
    expected = model.fit(X, labels, price).decision_function(NEW)
    found = model.fit(tensor(X), labels, price).decision_function(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    assert 0 not in model.support_


def test_all_prices_and_folds_at_once():
    model, prices = SVC(kernel=KERNEL, tol=1e-5), [10.0, 0.1]
    expected = model.path(X, y, prices, cv=2)
    found = model.path(tensor(X), y, prices, cv=2)
    np.testing.assert_allclose(found.dual_coefs, expected.dual_coefs, atol=1e-3)
    np.testing.assert_allclose(found.fold_scores, expected.fold_scores)
    assert found.best.C == expected.best.C


def test_a_matrix_that_is_not_stored(monkeypatch):
    stored = SVC(C=3.0, kernel=KERNEL).fit(tensor(X), y)
    monkeypatch.setattr("mercer.solvers.qp.smo_tensors.device_budget", lambda device: 100)
    tiled = SVC(C=3.0, kernel=KERNEL).fit(tensor(X), y)
    np.testing.assert_allclose(as_numpy(tiled.dual_coef_ - stored.dual_coef_), 0.0, atol=1e-2)
    assert tiled.result_.value.objective == pytest.approx(stored.result_.value.objective, rel=1e-4)


def test_limits_and_reports():
    with pytest.warns(match=r"Solver terminated early \(max_iter=7\)"):
        model = SVC(C=3.0, kernel=KERNEL, max_iter=7).fit(tensor(X), y)
    assert model.n_iter_.tolist() == [7]
    with pytest.warns(match="max_time"):
        SVC(C=3.0, kernel=KERNEL, max_time=1e-9).fit(tensor(X), y)
    first = SVC(C=3.0, kernel=KERNEL, warm_start=True).fit(tensor(X), y)
    assert first.fit(tensor(X), y).n_iter_.tolist() == [0]


def test_coefficients_that_float32_is_too_coarse_for():
    model = SVC(kernel=KERNEL).fit(tensor(X.astype(np.float32)), y)
    model.pair_coef_ = 1e5 * as_numpy(model.pair_coef_)  # as a high price makes them
    new, support = NEW.astype(np.float32), as_numpy(model.support_vectors_)
    exact = KERNEL(new.astype(np.float64), support.astype(np.float64)) @ model.pair_coef_[:, 0]
    found = as_numpy(model.decision_function(tensor(new)))
    np.testing.assert_allclose(found, exact + as_numpy(model.intercept_), rtol=1e-6)


def test_weights_of_features_are_on_the_host():
    weights = [SVC(kernel="linear", tol=1e-6).fit(A, y).coef_ for A in (X, tensor(X))]
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-4)


def test_what_is_refused():
    with (
        pytest.warns(FutureWarning, match="deprecated"),
        pytest.raises(ValueError, match=r"probability=True .* not available .* pass X\.cpu\(\)"),
    ):
        SVC(probability=True).fit(tensor(X), y)
    with pytest.raises(ValueError, match=r"indefinite='clip' .* pass X\.cpu\(\)"):
        SVC(kernel="sigmoid", indefinite="clip").fit(tensor(X), y)
    with pytest.raises(ValueError, match=r"C=inf, is not available for tensors.*X\.cpu\(\)"):
        SVC(C=np.inf, kernel=KERNEL).fit(tensor(X), y)
    with pytest.raises(ValueError, match=r"available for tensors.*solver='smo', or pass X\.cpu"):
        SVC(solver="interior_point", kernel=KERNEL).fit(tensor(X), y)
    with pytest.raises(ValueError, match="'C' parameter"):
        SVC(kernel=KERNEL).path(tensor(X), y, [1.0, -1.0])
    with pytest.raises(TypeError, match="fitted on tensors"):
        SVC(kernel=KERNEL).fit(tensor(X), y).predict(NEW)
