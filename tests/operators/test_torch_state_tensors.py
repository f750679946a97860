"""The state of torch around us: settings of the user's neither change nor break what we compute."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import gram
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.arrays.torch_state import computing, exact_products
from tensor_devices import DEVICE, WAYS, Deterministic, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
y = np.sin(X[:, 0])
KERNEL = K.RBF(0.2) + K.Linear()
MODELS = {
    "KernelRidge": (mercer.KernelRidge(0.1, kernel=KERNEL, fit_intercept=True), y),
    "pcg": (mercer.KernelRidge(0.1, kernel=KERNEL, solver="pcg"), y),
    "nystrom": (mercer.KernelRidge(0.1, kernel=KERNEL, solver="nystrom", n_centers=20), y),
    "KernelRidgeCV": (mercer.KernelRidgeCV([0.1, 1.0], kernel=KERNEL), y),
    "KernelMachineClassifier": (mercer.KernelMachineClassifier(kernel=KERNEL), y > 0),
    "SVC": (mercer.SVC(kernel=KERNEL), np.digitize(y, [-0.4, 0.4])),
    "SVR": (mercer.SVR(kernel=KERNEL), y),
    "KernelCentroidClassifier": (mercer.KernelCentroidClassifier(KERNEL), y > 0),
    "KernelPCA": (mercer.KernelPCA(2, kernel=KERNEL), None),
    "KernelCCA": (mercer.KernelCCA(1, regularization=0.1), X[:, :1] ** 2),
    "KernelDensity": (mercer.KernelDensity(bandwidth=0.5), None),
    "NadarayaWatson": (mercer.NadarayaWatsonRegressor(bandwidth=0.5), y),
    "LocalLinear": (mercer.LocalLinearRegressor(bandwidth=2.0), y),
}
METHODS = ("decision_function", "transform", "score_samples", "predict")


@pytest.fixture(autouse=True)
def settings_are_put_back():
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")


def answer(name, new=X[:9]):
    """What a model fitted on tensors says of new points."""
    model, target = MODELS[name]
    given = [tensor(X)] + ([] if target is None else [tensor(target)])
    model = clone(model).fit(*given)
    method = next(m for m in METHODS if hasattr(model, m))
    return as_numpy(getattr(model, method)(tensor(new)))


@pytest.mark.parametrize("way", WAYS)
def test_products_and_slopes_are_deterministic_if_torch_is_to_be(way, monkeypatch):
    use(way, monkeypatch)
    V = tensor(y)
    with Deterministic():
        for kernel in (KERNEL, K.Laplacian(0.2), K.Matern(1.5) * K.Linear()):
            points = tensor(X).requires_grad_()
            value = (gram(kernel, points, store=False) @ V).sum() + kernel(points).sum()
            once = torch.autograd.grad(value, points)[0]
            value = (gram(kernel, points, store=False) @ V).sum() + kernel(points).sum()
            assert bool((torch.autograd.grad(value, points)[0] == once).all())
        np.testing.assert_allclose(
            as_numpy(gram(KERNEL, tensor(X)) @ V), KERNEL(X.astype(float)) @ y, atol=1e-4
        )


@pytest.mark.parametrize("name", MODELS)
def test_models_are_deterministic_if_torch_is_to_be(name):
    expected = answer(name)
    with Deterministic():
        found = answer(name)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_reduced_precision_and_autocast_do_not_reach_products(precision, store, monkeypatch):
    use("torch", monkeypatch)
    points, V = tensor(X), tensor(np.column_stack([y, y**2]))

    def everything():
        operator, live = gram(KERNEL, points, store=store), points.clone().requires_grad_()
        columns = V.clone().requires_grad_()
        product = gram(KERNEL, live, store=store) @ columns
        slopes = torch.autograd.grad(product.sum(), (live, columns))
        stored = torch.autograd.grad((operator @ columns).sum(), columns)
        return [operator @ V, operator.T @ V, operator.dense(), operator.rows([3]), KERNEL(points),
                product.detach(), *slopes, *stored]  # fmt: skip

    expected = everything()
    torch.set_float32_matmul_precision(precision)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        found = everything()
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * float(other.abs().max()))
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("name", MODELS)
def test_reduced_precision_and_autocast_do_not_reach_models(name):
    expected = answer(name)
    torch.set_float32_matmul_precision("medium")
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        found = answer(name)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_the_precision_of_products_is_put_back():
    def settings():
        try:
            legacy = torch.get_float32_matmul_precision()
        except RuntimeError:  # set in two ways
            legacy = None
        flags = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
        return legacy, *(getattr(flag, "fp32_precision", None) for flag in flags)

    def inside():
        with exact_products():
            if hasattr(torch.backends, "fp32_precision"):
                return settings()[1:]
            return torch.get_float32_matmul_precision()

    untouched = settings()
    assert inside() in (untouched[1:], "highest")
    for setting in ("high", "medium", "highest"):
        torch.set_float32_matmul_precision(setting)
        before = settings()
        assert inside() in (("ieee", "ieee"), "highest")
        assert settings() == before
    torch.backends.cuda.matmul.allow_tf32 = True
    before = settings()
    assert inside() in (("ieee", "ieee"), "highest")
    assert settings() == before


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="torch is before 2.9")
def test_the_precision_of_products_as_newer_versions_set_it():
    flags = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    try:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        with exact_products():
            assert [flag.fp32_precision for flag in flags] == ["ieee", "ieee"]
            with exact_products():
                pass
            assert flags[0].fp32_precision == "ieee"
        assert flags[0].fp32_precision == "tf32"
    finally:
        for flag in flags:
            flag.fp32_precision = "none"


def test_threads_share_the_precision_of_products():
    torch.set_float32_matmul_precision("high")
    inside, leave, seen = threading.Event(), threading.Event(), []

    def first():
        with exact_products():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with exact_products():
        leave.set()
        thread.join()
        seen.append(torch.get_float32_matmul_precision())
    assert seen == ["highest"]
    assert torch.get_float32_matmul_precision() == "high"


def test_compile_goes_around_kernels():
    points, V = tensor(X), tensor(y)
    model = mercer.KernelRidge(0.1, kernel=KERNEL).fit(points, V)

    def f(A):
        B = 2 * A
        return gram(KERNEL, B, points) @ V + KERNEL(B, points).sum(1) + model.predict(B) - 1

    expected = f(points)
    torch._dynamo.reset()
    found = torch.compile(f, backend="eager")(points)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)

    @computing
    def tracing():
        return torch.compiler.is_compiling()

    assert not tracing()
    assert not torch.compile(tracing, backend="eager")()


def test_arrays_alone_do_not_import_torch():
    code = (
        "import sys, numpy as np; from mercer import gram, KernelRidge, kernels as K; "
        "X = np.ones((3, 2)); gram(K.RBF(), X) @ X; K.RBF()(X); "
        "KernelRidge(kernel='rbf').fit(X, X[:, 0]).predict(X); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_operators_are_pickled_without_what_is_compiled(store, way, monkeypatch):
    use(way, monkeypatch)
    operator, V = gram(KERNEL, tensor(X), store=store), tensor(y)
    expected = operator @ V
    again = pickle.loads(pickle.dumps(operator))
    assert not again.pairs._tiles
    assert again.reason == operator.reason
    torch.testing.assert_close(again @ V, expected, rtol=0, atol=0)
    torch.testing.assert_close(again.rows([2]), operator.rows([2]), rtol=0, atol=0)
