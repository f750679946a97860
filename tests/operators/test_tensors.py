"""Gram operators of tensors: products, rows and the diagonal, stored and not."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from mercer import gram
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.dependence import centred_alignment, hsic, mmd
from mercer.operators import TensorGram
from tensor_devices import DEVICE, WAYS, tensor, torch, use

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.normal(size=(40, 4))
KERNEL = K.Polynomial(2) + K.RBF(0.3)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    use(request.param, monkeypatch)


@pytest.mark.parametrize("store", [True, False])
def test_products_rows_and_diagonal(store, way):
    operator, K_XY = gram(KERNEL, tensor(X), tensor(Y), store=store), KERNEL(X, Y)
    assert isinstance(operator, TensorGram)
    assert operator.shape == K_XY.shape
    V, U = RNG.normal(size=(40, 3)), RNG.normal(size=60)
    for found, expected in (
        (operator @ tensor(V), K_XY @ V),
        (operator @ tensor(V[:, 0]), K_XY @ V[:, 0]),
        (operator.T @ tensor(U), K_XY.T @ U),
        (operator.rows([3, 1]), K_XY[[3, 1]]),
        (operator.rows(slice(2, 5)), K_XY[2:5]),
        (operator.dense(), K_XY),
        (operator.derivative("right__gamma") @ tensor(V), _slope() @ V),
    ):
        assert found.device.type == DEVICE.type
        assert found.dtype == torch.float64
        np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-11, atol=1e-11)
    square = gram(KERNEL, tensor(X), store=store)
    np.testing.assert_allclose(as_numpy(square.diagonal()), KERNEL.diag(X), rtol=1e-13)


def _slope():
    return KERNEL.gradient(X, Y)["right__gamma"]


def test_a_product_with_an_array_comes_back_as_one(way):
    operator, V = gram(KERNEL, tensor(X), store=False), RNG.normal(size=(60, 2))
    found = operator @ V
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, KERNEL(X) @ V, rtol=1e-11)
    assert isinstance(operator.rows(np.array([1, 2])), np.ndarray)


def test_results_have_the_dtype_of_the_vector(way):
    operator = gram(KERNEL, tensor(X.astype(np.float32)), store=False)
    expected = KERNEL(X.astype(np.float32).astype(float)) @ X
    single = operator @ tensor(X.astype(np.float32))
    assert single.dtype == torch.float32
    size = np.abs(expected).max()
    np.testing.assert_allclose(as_numpy(single), expected, rtol=0, atol=1e-6 * size)
    double = operator.double() @ tensor(X)
    assert double.dtype == torch.float64
    np.testing.assert_allclose(as_numpy(double), expected, rtol=0, atol=1e-14 * size)
    assert (gram(KERNEL, tensor(X)).single() @ tensor(X)).dtype == torch.float64


@pytest.mark.parametrize("store", [True, False])
def test_products_with_whole_numbers_and_what_is_no_column(store, way):
    operator, whole = gram(KERNEL, tensor(X), tensor(Y), store=store), np.arange(40)
    found = operator @ tensor(whole)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(as_numpy(found), KERNEL(X, Y) @ whole, rtol=1e-11)
    assert tuple((operator @ tensor(np.zeros((40, 0)))).shape) == (60, 0)
    np.testing.assert_allclose(as_numpy(operator.rows(-1)), KERNEL(X, Y)[-1], rtol=1e-11)
    for wrong in (np.zeros(1), np.zeros((1, 2)), np.zeros((40, 2, 2)), np.zeros(60)):
        with pytest.raises(ValueError, match=r"V has shape .*; expected \(40,\) or \(40, c\)"):
            operator @ tensor(wrong)
    with pytest.raises(ValueError, match=r"expected \(60,\)"):
        operator.T @ tensor(whole)


@pytest.mark.parametrize("store", [True, False])
def test_columns_may_be_anywhere_and_of_any_kind(store, way):
    operator, K_XY = gram(KERNEL, tensor(X), tensor(Y), store=store), KERNEL(X, Y)
    on_host = torch.as_tensor(Y)
    for found, expected in (
        (operator @ on_host, K_XY @ Y),
        (operator.T @ torch.as_tensor(X), K_XY.T @ X),
    ):
        assert found.device.type == DEVICE.type
        np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-11, atol=1e-11)
    Z = Y + 1j * Y[::-1]
    for columns in (Z, Z[:, 0]):
        found = operator @ columns
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, K_XY @ columns, rtol=1e-11, atol=1e-11)
        found = operator @ tensor(columns)
        assert found.dtype == torch.complex128
        np.testing.assert_allclose(as_numpy(found), K_XY @ columns, rtol=1e-11, atol=1e-11)
    assert (operator.T @ tensor((X + 1j).astype(np.complex64))).dtype == torch.complex64
    for half in (torch.float16, torch.bfloat16):
        V = tensor(Y).to(half)
        found = operator @ V
        assert found.dtype == torch.float32
        expected = K_XY @ as_numpy(V).astype(float)
        np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_points_in_half_precision_are_computed_with_in_float32(half, way):
    points = tensor(X).to(half)
    operator, expected = gram(KERNEL, points), KERNEL(as_numpy(points).astype(float))
    assert operator.dtype == np.float32
    assert operator.dense().dtype == KERNEL(points).dtype == torch.float32
    np.testing.assert_allclose(
        as_numpy(operator.dense()), expected, rtol=0, atol=1e-6 * np.abs(expected).max()
    )


@pytest.mark.parametrize("store", [True, False])
def test_rows_that_are_not_there_are_named(store, way):
    operator = gram(KERNEL, tensor(X), tensor(Y), store=store)
    for ask in (
        lambda: operator.rows(60),
        lambda: operator.rows([0, 60]),
        lambda: operator.rows(np.array([60, 1])),
        lambda: operator.rows(tensor([60])),
        lambda: operator.block(tensor([60]), [0]),
    ):
        with pytest.raises(IndexError, match="index 60 is out of range for 60 points"):
            ask()
    with pytest.raises(IndexError, match="index -41 is out of range for 40 points"):
        operator.block([0], tensor([-41]))
    expected = KERNEL(X, Y)
    for rows in ([-1, 2], tensor([-1, 2]), np.arange(60) > 57):
        chosen = as_numpy(rows) if torch.is_tensor(rows) else rows
        np.testing.assert_allclose(as_numpy(operator.rows(rows)), expected[chosen], rtol=1e-11)
    np.testing.assert_allclose(as_numpy(operator.rows(tensor(3))), expected[3], rtol=1e-11)
    block = operator.block([-1, 2], slice(1, 9, 2))
    np.testing.assert_allclose(as_numpy(block), expected[[-1, 2], 1:9:2], rtol=1e-11)


def test_points_of_two_kinds_are_refused():
    for left, right in ((X, tensor(Y)), (tensor(X), Y)):
        with pytest.raises(TypeError, match=r"X is a .* and Y is a .*; move both to one device"):
            gram(KERNEL, left, right)
    with pytest.raises(TypeError, match=r"Precomputed\(\) takes a matrix that is an array"):
        gram(K.Precomputed(), tensor(X @ X.T))


def test_launches_are_on_the_device_of_the_points(monkeypatch):
    use("triton", monkeypatch)
    entered, device_of = [], torch.cuda.device_of
    monkeypatch.setattr(torch.cuda, "device_of", lambda A: entered.append(A.device) or device_of(A))
    operator = gram(KERNEL, tensor(X), store=False)
    for ask in (lambda: operator @ tensor(X), lambda: operator.dense()):
        entered.clear()
        ask()
        assert entered == [operator.pairs.device]


def test_single_precision_where_it_has_room():
    assert gram(K.RBF(1e-3), tensor(X)).single().dtype == np.float32
    for huge, kernel in ((1e25 * X, K.RBF(1.0)), (X, 1e50 * K.Linear())):
        assert gram(kernel, tensor(huge)).single().dtype == np.float64


def test_a_matrix_that_does_not_fit_is_not_stored(way, monkeypatch):
    monkeypatch.setattr("mercer.operators.tensors.device_budget", lambda device: 3 * 8 * 60**2 - 1)
    assert "recomputed in tiles: 0 MiB exceed a third" in gram(KERNEL, tensor(X)).reason
    monkeypatch.setattr("mercer.operators.tensors.device_budget", lambda device: 3 * 8 * 60**2)
    assert gram(KERNEL, tensor(X)).reason.startswith("stored")


@pytest.mark.skipif(DEVICE.type != "cpu", reason="the budget of a GPU is what is free there")
def test_blocks_of_rows_keep_to_the_budget():
    A = tensor(RNG.normal(size=(2000, 3)))
    with sklearn.config_context(working_memory=1):
        found = gram(KERNEL, A, store=False) @ A
    np.testing.assert_allclose(as_numpy(found), KERNEL(as_numpy(A)) @ as_numpy(A), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(0.3, scales=[1.0, 2.0, 3.0, 0.5]),
        K.Laplacian(0.3, scales=[1.0, 2.0, 3.0, 0.5]) * K.Polynomial(2, 0.5),
        (K.Polynomial(2, 0.5) + K.RBF(0.3)).normalize(),
        K.Periodic(2.0, 1.0) + K.Linear(),
    ],
    ids=repr,
)
def test_gradients_by_all_hyperparameters_are_those_of_arrays(kernel, monkeypatch):
    use("torch", monkeypatch)
    U, V = RNG.normal(size=(60, 2)), RNG.normal(size=(40, 2))
    expected = gram(kernel, X, Y).gradient(U, V)
    for left, right in ((tensor(U), tensor(V)), (U, V)):
        found = gram(kernel, tensor(X), tensor(Y), store=False).gradient(left, right)
        assert found.keys() == expected.keys()
        for path, value in expected.items():
            np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-9)
    own, single = RNG.normal(size=60), X.astype(np.float32)
    expected = gram(kernel, single.astype(float)).gradient(own, own)
    for path, value in gram(kernel, tensor(single)).gradient(tensor(own), own).items():
        np.testing.assert_allclose(value, expected[path], rtol=1e-3, atol=1e-3)


def test_gradients_by_kernels_of_triton(way):
    kernel, U = K.RBF(0.3, scales=[1.0, 2.0, 3.0, 0.5]) * 2.0, RNG.normal(size=60)
    expected = gram(kernel, X).gradient(U, U)
    for path, value in gram(kernel, tensor(X)).gradient(U, U).items():
        np.testing.assert_allclose(value, expected[path], rtol=1e-9)
    with pytest.raises(ValueError, match=r"V has shape \(59,\); expected \(60,\)"):
        gram(kernel, tensor(X)).gradient(U, U[1:])


@pytest.mark.parametrize("store", [True, False])
def test_measures_of_dependence_are_those_of_arrays(store, monkeypatch):
    use("torch", monkeypatch)
    second = np.arange(60) % 2 == 0
    L, other = K.Laplacian(0.5), X[:, :1] ** 2
    arrays = gram(K.RBF(0.3), X), gram(L, other)
    tensors = (gram(k, tensor(A), store=store) for k, A in ((K.RBF(0.3), X), (L, other)))
    there, other = tensors
    for found, expected in (
        (hsic(there, other, 9, random_state=0), hsic(*arrays, 9, random_state=0)),
        (mmd(there, second, 9, random_state=0), mmd(arrays[0], second, 9, random_state=0)),
    ):
        assert found.pvalue == expected.pvalue
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert centred_alignment(there, other) == pytest.approx(centred_alignment(*arrays), rel=1e-10)
