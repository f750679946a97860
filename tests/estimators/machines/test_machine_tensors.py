"""Machines of any loss on tensors: what they are for arrays, as tensors where the points are."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelMachineClassifier, KernelMachineRegressor
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.estimators.losses import Loss
from mercer.solvers.risk.feature_span import FeatureSpan
from tensor_devices import DEVICE, WAYS, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=150)
labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
weight = RNG.uniform(0.1, 1.0, size=150)
NEW = RNG.normal(size=(17, 3))
SPANS = [{"solver": "exact"}, {"solver": "nystrom", "centers": X[:20]}]


class Smooth(Loss):
    """Squared errors, with a gradient and no more."""

    def value(self, y, f):
        return float(np.sum((y - f) ** 2))

    def gradient(self, y, f):
        return 2 * (f - y)


@pytest.fixture
def few_rows(monkeypatch):
    """Blocks of few rows, so that there are several."""
    monkeypatch.setattr("mercer.estimators.centres.BLOCK_BYTES", 2**15)


def is_there(array, dtype=np.float64):
    return array.device.type == DEVICE.type and array.dtype == getattr(torch, np.dtype(dtype).name)


@pytest.mark.parametrize("span", SPANS, ids=["exact", "nystrom"])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_those_of_arrays(classes, loss, span, few_rows, monkeypatch):
    use("torch", monkeypatch)
    t = labels if classes == 3 else labels == "low"
    model = KernelMachineClassifier(loss, alpha=0.3, kernel=K.RBF(0.5), tol=1e-9, **span)
    model.fit(X, t, weight)
    expected, found_classes, bound = model.decision_function(NEW), model.predict(NEW), model.result_
    model.fit(tensor(X), tensor(t) if classes == 2 else t, weight)
    found = model.decision_function(tensor(NEW))
    assert model.result_.status.ok
    assert f"tensors on {DEVICE.type}" in model.result_.method
    assert is_there(found)
    assert is_there(model.dual_coef_)
    assert is_there(model.X_fit_)
    np.testing.assert_allclose(as_numpy(found), expected, atol=2e-4)
    np.testing.assert_array_equal(as_numpy(model.predict(tensor(NEW))), found_classes)
    assert (model.result_.bound is None) == (bound.bound is None)
    assert model.score(tensor(X), t) > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_tensors(classes, dtype):
    t = labels if classes == 3 else labels == "low"
    model = KernelMachineClassifier(alpha=0.3, kernel=K.RBF(0.5), tol=1e-9)
    expected = model.fit(X, t).predict_proba(NEW)
    model.fit(tensor(X.astype(dtype)), t)
    new = tensor(NEW.astype(dtype))
    found = model.predict_proba(new)
    assert is_there(found, dtype)
    assert tuple(found.shape) == (len(NEW), classes)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-4)
    np.testing.assert_allclose(as_numpy(found.sum(1)), 1.0, atol=1e-6)
    logarithms = model.predict_log_proba(new)
    assert is_there(logarithms, dtype)
    np.testing.assert_allclose(as_numpy(logarithms.exp()), as_numpy(found), atol=1e-6)


@pytest.mark.parametrize("span", SPANS, ids=["exact", "nystrom"])
@pytest.mark.parametrize(
    "loss",
    ["squared", "absolute", "epsilon_insensitive", "huber", "quantile", "poisson", Smooth()],
    ids=lambda loss: loss if isinstance(loss, str) else "own",
)
def test_regressions_are_those_of_arrays(loss, span, few_rows, monkeypatch):
    use("torch", monkeypatch)
    counts = np.round(np.exp(y)) if loss == "poisson" else y
    s = None if isinstance(loss, Loss) else weight
    model = KernelMachineRegressor(loss, alpha=0.3, kernel=K.RBF(0.5), tol=1e-7, **span)
    expected = model.fit(X, counts, s).predict(NEW)
    intercept = model.intercept_
    found = model.fit(tensor(X), tensor(counts), s).predict(tensor(NEW))
    assert is_there(found)
    np.testing.assert_allclose(as_numpy(found), expected, atol=3e-4)
    assert model.intercept_ == pytest.approx(intercept, abs=3e-4)
    assert model.score(tensor(X), tensor(counts)) > 0.3


@pytest.mark.parametrize("span", SPANS, ids=["exact", "nystrom"])
def test_quantiles_are_in_order(span):
    model = KernelMachineRegressor("quantile", quantile=[0.2, 0.8], kernel=K.RBF(0.5), **span)
    expected, score = model.fit(X, y).predict(NEW), model.score(X, y)
    found = model.fit(tensor(X), tensor(y)).predict(tensor(NEW))
    assert is_there(found)
    assert bool((found[:, 0] <= found[:, 1]).all())
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-3)
    assert model.score(tensor(X), tensor(y)) == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_machines_by_kernels_of_triton(way, monkeypatch):
    use(way, monkeypatch)
    model = KernelMachineRegressor("huber", alpha=0.3, kernel=K.Laplacian(0.3), centers=X[:8])
    model.set_params(solver="nystrom", tol=1e-9)
    expected = model.fit(X[:60], y[:60]).predict(NEW)
    found = model.fit(tensor(X[:60]), tensor(y[:60])).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_the_host_are_brought_to_the_centres(dtype, few_rows, monkeypatch):
    use("torch", monkeypatch)
    points = X.astype(dtype)
    given = {"alpha": 0.3, "kernel": K.RBF(0.5), "solver": "nystrom", "tol": 1e-9}
    expected = KernelMachineClassifier(centers=points[:20], **given).fit(points, labels)
    model = KernelMachineClassifier(centers=tensor(points[:20]), **given).fit(points, labels)
    found = model.predict_proba(tensor(NEW.astype(dtype)))
    np.testing.assert_allclose(
        as_numpy(found), expected.predict_proba(NEW.astype(dtype)), atol=1e-4
    )
    assert model.result_.bound == pytest.approx(expected.result_.bound, rel=1e-2)
    found = model.predict_proba(NEW.astype(dtype))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected.predict_proba(NEW.astype(dtype)), atol=1e-4)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_span_of_tensors_is_that_of_arrays(fit_intercept, keep):
    Phi = RNG.normal(size=(50, 4))
    parts = [slice(0, 30), slice(30, 50)]
    expected = FeatureSpan.of(Phi, fit_intercept)
    span = FeatureSpan(lambda: [(i, tensor(Phi[i])) for i in parts], 50, 4, fit_intercept, keep)
    z, u = RNG.normal(size=(span.p, 2)), RNG.normal(size=(50, 2))
    h = RNG.uniform(size=50)
    for ours, theirs in (
        (span.predict(z), expected.predict(z)),
        (span.predict(z[:, 0]), expected.predict(z[:, 0])),
        (span.gather(u), expected.gather(u)),
        (span.curvature(h), expected.curvature(h)),
        (span.squares(h), expected.squares(h)),
    ):
        assert not torch.is_tensor(ours)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(span.curvature(h, single=True), expected.curvature(h), atol=1e-4)


def test_features_that_do_not_fit_are_computed_anew(monkeypatch):
    given = {"alpha": 0.3, "kernel": K.RBF(0.5), "solver": "nystrom", "centers": X[:20]}
    model = KernelMachineRegressor("huber", tol=1e-9, **given)
    expected = model.fit(X, y).predict(NEW)
    monkeypatch.setattr("mercer.arrays.torch_backend.TorchBackend.room", lambda self, X: 0)
    found = model.fit(tensor(X), tensor(y)).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-6)


def test_what_is_refused():
    model = KernelMachineRegressor(kernel=K.RBF(0.5))
    with pytest.raises(TypeError, match=r"fitted on tensors"):
        model.fit(tensor(X), tensor(y)).predict(X)
    with pytest.raises(ValueError, match="indefinite='clip' is not available for tensors"):
        KernelMachineRegressor(kernel="sigmoid", indefinite="clip").fit(tensor(X), y)
