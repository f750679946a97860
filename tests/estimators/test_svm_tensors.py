"""Support vector machines given tensors on a device: the answers they give for arrays."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.solvers.quadratic_program import QuadraticProgram
from mercer.solvers.smo import smo
from tensor_devices import DEVICE, tensor, torch, use

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NEW = RNG.normal(size=(9, 2))
KERNEL = K.RBF(0.7)

pytestmark = pytest.mark.usefixtures("by_triton")


@pytest.fixture
def by_triton(monkeypatch):
    use("triton", monkeypatch)


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
            model.predict(tensor(NEW)), np.where(as_numpy(found) >= 0, 1, -1)
        )


def test_all_pairs_of_classes_at_once():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = SVC(C=5.0, kernel=KERNEL, tol=1e-5)
    expected, classes = model.fit(X, labels).decision_function(NEW), model.predict(NEW)
    found = model.fit(tensor(X), labels).decision_function(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)
    assert model.n_iter_.shape == (3,)


def test_all_prices_and_folds_at_once():
    model, prices = SVC(kernel=KERNEL, tol=1e-5), [10.0, 0.1]
    expected = model.path(X, y, prices, cv=2)
    found = model.path(tensor(X), y, prices, cv=2)
    np.testing.assert_allclose(found.dual_coefs, expected.dual_coefs, atol=1e-3)
    np.testing.assert_allclose(found.fold_scores, expected.fold_scores)
    assert found.best.C == expected.best.C


def test_a_matrix_that_is_not_stored(monkeypatch):
    stored = SVC(C=3.0, kernel=KERNEL).fit(tensor(X), y)
    monkeypatch.setattr("mercer.solvers.smo_tensors.device_budget", lambda device: 100)
    tiled = SVC(C=3.0, kernel=KERNEL).fit(tensor(X), y)
    np.testing.assert_allclose(tiled.dual_coef_, stored.dual_coef_, atol=1e-2)
    assert tiled.result_.value.objective == pytest.approx(stored.result_.value.objective, rel=1e-4)


def test_limits_and_reports():
    with pytest.warns(match=r"Solver terminated early \(max_iter=7\)"):
        model = SVC(C=3.0, kernel=KERNEL, max_iter=7).fit(tensor(X), y)
    assert model.n_iter_.tolist() == [7]
    with pytest.warns(match="max_time"):
        SVC(C=3.0, kernel=KERNEL, max_time=1e-9).fit(tensor(X), y)
    first = SVC(C=3.0, kernel=KERNEL, warm_start=True).fit(tensor(X), y)
    assert first.fit(tensor(X), y).n_iter_.tolist() == [0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="not there for tensors"):
        SVC(C=np.inf, kernel=KERNEL).fit(tensor(X), y)
    with pytest.raises(ValueError, match="not there for tensors"):
        SVC(solver="interior_point", kernel=KERNEL).fit(tensor(X), y)
    with pytest.raises(TypeError, match="fitted on tensors"):
        SVC(kernel=KERNEL).fit(tensor(X), y).predict(NEW)


def test_steps_within_a_set_against_the_same_on_the_host():
    from mercer.core import triton_sets

    points = RNG.normal(size=(2, 16, 3))
    Q = np.exp(-((points[:, :, None] - points[:, None]) ** 2).sum(-1))
    sign = np.where(RNG.uniform(size=(2, 16)) > 0.5, 1.0, -1.0)
    lo, hi = np.minimum(2 * sign, 0), np.maximum(2 * sign, 0)
    a, count = tensor(np.zeros((2, 16))), {"dtype": torch.int32, "device": DEVICE}
    steps = torch.zeros(2, **count)
    triton_sets.work(
        a, tensor(-sign), tensor(lo), tensor(hi), torch.zeros((2, 16), **count),
        tensor(Q.astype(np.float32)), tensor(np.full(2, 1e-6)), torch.full((2,), 900, **count),
        steps, 1e-12, 900, 1,
    )  # fmt: skip
    for b in range(2):
        program = QuadraticProgram(
            Q[b], -sign[b], lo[b], hi[b], np.zeros(16, dtype=int), np.zeros(1)
        )
        expected = smo(program, tol=1e-6)
        found = program.solution(as_numpy(a)[b])
        assert found.violation <= 1e-5
        assert 0 < int(steps[b]) < 900
        np.testing.assert_allclose(found.objective, expected.value.objective, rtol=1e-6)
        assert abs(as_numpy(a)[b].sum()) < 1e-12
