"""Every estimator given tensors: what it returns and stores are tensors on the same device."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.arrays import as_numpy, is_tensor
from tensor_devices import DEVICE, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
classes = np.digitize(y, [-0.4, 0.4])
weight = RNG.uniform(0.5, 1.0, size=40)
NEW = RNG.normal(size=(7, 3))
# Each with its targets.
CASES = {
    "SVC": (mercer.SVC(tol=1e-9), classes),
    "NuSVC": (mercer.NuSVC(nu=0.3, tol=1e-9), classes),
    "SVR": (mercer.SVR(tol=1e-9), y),
    "NuSVR": (mercer.NuSVR(tol=1e-9), y),
    "OneClassSVM": (mercer.OneClassSVM(tol=1e-9), None),
    "KernelRidge": (mercer.KernelRidge(0.1, kernel="rbf", fit_intercept=True), y),
    "KernelRidgeClassifier": (mercer.KernelRidgeClassifier(0.1), classes),
    "KernelRidgeCV": (mercer.KernelRidgeCV([0.1, 1.0], kernel="rbf"), y),
    "KernelMachineClassifier": (mercer.KernelMachineClassifier(tol=1e-8), classes),
    "KernelMachineRegressor": (mercer.KernelMachineRegressor("huber", tol=1e-8), y),
    "KernelPerceptron": (mercer.KernelPerceptron(random_state=0), classes),
    "KernelSGDClassifier": (mercer.KernelSGDClassifier(random_state=0), classes),
    "KernelCentroidClassifier": (mercer.KernelCentroidClassifier(), classes),
    "KernelPCA": (mercer.KernelPCA(2, kernel="rbf"), None),
    "KernelCCA": (mercer.KernelCCA(1, regularization=0.1), X[:, :1] ** 2),
    "KernelDensity": (mercer.KernelDensity(bandwidth=0.5), None),
    "NadarayaWatsonRegressor": (mercer.NadarayaWatsonRegressor(bandwidth=0.5), y),
    "NadarayaWatsonClassifier": (mercer.NadarayaWatsonClassifier(bandwidth=0.5), classes),
    "LocalLinearRegressor": (mercer.LocalLinearRegressor(bandwidth=0.9), y),
    "GaussianProcessRegressor": (mercer.GaussianProcessRegressor(), y),
    "GaussianProcessClassifier": (mercer.GaussianProcessClassifier(), classes > 0),
}
# These compute on the host.
ON_HOST = (
    "KernelPerceptron",
    "KernelSGDClassifier",
    "GaussianProcessRegressor",
    "GaussianProcessClassifier",
)
WEIGHTED = [name for name in CASES if name not in (*ON_HOST, "KernelPCA", "KernelCCA")]
METHODS = ("predict", "decision_function", "predict_proba", "transform", "score_samples", "pdf")
# Fitted numbers that are not about the points: of labels, of values of a parameter, of samples.
NUMPY = ("classes_", "class_weight_", "loo_scores_", "canonical_correlations_", "sample_weight_",
         "bandwidth_", "target_bandwidth_")  # fmt: skip


@pytest.fixture(autouse=True)
def torch_alone(monkeypatch):
    use("torch" if DEVICE.type == "cpu" else "triton", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Tensors in memory are read as arrays, and those on a device refused.
ARRAYS_ONLY = {"KernelKMeans", "KernelSpectralClustering", "StructureSearch"}


def test_none_is_forgotten():
    assert set(CASES) | ARRAYS_ONLY == set(mercer.estimators.__all__)


def fitted(name, kind, dtype=np.float64, **more):
    """A model on arrays or tensors, with its targets of the same kind."""
    model, target = CASES[name]
    if name in ON_HOST and DEVICE.type != "cpu":
        pytest.skip("tensors on a device are refused, which another test has")
    given = [kind(X.astype(dtype))]
    if target is not None:
        given.append(kind(target.astype(dtype) if name == "KernelCCA" else target))
    return clone(model).fit(*given, **more)


def answers(model, points):
    """What every method of the model says of points."""
    return {m: getattr(model, m)(points) for m in METHODS if hasattr(model, m)}


def assert_alike(found, expected, dtype):
    rtol = 1e-4 if dtype == np.float32 else 1e-6
    for method, values in expected.items():
        values = np.asarray(values, dtype=float)
        size = np.abs(values[np.isfinite(values)]).max()
        np.testing.assert_allclose(as_numpy(found[method]), values, rtol=0, atol=rtol * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_answers_follow_the_points(name, dtype):
    new = NEW.astype(dtype)
    expected = answers(fitted(name, np.asarray, dtype), new)
    found = answers(fitted(name, tensor, dtype), tensor(new))
    assert_alike(found, expected, dtype)
    for method, values in found.items():
        assert values.device.type == DEVICE.type, method
        if method != "predict" or values.is_floating_point():
            assert values.dtype == getattr(torch, np.dtype(dtype).name), method


@pytest.mark.parametrize("name", [name for name in CASES if name not in ON_HOST])
def test_fitted_arrays_follow_the_points(name):
    model = fitted(name, tensor)
    for part in (model, *getattr(model, "views_", ())):
        for attribute, value in vars(part).items():
            if attribute.endswith("_") and attribute not in NUMPY:
                numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f"
                assert not numbers, attribute
                assert not is_tensor(value) or value.device.type == DEVICE.type, attribute


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][1] is classes])
def test_labels_come_as_they_were_given(name):
    model = fitted(name, tensor)
    found = model.predict(tensor(NEW))
    assert is_tensor(found)
    assert found.dtype == torch.int64
    assert model.score(tensor(X), tensor(classes)) == model.score(tensor(X), classes) > 0.6
    for labels in (classes, classes.tolist(), np.array(["a", "b", "c"])[classes]):
        found = model.fit(tensor(X), labels).predict(tensor(NEW))
        assert isinstance(found, np.ndarray)
        assert set(found) <= set(labels)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_may_be_tensors(name):
    expected = answers(fitted(name, np.asarray, sample_weight=weight), NEW)
    found = answers(fitted(name, tensor, sample_weight=tensor(weight)), tensor(NEW))
    assert_alike(found, expected, np.float64)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_goes_on_without_torch(name, tmp_path):
    expected = answers(fitted(name, np.asarray), NEW)
    mercer.save(fitted(name, tensor), tmp_path / "model")
    assert_alike(answers(mercer.load(tmp_path / "model"), NEW), expected, np.float64)


@pytest.mark.parametrize("name", CASES)
def test_a_pickled_model_goes_on_where_it_was(name):
    model = fitted(name, tensor)
    again = answers(pickle.loads(pickle.dumps(model)), tensor(NEW))
    for method, values in answers(model, tensor(NEW)).items():
        assert bool((again[method] == values).all())


@pytest.mark.parametrize("name", CASES)
def test_tensors_of_every_form(name):
    """Strided, broadcast, of other types, part of a graph of derivatives."""
    whole = np.round(4 * np.repeat(X, 2, axis=1))
    expected = answers(fitted(name, np.asarray).fit(whole[:, ::2], *_target(name)), NEW)
    for points in (
        tensor(whole)[:, ::2],
        tensor(np.ascontiguousarray(whole[:, ::2].T)).T,
        tensor(whole[:, ::2]).requires_grad_(),
        tensor(whole[:, ::2]).to(torch.int32),
    ):
        model = fitted(name, tensor).fit(points, *map(tensor, _target(name)))
        assert_alike(answers(model, tensor(NEW)), expected, np.float64)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_half_precision_is_computed_in_float32(name, half):
    points, new = (tensor(A).to(half) for A in (X, NEW))
    expected = answers(fitted(name, tensor).fit(points.float(), *_target(name)), new.float())
    model = fitted(name, tensor).fit(points, *_target(name))
    found = answers(model, new)
    assert_alike(found, {m: as_numpy(values) for m, values in expected.items()}, np.float32)
    for method, values in found.items():
        if is_tensor(values) and values.is_floating_point():
            assert values.dtype == torch.float32, method


def _target(name):
    target = CASES[name][1]
    return [] if target is None else [target]


@pytest.mark.parametrize("name", CASES)
def test_no_points_and_one(name):
    model, method = fitted(name, tensor), next(m for m in METHODS if hasattr(CASES[name][0], m))
    assert len(getattr(model, method)(tensor(NEW[:1]))) == 1
    for wrong in (NEW[:0], NEW[0], np.full((2, 3), np.nan), NEW[:, :2]):
        with pytest.raises(ValueError, match=r"0 sample|shape|NaN|features"):
            getattr(model, method)(tensor(wrong))


def test_files_of_libsvm_hold_machines_on_tensors(tmp_path):
    for name in ("SVC", "SVR", "OneClassSVM"):
        model = fitted(name, tensor)
        mercer.write_libsvm(model, tmp_path / "model")
        read = mercer.read_libsvm(tmp_path / "model")
        np.testing.assert_allclose(
            as_numpy(model.predict(tensor(NEW))), read.predict(NEW), rtol=1e-12
        )


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][1] is not None])
def test_missing_targets_are_named(name):
    points = X if name in ON_HOST else tensor(X)
    with pytest.raises(ValueError, match=f"{name} requires y to be passed"):
        clone(CASES[name][0]).fit(points, None)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ON_HOST])
def test_names_of_columns_are_forgotten(name):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    model = clone(CASES[name][0]).fit(pandas.DataFrame(X, columns=list("abc")), *_target(name))
    views = getattr(model, "views_", [model])
    assert list(views[0].feature_names_in_) == ["a", "b", "c"]
    model.fit(tensor(X[:, :2]), *_target(name))
    for part in getattr(model, "views_", [model]):
        assert not hasattr(part, "feature_names_in_")


def test_a_saved_model_on_centres_goes_on_without_torch(tmp_path):
    model = mercer.KernelRidge(0.1, kernel="rbf", solver="nystrom", n_centers=9)
    expected = as_numpy(model.fit(tensor(X), tensor(y)).predict(tensor(NEW)))
    mercer.save(model, tmp_path / "model")
    read = mercer.load(tmp_path / "model")
    np.testing.assert_allclose(read.predict(NEW), expected, rtol=1e-9)
    found = read.partial_fit(X[:9], y[:9]).predict(NEW)
    expected = model.partial_fit(tensor(X[:9]), tensor(y[:9])).predict(tensor(NEW))
    np.testing.assert_allclose(found, as_numpy(expected), rtol=1e-9)
