"""Gram operators: every form gives the same products, rows and diagonal."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from scipy.sparse.linalg import cg, eigsh
from sklearn.preprocessing import KernelCenterer

from mercer import gram
from mercer import kernels as K
from mercer.operators import (
    CentredGram,
    DenseGram,
    FeatureGram,
    TiledGram,
    corrected,
    is_indefinite,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(130, 4)), RNG.normal(size=(90, 4))
KERNEL = K.Polynomial(2) + K.RBF(0.3)


def forms():
    phi = K.Polynomial(2).feature_map().fit(X)
    F, G = phi.transform(X), phi.transform(Y)
    return {
        "dense": (DenseGram(KERNEL(X, Y)), KERNEL(X, Y)),
        "tiled": (TiledGram(KERNEL.over(X, Y)), KERNEL(X, Y)),
        "features": (FeatureGram(F, G), F @ G.T),
        "sparse features": (FeatureGram(sp.csr_array(F), sp.csr_array(G)), F @ G.T),
        "centred": (
            CentredGram(DenseGram(KERNEL(Y, X)), CentredGram(DenseGram(KERNEL(X)))),
            KernelCenterer().fit(KERNEL(X)).transform(KERNEL(Y, X)),
        ),
    }


@pytest.mark.parametrize("form", list(forms()))
def test_every_form_is_the_same_matrix(form):
    operator, expected = forms()[form]
    n, m = expected.shape
    V, W = RNG.normal(size=(m, 3)), RNG.normal(size=(n, 3))
    assert operator.shape == (n, m)
    np.testing.assert_allclose(operator @ V, expected @ V, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(operator @ V[:, 0], expected @ V[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(operator.T @ W, expected.T @ W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(operator.rmatvec(W[:, 0]), expected.T @ W[:, 0], atol=1e-9)
    np.testing.assert_allclose(operator.rows([5, 3, 5]), expected[[5, 3, 5]], atol=1e-10)
    np.testing.assert_allclose(operator.rows(slice(2, 4)), expected[2:4], atol=1e-10)
    np.testing.assert_allclose(operator.dense(), expected, atol=1e-10)
    mask = np.arange(n) % 7 == 3
    np.testing.assert_allclose(operator.rows(mask), expected[mask], atol=1e-10)
    np.testing.assert_allclose(operator.rows(mask.tolist()), expected[mask], atol=1e-10)
    np.testing.assert_allclose(operator.rows(4), expected[4], atol=1e-10)
    np.testing.assert_allclose(operator.rows([-1]), expected[[-1]], atol=1e-10)
    np.testing.assert_allclose(operator.rows([]), expected[:0])
    np.testing.assert_allclose(operator @ (V + 1j), expected @ (V + 1j), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(operator.T @ (W + 1j), expected.T @ (W + 1j), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [KERNEL, K.Linear(), K.RBF()], ids=repr)
def test_diagonals(kernel):
    for operator in (gram(kernel, X), TiledGram(kernel.over(X))):
        np.testing.assert_allclose(operator.diagonal(), kernel.diag(X))
    centred = CentredGram(gram(kernel, X))
    np.testing.assert_allclose(centred.diagonal(), np.diagonal(centred.dense()), atol=1e-10)


def test_the_choice_follows_size_and_budget_and_is_said():
    assert isinstance(gram(K.RBF(), X), DenseGram)
    assert isinstance(gram(K.Linear(), X, Y), FeatureGram)
    assert isinstance(gram(K.Linear(), X[:10]), DenseGram)
    with sklearn.config_context(working_memory=0.01):
        tiled = gram(K.RBF(), X)
    assert isinstance(tiled, TiledGram)
    assert "exceed the budget" in tiled.reason
    assert "explicit features: 4 features are few" in gram(K.Linear(), X).reason
    assert gram(K.Precomputed(), np.eye(3)).reason == "precomputed"
    with pytest.raises(TypeError, match="must be a mercer kernel"):
        gram("rbf", X)


def test_float32_tiles_are_summed_in_float64():
    small = X.astype(np.float32)
    operator = TiledGram(K.RBF().over(small))
    assert operator.dtype == np.float32
    assert (operator @ np.ones(130)).dtype == np.float64


def test_scipy_takes_them_as_linear_operators():
    operator = gram(K.RBF(0.5), X)
    largest = eigsh(operator, k=3, return_eigenvectors=False, v0=np.ones(130))
    np.testing.assert_allclose(np.sort(largest), np.linalg.eigvalsh(operator.dense())[-3:])
    solution, status = cg(operator + 0.1 * DenseGram(np.eye(130)), np.ones(130), rtol=1e-10)
    assert status == 0
    np.testing.assert_allclose(K.RBF(0.5)(X) @ solution + 0.1 * solution, 1.0, atol=1e-8)


def test_indefinite_matrices_are_corrected_consistently():
    A = RNG.normal(size=(12, 12))
    A = A + A.T
    assert is_indefinite(A)
    assert not is_indefinite(A @ A)
    eigenvalues = np.linalg.eigvalsh(A)
    clipped, P = corrected(A, "clip")
    np.testing.assert_allclose(
        np.linalg.eigvalsh(clipped), np.clip(eigenvalues, 0, None), atol=1e-9
    )
    np.testing.assert_allclose(A @ P, clipped, atol=1e-9)
    flipped, P = corrected(A, "flip")
    np.testing.assert_allclose(np.linalg.eigvalsh(flipped), np.sort(np.abs(eigenvalues)))
    np.testing.assert_allclose(A @ P, flipped, atol=1e-9)
    shifted, P = corrected(A, "shift")
    assert P is None
    np.testing.assert_allclose(shifted - A, -eigenvalues[0] * np.eye(12), atol=1e-9)


SCALED = 2.0 * K.RBF(0.3, scales=[0.5, 2.0, 1.0, 0.8]) + K.Polynomial(2)


@pytest.mark.parametrize("budget", [1024, 0.01])
def test_derivatives_as_operators_and_their_contraction(budget):
    with sklearn.config_context(working_memory=budget):
        operator = gram(SCALED, X, Y)
    slopes = SCALED.gradient(X, Y)
    U, V = RNG.normal(size=(130, 2)), RNG.normal(size=(90, 2))
    found = operator.gradient(U, V)
    assert found.keys() == slopes.keys()
    for path, slope in slopes.items():
        expected = np.einsum("ic,ij...,jc->...", U, slope, V)
        np.testing.assert_allclose(found[path], expected, rtol=1e-9, atol=1e-9)
        if slope.ndim == 2:
            dK = operator.derivative(path)
            np.testing.assert_allclose(dK @ V, slope @ V, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(dK.T @ U, slope.T @ U, rtol=1e-9, atol=1e-9)
            assert f"derivative by {path}," in dK.reason
    dK = operator.derivative("left__right__scales", 2)
    assert "derivative by left__right__scales[2]," in dK.reason
    np.testing.assert_allclose(dK @ V, slopes["left__right__scales"][:, :, 2] @ V, atol=1e-10)
    together = operator.derivative("left__right__scales")
    np.testing.assert_allclose(
        together @ V, slopes["left__right__scales"].sum(axis=2) @ V, atol=1e-10
    )


def test_derivatives_of_explicit_features():
    operator = gram(K.Polynomial(2, gamma=0.7), X)
    assert isinstance(operator, FeatureGram)
    v = RNG.normal(size=130)
    slopes = K.Polynomial(2, gamma=0.7).gradient(X)
    for path, slope in operator.gradient(v, v).items():
        np.testing.assert_allclose(slope, v @ slopes[path] @ v, rtol=1e-9)
        np.testing.assert_allclose(operator.derivative(path) @ v, slopes[path] @ v, rtol=1e-9)


def test_derivatives_belong_to_the_kernel_as_it_was():
    kernel = K.RBF(0.3)
    operator = gram(kernel, X)
    kernel.set_params(gamma=5.0)
    v = np.ones(130)
    expected = v @ K.RBF(0.3).gradient(X)["gamma"] @ v
    np.testing.assert_allclose(operator.gradient(v, v)["gamma"], expected)


@pytest.mark.parametrize("kernel", [K.Linear(), KERNEL, K.RBF(scales=np.ones(4))], ids=repr)
@pytest.mark.parametrize("budget", [1024, 0.001])
def test_operators_pickle_with_their_derivatives(kernel, budget):
    with sklearn.config_context(working_memory=budget):
        operator = gram(kernel, X)
    again = pickle.loads(pickle.dumps(operator))
    assert again.reason == operator.reason
    v = np.ones(130)
    np.testing.assert_array_equal(again @ v, operator @ v)
    found, expected = again.gradient(v, v), operator.gradient(v, v)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[path], expected[path]) for path in found)


def test_derivatives_of_a_centred_gram():
    training = CentredGram(gram(SCALED, X))
    new = CentredGram(gram(SCALED, Y, X), training)
    u, v, w = RNG.normal(size=(90, 2)), RNG.normal(size=(130, 2)), RNG.normal(size=(130, 2))
    old_slopes, new_slopes = SCALED.gradient(X), SCALED.gradient(Y, X)
    found, found_new = training.gradient(w, v), new.gradient(u, v)
    for path, slope in old_slopes.items():
        for j in range(slope.shape[2]) if slope.ndim == 3 else [None]:
            dK, dK_new = (s if j is None else s[:, :, j] for s in (slope, new_slopes[path]))
            centerer = KernelCenterer().fit(dK)
            for operator, U, dense, contraction in (
                (training, w, centerer.transform(dK), found),
                (new, u, centerer.transform(dK_new), found_new),
            ):
                np.testing.assert_allclose(
                    operator.derivative(path, j) @ v, dense @ v, rtol=1e-8, atol=1e-8
                )
                one = contraction[path] if j is None else contraction[path][j]
                np.testing.assert_allclose(one, np.sum(U * (dense @ v)), rtol=1e-8, atol=1e-7)
    single = training.gradient(w[:, 0], v[:, 0])
    assert single.keys() == old_slopes.keys()


def test_numbers_have_no_derivatives():
    for operator in (DenseGram(np.eye(3)), gram(K.Precomputed(), np.eye(3))):
        with pytest.raises(TypeError, match=r"derivatives need mercer.gram\(kernel, X\)"):
            operator.gradient(np.ones(3), np.ones(3))
        with pytest.raises(TypeError, match="what they depend on is not known"):
            operator.derivative("gamma")


def test_points_that_are_not_aligned():
    X = np.random.default_rng(0).normal(size=(20, 6))
    buffer = bytearray(X.nbytes + 1)
    Y = np.frombuffer(buffer, np.uint8, X.nbytes, 1).view(float).reshape(X.shape)
    Y[...] = X
    assert not Y.flags.aligned
    kernel = K.RBF(0.3) + K.Linear()
    np.testing.assert_allclose(kernel(Y), kernel(X), rtol=0, atol=1e-14)


def test_what_is_infinite_stays_so_in_a_product():
    X, Y, V = np.ones((1, 1), "f"), np.array([[1], [1e10]], "f"), np.ones((2, 1), "f")
    for points in (Y, Y[::-1].copy()):
        product = K.Polynomial(4).over(X, points).products(V, np.zeros((1, 0)))[0]
        assert product == np.inf


def test_numbers_that_float32_does_not_hold():
    X = np.array([[0, 0], [1e-20, 0]], "f")
    np.testing.assert_allclose(K.RBF(1e39)(X)[0], [1, np.exp(-0.1)], rtol=1e-5)
    np.testing.assert_array_equal(np.diag(K.Laplacian(1e39)(X)), [1, 1])
    far = np.array([[0, 0], [20, 0]], "f")
    assert (1e39 * K.RBF(1.0))(far)[0, 1] == pytest.approx(1e39 * np.exp(-400.0))


def test_a_sum_of_exponentials_takes_up_a_third():
    X = np.random.default_rng(0).normal(size=(30, 4))
    kernel = K.RBF(0.3) * (K.RBF(0.2) + K.Laplacian(0.1))
    expected = K.RBF(0.3)(X) * (K.RBF(0.2)(X) + K.Laplacian(0.1)(X))
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-13)
    assert str(kernel.over(X).expression).count("sqdist") == 2


def test_float32_points_are_multiplied_in_float64(monkeypatch):
    monkeypatch.setattr(sys.modules["mercer.operators.gram"], "WIDENED", 7)
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32) + 10
    V = np.random.default_rng(1).normal(size=(30, 2))
    for kernel in (KERNEL, K.Periodic(2.0, 1.0) * K.Laplacian(0.5)):
        expected = kernel(X.astype(float)) @ V
        for memory in (1024, 1e-4):
            with sklearn.config_context(working_memory=memory):
                operator = gram(kernel, X).double()
            np.testing.assert_allclose(operator @ V, expected, rtol=1e-12)
            np.testing.assert_allclose(operator @ V[:, 0], expected[:, 0], rtol=1e-12)
    same = gram(KERNEL, X.astype(float))
    assert same.double() is same


@pytest.mark.parametrize("columns", [1, 16, 17, 40, 60])
def test_products_of_many_features_with_many_columns(columns):
    """Half the tiles serve as many columns as features make worth while."""
    X = np.random.default_rng(0).normal(size=(90, 700)) / 20
    V = np.random.default_rng(1).normal(size=(90, columns))
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        tiled = TiledGram(K.RBF(0.5).over(X.astype(dtype), None))
        expected = K.RBF(0.5)(X) @ V
        np.testing.assert_allclose(tiled @ V, expected, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("kernel", [K.RBF(0.1), K.Polynomial(2), K.Min(), K.Linear()], ids=repr)
@pytest.mark.parametrize("d", [3, 300])
def test_normal_products_are_the_two_products_after_each_other(kernel, d):
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(size=(40, d)), rng.uniform(size=(25, d))
    V, T, s = rng.normal(size=(25, 2)), rng.normal(size=(40, 2)), rng.uniform(size=40)
    Z = kernel(X, Y)
    for operator in (DenseGram(Z), TiledGram(kernel.over(X, Y))):
        for targets, weight in ((None, None), (T, None), (None, s), (T, s)):
            R = Z @ V if targets is None else T - Z @ V
            R = R if weight is None else s[:, None] * R
            side, total = operator.normal_product(V, targets, weight)
            np.testing.assert_allclose(side, Z.T @ R, rtol=1e-9, atol=1e-9 * np.abs(Z.T @ R).max())
            np.testing.assert_allclose(total, R.sum(axis=0), rtol=1e-9, atol=1e-9 * np.abs(R).max())


def test_a_constant_centred_is_zero_but_for_rounding():
    """The rounding of the means must not add up along the rows."""
    for n in (260, 1000):
        dense = CentredGram(DenseGram(np.full((n, n), 0.1))).dense()
        assert np.abs(dense).max() < 1e-30


def test_the_trace_of_centred_features_does_not_suffer_from_their_mean():
    X = np.random.default_rng(0).normal(size=(400, 3))
    far = CentredGram(gram(K.Linear(), X + 1e7)).diagonal().sum()
    assert far == pytest.approx(np.sum((X - X.mean(axis=0)) ** 2), rel=1e-8)


def test_products_with_no_columns():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for memory in (1024, 0.001):  # stored, or in tiles
        with sklearn.config_context(working_memory=memory):
            K_nm = gram(K.RBF(0.5), X, X[:7])
        assert (K_nm @ np.zeros((7, 0))).shape == (50, 0)
        assert (K_nm.T @ np.zeros((50, 0))).shape == (7, 0)


@pytest.mark.parametrize("degree", [1, 3])
def test_rows_of_few_features_are_those_of_the_formula(degree):
    """Many features of few columns: rows come from the formula, products from the features."""
    X = np.random.default_rng(0).normal(size=(2000, 6))
    kernel = K.Polynomial(degree, gamma=0.2)
    operator = gram(kernel, X)
    assert isinstance(operator, FeatureGram)
    expected = (1 + 0.2 * X @ X.T) ** degree
    assert_allclose(operator.rows([7, 3]), expected[[7, 3]], rtol=1e-12, atol=1e-12)
    assert_allclose(
        operator.block(np.arange(4), np.arange(9)), expected[:4, :9], rtol=1e-12, atol=1e-12
    )
    out = np.zeros((2, 2000))
    operator.put(np.array([5, 1]), np.array([1, 0]), slice(10, 20), out)
    assert_allclose(out[:, 10:20], expected[[1, 5], 10:20], rtol=1e-12, atol=1e-12)
    assert not out[:, 20:].any()
    V = np.random.default_rng(1).normal(size=(2000, 2))
    assert_allclose(operator @ V, expected @ V, rtol=1e-9, atol=1e-9)
