"""More estimators given tensors: ridge by decomposition, classifiers, local fits, correlations."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mercer import (
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelCCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    KernelRidgeCV,
    KernelSGDClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    check_kernel,
)
from mercer import kernels as K
from mercer.arrays import as_numpy
from tensor_devices import DEVICE, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=70)
weight = RNG.uniform(size=70)
weight[3] = 0.0
NEW = RNG.normal(size=(13, 3))
BOTH = np.column_stack([y, y**2])


@pytest.fixture(autouse=True)
def torch_alone(monkeypatch):
    use("torch", monkeypatch)


def is_there(array, dtype=torch.float64):
    """Whether an answer is a tensor where the tests run."""
    return array.device.type == DEVICE.type and array.dtype == dtype


@pytest.mark.parametrize("s", [None, weight], ids=["plain", "weighted"])
@pytest.mark.parametrize("targets", [y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_ridge_by_decomposition_is_that_of_arrays(alpha, fit_intercept, targets, s):
    model = KernelRidge(alpha, kernel=K.RBF(0.5), fit_intercept=fit_intercept, solver="eigh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a Gram matrix that is singular without alpha
        expected = model.fit(X, targets, s).predict(NEW)
        model.fit(tensor(X), tensor(targets), None if s is None else tensor(s))
    assert model.result_.method == f"eigh: tensors on {tensor(X).device}"
    assert model.result_.status.ok
    assert is_there(model.dual_coef_)
    found = model.predict(tensor(NEW))
    assert is_there(found)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-9)


@pytest.mark.parametrize("s", [None, weight], ids=["plain", "weighted"])
@pytest.mark.parametrize("targets", [y, BOTH], ids=["one", "two"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cv", [None, 5, "gcv"])
def test_left_out_predictions_are_those_of_arrays(cv, fit_intercept, targets, s):
    model = KernelRidgeCV([1e-3, 0.1, 1], kernel=K.RBF(0.5), fit_intercept=fit_intercept, cv=cv)
    expected = model.fit(X, targets, s).predict(NEW)
    left_out, scores, alpha = model.loo_predictions_, model.loo_scores_, model.alpha_
    model.fit(tensor(X), tensor(targets), None if s is None else tensor(s))
    assert model.alpha_ == alpha
    found = model.predict(tensor(NEW))
    for array in (found, model.dual_coef_, model.loo_predictions_):
        assert is_there(array)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-10)
    np.testing.assert_allclose(as_numpy(model.loo_predictions_), left_out, atol=1e-10)
    np.testing.assert_allclose(model.loo_scores_, scores, atol=1e-11)


def test_a_point_left_out_is_predicted_by_the_fit_without_it():
    model = KernelRidgeCV([0.3], kernel=K.RBF(0.5), fit_intercept=True).fit(tensor(X), tensor(y))
    rest = np.arange(1, len(X))
    alone = KernelRidge(0.3, kernel=K.RBF(0.5), fit_intercept=True).fit(X[rest], y[rest])
    assert float(model.loo_predictions_[0]) == pytest.approx(alone.predict(X[:1])[0], abs=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_validated_ridge_follows_the_dtype(dtype):
    model = KernelRidgeCV([0.1, 1], kernel="rbf").fit(tensor(X.astype(dtype)), tensor(y))
    assert is_there(model.predict(tensor(NEW.astype(dtype))), getattr(torch, np.dtype(dtype).name))
    assert model.score(tensor(X.astype(dtype)), tensor(y)) > 0.5


def test_what_ridge_foresees_and_refuses(monkeypatch):
    for parameters in ({"solver": "nystrom"}, {"n_centers": 5}):
        with pytest.raises(ValueError, match="not available for tensors"):
            KernelRidgeCV(kernel="rbf", **parameters).fit(tensor(X), y)
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 6 * 8 * 69**2
    )
    for model in (KernelRidgeCV(kernel="rbf"), KernelRidge(kernel="rbf", solver="eigh")):
        with pytest.raises(MemoryError, match=f"6 matrices of 70 x 70.* and {DEVICE.type}"):
            model.fit(tensor(X), y)


def test_alpha_lost_in_rounding_gives_the_solution_of_minimum_norm():
    twice, targets = np.vstack([X, X]), np.append(y, y)
    for solver in ("auto", "cholesky"):
        model = KernelRidge(1e-18, kernel="rbf", solver=solver)
        with pytest.warns(UserWarning, match="leaves the solution undetermined"):
            expected = model.fit(twice, targets).predict(NEW)
        with pytest.warns(UserWarning, match="leaves the solution undetermined"):
            model.fit(tensor(twice), tensor(targets))
        assert model.result_.method.startswith("eigh")
        np.testing.assert_allclose(as_numpy(model.predict(tensor(NEW))), expected, atol=1e-8)


@pytest.mark.parametrize("labels", [np.where(y > 0, "up", "down"), np.digitize(y, [-0.5, 0.5])])
@pytest.mark.parametrize("solver", ["cholesky", "eigh", "pcg"])
def test_classification_by_ridge_is_that_of_arrays(solver, labels):
    model = KernelRidgeClassifier(0.3, solver=solver, class_weight="balanced", tol=1e-10)
    expected, classes = model.fit(X, labels).decision_function(NEW), model.predict(NEW)
    model.fit(tensor(X), labels)
    found = model.decision_function(tensor(NEW))
    assert is_there(found)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-7)
    np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)
    assert model.score(tensor(X), labels) == model.fit(X, labels).score(X, labels)


@pytest.mark.parametrize("bandwidth", [0.5, [0.4, 0.9, 0.6], np.eye(3) * 0.4 + 0.1], ids=str)
@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
@pytest.mark.parametrize("targets", [y, BOTH], ids=["one", "two"])
def test_local_lines_are_those_of_arrays(targets, kernel, bandwidth):
    # Far from all others: lines there are left to the host.
    points, far = np.vstack([X, [[9.0, 9.0, 0.0]]]), np.vstack([NEW, [[-30.0, 0.0, 9.0]]])
    targets = np.concatenate([targets, targets[:1]])
    mass = np.append(weight, 2.0)
    for s in (None, mass):
        for dtype, atol in ((np.float64, 1e-9), (np.float32, 1e-4)):
            points, far = points.astype(dtype), far.astype(dtype)
            model = LocalLinearRegressor(bandwidth=bandwidth, kernel=kernel)
            expected = model.fit(points, targets, s).predict(far)
            left_out = model.loo_predictions_
            model.fit(tensor(points), tensor(targets), s)
            found = model.predict(tensor(far))
            assert is_there(found, getattr(torch, np.dtype(dtype).name))
            size = np.abs(expected).max()
            np.testing.assert_allclose(as_numpy(found), expected, atol=atol * size)
            np.testing.assert_allclose(as_numpy(model.loo_predictions_), left_out, atol=atol * size)


def test_local_lines_of_straight_data_are_straight():
    target = 3 * X[:, 0] - X[:, 1] + 1
    model = LocalLinearRegressor(bandwidth=1.0).fit(tensor(1e4 + X), tensor(target))
    expected = 3 * NEW[:, 0] - NEW[:, 1] + 1
    np.testing.assert_allclose(as_numpy(model.predict(tensor(1e4 + NEW))), expected, atol=1e-7)


@pytest.mark.parametrize("labels", [np.where(y > 0, "up", "down"), np.digitize(y, [-0.5, 0.5])])
@pytest.mark.parametrize("kernel", ["gaussian", "exponential"])
def test_parzen_probabilities_are_those_of_arrays(kernel, labels):
    for s in (None, weight):
        model = NadarayaWatsonClassifier(bandwidth=0.4, kernel=kernel).fit(X, labels, s)
        expected, classes = model.predict_proba(NEW), model.predict(NEW)
        left_out, density = model.loo_probabilities_, model.conditional_density(NEW, labels[:2])
        model.fit(tensor(X), labels, s)
        found = model.predict_proba(tensor(NEW))
        for array in (found, model.loo_probabilities_):
            assert is_there(array)
        np.testing.assert_allclose(as_numpy(found), expected, atol=1e-12)
        np.testing.assert_allclose(as_numpy(model.loo_probabilities_), left_out, atol=1e-12)
        np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)
        again = model.conditional_density(tensor(NEW), labels[:2])
        np.testing.assert_allclose(as_numpy(again), density, atol=1e-12)
        assert model.score(tensor(X), labels) > 0.7


@pytest.mark.parametrize("bandwidth", ["loo", "loo_common"])
def test_bandwidths_are_found_as_for_arrays(bandwidth):
    for model, target in (
        (NadarayaWatsonRegressor(bandwidth=bandwidth), y),
        (NadarayaWatsonRegressor(bandwidth=bandwidth, kernel="exponential"), y),
        (LocalLinearRegressor(bandwidth=bandwidth), y),
        (NadarayaWatsonClassifier(bandwidth=bandwidth), y > 0),
    ):
        expected = model.fit(X[:30], target[:30]).bandwidth_
        found = model.fit(tensor(X[:30]), target[:30]).bandwidth_
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bandwidths_of_many_points_come_from_a_part_of_them(monkeypatch):
    monkeypatch.setattr("mercer.estimators.smoothing.engine.MANY_POINTS", 60)
    monkeypatch.setattr("mercer.estimators.smoothing.engine.PART", 40)
    model = NadarayaWatsonRegressor().fit(tensor(X), tensor(y))
    some = np.sort(np.random.default_rng(0).choice(70, 40, replace=False))
    part = NadarayaWatsonRegressor().fit(X[some], y[some])
    narrowed = part.bandwidth_ * (40 / 70) ** (1 / 7)
    np.testing.assert_allclose(model.bandwidth_[:2], narrowed[:2], rtol=1e-2)
    assert model.bandwidth_[2] > 100  # of a feature that does not matter
    assert model.score(tensor(X), tensor(y)) > 0.7


def test_what_smoothers_refuse():
    with pytest.raises(ValueError, match="zero far away"):
        NadarayaWatsonClassifier(bandwidth=1.0, kernel="tophat").fit(tensor(X), y > 0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NadarayaWatsonClassifier(bandwidth=1.0).fit(tensor(X), y[1:] > 0)
    model = LocalLinearRegressor(bandwidth=1.0).fit(tensor(X), tensor(y))
    with pytest.raises(TypeError, match="anything but predict is not available for tensors"):
        model.weights(tensor(NEW))
    with pytest.raises(TypeError, match="anything but predict is not available for tensors"):
        model.predict(tensor(NEW), return_std=True)


T = RNG.uniform(-3, 3, size=(60, 1))
VIEWS = [
    np.hstack([np.cos(T), RNG.normal(size=(60, 1))]),
    T + 0.1 * RNG.normal(size=(60, 1)),
    np.hstack([T**2, RNG.normal(size=(60, 1))]),
]


@pytest.mark.parametrize("solver", ["dense", "low_rank"])
@pytest.mark.parametrize(("n_views", "rho"), [(2, 0.02), (2, "loo"), (3, 0.02)])
def test_correlations_are_those_of_arrays(n_views, rho, solver):
    views = VIEWS[:n_views]
    model = KernelCCA(2, kernel=K.RBF(0.3), regularization=rho, solver=solver)
    expected = model.fit(views).transform(views)
    correlations, chosen = model.canonical_correlations_, model.regularization_
    ranks, test = model.result_.method, model.permutation_test(9, random_state=0)
    there = [tensor(view) for view in views]
    found = model.fit(there).transform(there)
    assert model.regularization_ == chosen
    assert model.result_.method == ranks
    assert model.result_.status.ok
    np.testing.assert_allclose(model.canonical_correlations_, correlations, atol=1e-11)
    for variates, wanted in zip(found, expected, strict=True):
        assert is_there(variates)
        np.testing.assert_allclose(as_numpy(variates), wanted, atol=1e-7)
    again = model.permutation_test(9, random_state=0)
    assert again.pvalue == test.pvalue
    np.testing.assert_allclose(again.null_distribution, test.null_distribution, atol=1e-9)


def test_variates_of_new_points_and_single_precision():
    first, second = VIEWS[:2]
    model = KernelCCA(1, regularization=0.02, solver="low_rank").fit(first[:40], second[:40])
    expected, score = model.transform(first[40:]), model.score(first[40:], second[40:])
    for dtype, atol in ((np.float64, 1e-8), (np.float32, 1e-3)):
        A, B = tensor(first.astype(dtype)), tensor(second.astype(dtype))
        model.fit(A[:40], B[:40])
        found = model.transform(A[40:])
        assert is_there(found, getattr(torch, np.dtype(dtype).name))
        np.testing.assert_allclose(as_numpy(found), expected, atol=atol)
        assert model.score(A[40:], B[40:]) == pytest.approx(score, abs=atol)
        own = model.fit_transform(A[:40], B[:40, 0])  # as a pipeline passes a target
        np.testing.assert_allclose(as_numpy(own), as_numpy(model.transform(A[:40])))


def test_what_correlations_refuse(monkeypatch):
    A, B = tensor(VIEWS[0]), tensor(VIEWS[1])
    model = KernelCCA(1).fit(A, B)
    with pytest.raises(TypeError, match="fitted on tensors"):
        model.transform(VIEWS[0])
    with pytest.raises(ValueError, match="X has 1 samples"):
        KernelCCA(1).fit(A[:1], B[:1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelCCA(1).fit(A, B[1:])
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 6 * 8 * 59**2
    )
    with pytest.raises(MemoryError, match="n = 60 points"):
        KernelCCA(1, solver="dense").fit(A, B)


@pytest.mark.parametrize(
    "model", [KernelPerceptron(random_state=0), KernelSGDClassifier()], ids=repr
)
def test_what_goes_point_by_point_takes_tensors_of_the_host_alone(model):
    labels = torch.as_tensor(y > 0)
    expected = model.fit(X, y > 0).predict(NEW)
    found = model.fit(torch.as_tensor(X), labels).predict(torch.as_tensor(NEW))
    np.testing.assert_array_equal(found, expected)
    on_meta = torch.empty((70, 3), device="meta")
    with pytest.raises(TypeError, match=r"X is a tensor on meta, and .* pass X\.cpu\(\)\.numpy"):
        model.fit(on_meta, labels)
    with pytest.raises(TypeError, match="tensor on meta"):
        model.predict(on_meta)


def test_a_search_takes_tables_of_the_host_alone():
    with pytest.raises(TypeError, match="on meta, and AutoKernel computes in this machine's"):
        AutoKernelRegressor().fit(torch.empty((70, 3), device="meta"), y)
    model = AutoKernelClassifier(max_time=1.0).fit(torch.as_tensor(X), torch.as_tensor(y > 0))
    assert model.score(torch.as_tensor(X), torch.as_tensor(y > 0)) > 0.8


@pytest.mark.parametrize("model", [KernelRidgeCV([0.1, 1.0], kernel="rbf"), KernelRidgeClassifier(),
                                   LocalLinearRegressor(bandwidth=0.8)], ids=repr)  # fmt: skip
def test_fits_by_kernels_of_triton(model, monkeypatch):
    use("triton", monkeypatch)
    target = y[:30] > 0 if isinstance(model, KernelRidgeClassifier) else y[:30]
    expected = model.fit(X[:30], target).predict(NEW)
    found = model.fit(tensor(X[:30]), target).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-9)


@pytest.mark.parametrize("solver", ["dense", "low_rank"])
def test_correlations_by_kernels_of_triton(solver, monkeypatch):
    use("triton", monkeypatch)
    first, second = VIEWS[0][:30], VIEWS[1][:30]
    model = KernelCCA(1, kernel=K.RBF(0.3), solver=solver)
    expected = model.fit(first, second).transform(first)
    found = model.fit(tensor(first), second).transform(tensor(first))  # views may be mixed
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-7)


@pytest.mark.parametrize(
    "phi",
    [
        K.RBF(0.3).approximate_map(8, random_state=0),
        K.RBF(0.3).approximate_map(8, method="nystrom", random_state=0),
        K.Polynomial(2).approximate_map(8, method="sketch", random_state=0),
    ],
    ids=repr,
)
def test_approximate_maps_read_tensors_of_the_host_alone(phi):
    expected = phi.fit(X).transform(NEW)
    found = phi.fit(torch.as_tensor(X)).transform(torch.as_tensor(NEW))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    on_meta = torch.empty((70, 3), device="meta")
    for method in (phi.fit, phi.transform):
        with pytest.raises(
            TypeError, match=r"on meta, and \w+Map computes in this machine's memory"
        ):
            method(on_meta)


def test_kernels_are_checked_on_tensors():
    assert check_kernel(K.Sigmoid(1.0, 1.0), tensor(X)).valid is False
    assert check_kernel(K.FromFunction(lambda x, z: -float(x @ z)), tensor(X)).valid is False
    for points, right in ((np.eye(3), True), (-np.eye(3), False)):
        assert check_kernel(tensor(points)).valid is right
