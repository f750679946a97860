"""Predictions of every estimator by derivatives of the query, which torch takes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import kernels as K
from mercer.arrays import as_numpy, is_tensor
from tensor_devices import DEVICE, WAYS, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
classes, two = np.digitize(y, [-0.4, 0.4]), (y > 0).astype(int)
NEW = RNG.normal(size=(4, 3))
CASES = {
    "SVC": (mercer.SVC(tol=1e-6), classes),
    "SVC of pairs": (mercer.SVC(decision_function_shape="ovo", tol=1e-6), classes),
    "SVC of two": (mercer.SVC(tol=1e-6), two),
    "NuSVC": (mercer.NuSVC(nu=0.3, tol=1e-6), classes),
    "SVR": (mercer.SVR(kernel=K.Matern(1.5), tol=1e-6), y),
    "NuSVR": (mercer.NuSVR(tol=1e-6), y),
    "OneClassSVM": (mercer.OneClassSVM(tol=1e-6), None),
    "KernelRidge": (mercer.KernelRidge(0.1, kernel=K.Laplacian(0.4), fit_intercept=True), y),
    "KernelRidge on centres": (
        mercer.KernelRidge(0.1, kernel="rbf", solver="nystrom", n_centers=9), y
    ),
    "KernelRidgeClassifier": (mercer.KernelRidgeClassifier(0.1), classes),
    "KernelRidgeCV": (mercer.KernelRidgeCV([0.1, 1.0], kernel="rbf"), np.column_stack([y, y**2])),
    "KernelMachineClassifier": (mercer.KernelMachineClassifier("logistic"), classes),
    "KernelMachineClassifier of two": (mercer.KernelMachineClassifier("logistic"), two),
    "KernelMachineRegressor": (mercer.KernelMachineRegressor("huber"), y),
    "Poisson": (mercer.KernelMachineRegressor("poisson"), np.exp(y)),
    "quantiles": (mercer.KernelMachineRegressor("quantile", quantile=[0.2, 0.8]), y),
    "KernelPerceptron": (mercer.KernelPerceptron(random_state=0), classes),
    "KernelSGDClassifier": (mercer.KernelSGDClassifier(random_state=0), classes),
    "KernelCentroidClassifier": (mercer.KernelCentroidClassifier(), classes),
    "KernelPCA": (mercer.KernelPCA(2, kernel="rbf"), None),
    "KernelCCA": (mercer.KernelCCA(1, regularization=0.1), X[:, :1] ** 2),
    "KernelDensity": (mercer.KernelDensity(bandwidth=0.5), None),
    "exponential density": (mercer.KernelDensity(kernel="exponential", bandwidth=0.5), None),
    "compact density": (mercer.KernelDensity(kernel="biweight", bandwidth=5.0), None),
    "NadarayaWatsonRegressor": (mercer.NadarayaWatsonRegressor(bandwidth=0.5), y),
    "NadarayaWatsonClassifier": (mercer.NadarayaWatsonClassifier(bandwidth=0.5), classes),
    "LocalLinearRegressor": (mercer.LocalLinearRegressor(bandwidth=0.9), y),
}  # fmt: skip
ON_HOST = ("KernelPerceptron", "KernelSGDClassifier")
METHODS = ("predict", "decision_function", "predict_proba", "predict_log_proba", "transform",
           "score_samples", "pdf", "reconstruction_error")  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    use("torch" if DEVICE.type == "cpu" else "triton", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="Converting a tensor with requires_grad")
        yield


def fitted(name, dtype=np.float64):
    if name in ON_HOST and DEVICE.type != "cpu":
        pytest.skip("tensors on a device are refused, which another test has")
    model, target = CASES[name]
    given = [tensor(X.astype(dtype))] + ([] if target is None else [tensor(target)])
    return clone(model).fit(*given)


# Computed outside of torch, which is refused in words where X requires a gradient.
WITHOUT_GRADIENT = {("KernelRidgeClassifier", "predict_proba")}


def answers(model):
    """The methods that answer with numbers, not labels, and have derivatives."""
    is_classifier = hasattr(model, "classes_") or isinstance(model, mercer.OneClassSVM)
    name = type(model).__name__
    methods = [m for m in METHODS if hasattr(model, m) and (name, m) not in WITHOUT_GRADIENT]
    return [m for m in methods if not (m == "predict" and is_classifier)]


def test_what_has_no_derivatives_says_so():
    for name, method in WITHOUT_GRADIENT:
        with pytest.raises(RuntimeError, match="computed outside of torch, without one"):
            getattr(fitted(name), method)(tensor(NEW).requires_grad_())


@pytest.mark.parametrize("name", CASES)
def test_answers_have_derivatives_by_the_query(name):
    model = fitted(name)
    assert answers(model)
    for method in answers(model):
        ask = getattr(model, method)
        query = tensor(NEW).requires_grad_()
        found = ask(query)
        np.testing.assert_allclose(as_numpy(found), as_numpy(ask(tensor(NEW))), rtol=1e-12)
        assert torch.autograd.gradcheck(ask, query, atol=1e-5, rtol=1e-3), method
    if hasattr(model, "predict"):
        labels = model.predict(tensor(NEW).requires_grad_())
        assert (method != "predict") or labels.requires_grad


@pytest.mark.parametrize("name", CASES)
def test_float32_keeps_its_derivatives(name):
    model = fitted(name, np.float32)
    for method in answers(model):
        query = tensor(NEW.astype(np.float32)).requires_grad_()
        found = getattr(model, method)(query)
        assert found.dtype == torch.float32
        slope = torch.autograd.grad(found.sum(), query)[0]
        assert slope.dtype == torch.float32
        assert bool(slope.isfinite().all())


def test_predictions_by_kernels_of_triton(monkeypatch):
    slopes = []
    for way in WAYS:
        use(way, monkeypatch)
        model = mercer.KernelRidge(0.1, kernel=K.RBF(0.5)).fit(tensor(X), tensor(y))
        query = tensor(NEW).requires_grad_()
        density = mercer.KernelDensity(bandwidth=0.4).fit(tensor(X)).score_samples(query)
        slopes.append(torch.autograd.grad((model.predict(query) + density).sum(), query)[0])
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_fits_record_nothing(name):
    model, target = CASES[name]
    if name in ON_HOST and DEVICE.type != "cpu":
        pytest.skip("tensors on a device are refused, which another test has")
    given = [A if A is None else tensor(A) for A in (X, target)]
    for A in given:
        if A is not None and A.is_floating_point():
            A.requires_grad_()
    model = clone(model).fit(*(A for A in given if A is not None))
    for part in (model, *getattr(model, "views_", ())):
        for attribute, value in vars(part).items():
            assert not (is_tensor(value) and value.requires_grad), attribute


@pytest.mark.parametrize("name", CASES)
def test_models_keep_numbers_of_their_own(name):
    model, target = CASES[name]
    if name in ON_HOST and DEVICE.type != "cpu":
        pytest.skip("tensors on a device are refused, which another test has")
    points, targets = tensor(X.copy()), None if target is None else tensor(target.copy())
    model = clone(model).fit(*(A for A in (points, targets) if A is not None))
    before = [as_numpy(getattr(model, m)(tensor(NEW))).copy() for m in answers(model)]
    points.zero_()
    if targets is not None:
        targets.zero_()
    after = [as_numpy(getattr(model, m)(tensor(NEW))) for m in answers(model)]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_centres_that_were_given_are_copied():
    centres = tensor(X[:9].copy())
    model = mercer.KernelRidge(0.1, kernel="rbf", solver="nystrom", centers=centres)
    model.fit(tensor(X), tensor(y))
    before = as_numpy(model.predict(tensor(NEW)))
    centres.zero_()
    np.testing.assert_array_equal(as_numpy(model.predict(tensor(NEW))), before)
    assert model.centers is centres


@pytest.mark.skipif(DEVICE.type != "cpu", reason="tensors on a device are refused")
def test_what_is_computed_outside_of_torch_is_refused():
    query = tensor(NEW).requires_grad_()
    with pytest.raises(RuntimeError, match=r"X requires a gradient, and .*\.transform is computed"):
        K.RBF().approximate_map(20, random_state=0).fit(X).transform(query)
    model = mercer.SVC(kernel="precomputed").fit(X @ X.T, two)
    with pytest.raises(RuntimeError, match=r"SVC\.decision_function is computed outside of torch"):
        model.decision_function(tensor(X @ X.T).requires_grad_())
    with torch.no_grad():
        assert not model.decision_function(tensor(X @ X.T).requires_grad_()).requires_grad


def test_local_lines_of_points_that_hardly_spread_are_refused():
    model = mercer.LocalLinearRegressor(bandwidth=1e-3).fit(tensor(X), tensor(y))
    with pytest.raises(RuntimeError, match="row 0 hardly spread"):
        model.predict(tensor(NEW).requires_grad_())


def test_kernels_with_hyperparameters_to_learn_are_refused_by_fits():
    kernel = K.Linear() + K.RBF(torch.tensor(0.5, requires_grad=True))
    with pytest.raises(TypeError, match="kernel has right__gamma as a tensor that requires a grad"):
        mercer.KernelRidge(kernel=kernel).fit(tensor(X), tensor(y))
