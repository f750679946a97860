"""Weighted sums of derivatives by all hyperparameters, against derivatives that are stored."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import kernels as K
from mercer.expressions.contraction import Outer, contracted, is_joint, points_contracted
from naive_kernels import CASES

SCALES = [0.7, 1.9, 1.1]
COMPOSITES = [
    2.0 * K.RBF(scales=SCALES) + K.Linear() + 0.3,
    K.Matern(2.5, scales=SCALES) * K.RationalQuadratic(0.5, 2.0) + 0.1 * K.Polynomial(2, 0.3, 1.0),
    K.RBF(scales=SCALES).on([0, 1, 2]) * K.Exponential(0.3),
    K.Laplacian(0.5, scales=SCALES) + K.Periodic(3.0, 1.5, scales=SCALES),
    (K.RBF(0.2, scales=SCALES) + K.Linear() ** 2).normalize(),
]


def by_storing(k, X, W, Z=None):
    found = {}
    for path, slope in k.gradient(X, Z).items():
        found[path] = np.tensordot(W, slope, axes=([0, 1], [0, 1]))
    return found


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, n))
    return rng.uniform(0.1, 3, (n, 3)), W + W.T


@pytest.mark.parametrize("k", COMPOSITES, ids=str)
def test_sums_are_those_of_stored_derivatives(k):
    X, W = drawn(57)
    lower = np.where(np.tri(57), W, np.nan)
    found, expected = contracted(k.over(X), lower), by_storing(k, X, W)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-9 * np.abs(W).sum())


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n] and CASES[n][0].domain.is_vectors])
def test_of_every_vector_kernel(name):
    X, W = drawn(20, 1)
    for k in CASES[name]:
        if k.expression().parameters():
            found, expected = contracted(k.over(X), W), by_storing(k, X, W)
            for path, value in expected.items():
                np.testing.assert_allclose(found[path], value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("k", COMPOSITES, ids=str)
def test_two_sets_of_points(k):
    X, Z, W = drawn(57)[0], drawn(31, 1)[0], np.random.default_rng(2).standard_normal((57, 31))
    found, expected = contracted(k.over(X, Z), W), by_storing(k, X, W, Z)
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-9 * np.abs(W).sum())


@pytest.mark.parametrize("widest", [30, 64])
@pytest.mark.parametrize("same", [True, False])
def test_several_tiles(monkeypatch, same, widest):
    X, W = drawn(100)
    pairs = COMPOSITES[0].over(X, None if same else X)
    expected = by_storing(COMPOSITES[0], X, W)
    monkeypatch.setattr("mercer.expressions.contraction.TILE", 20 * widest)
    monkeypatch.setattr("mercer.expressions.contraction.WIDEST", widest)
    found = contracted(pairs, W)
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-10)


@pytest.mark.parametrize("same", [True, False])
def test_weights_of_low_rank(monkeypatch, same):
    monkeypatch.setattr("mercer.expressions.contraction.TILE", 1000)
    monkeypatch.setattr("mercer.expressions.contraction.WIDEST", 40)
    rng = np.random.default_rng(3)
    X, Z = drawn(100)[0], drawn(100 if same else 70, 1)[0]
    U, V = rng.standard_normal((len(X), 3)), rng.standard_normal((len(Z), 3))
    for k in COMPOSITES:
        expected = by_storing(k, X, U @ V.T, None if same else Z)
        pairs = k.over(X, None if same else Z)
        found = contracted(pairs, Outer(U, V, symmetric=same))
        for path, value in expected.items():
            np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-7)


def test_which_scales_are_one_sum():
    X = drawn(20)[0]
    assert [is_joint(k.over(X)) for k in COMPOSITES] == [True, True, True, False, True]
    assert not is_joint(COMPOSITES[0].over(sp.csr_array(X)))


def test_points_far_apart_lose_no_digits():
    # Two clusters at a great distance, where the expanded squares cancel.
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 2)) * 1e-3 + np.where(np.arange(40) < 20, 0, 1e5)[:, None]
    W = rng.standard_normal((40, 40))
    W += W.T
    k = K.RBF(scales=[1e-3, 2e-3])
    expected = by_storing(k, X, W)["scales"]
    np.testing.assert_allclose(contracted(k.over(X), W)["scales"], expected, rtol=1e-7)


@pytest.mark.parametrize("k", COMPOSITES, ids=str)
def test_derivatives_by_points(k):
    X, Z, W = drawn(37)[0], drawn(21, 1)[0], np.random.default_rng(2).standard_normal((37, 21))
    found = points_contracted(k.over(X, Z), W)
    if "normalize" in repr(k) or "Laplacian" in repr(k) or "on(" in repr(k):
        assert found is None
        return
    h = 1e-6
    for j, feature in [(0, 0), (5, 1), (20, 2)]:
        step = np.zeros_like(Z)
        step[j, feature] = h
        slope = (k(X, Z + step)[:, j] - k(X, Z - step)[:, j]) / (2 * h)
        assert found[j, feature] == pytest.approx(W[:, j] @ slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("k", [k for k in COMPOSITES if is_joint(k.over(drawn(3)[0]))], ids=str)
@pytest.mark.parametrize("single", [False, True])
def test_tensors_by_tiles(k, single, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("mercer.expressions.contraction.TENSOR_TILE", 2**9)
    monkeypatch.setattr("mercer.expressions.contraction.TENSOR_WIDEST", 2**4)
    X, W = drawn(57)
    Z, R = drawn(31, 1)[0], np.random.default_rng(2).standard_normal((57, 31))
    U, V = np.random.default_rng(3).standard_normal((2, 57, 5))
    tensor = lambda A: torch.tensor(A).to(torch.float32 if single else torch.float64)  # noqa: E731
    if single:
        X, Z = (A.astype(np.float32).astype(float) for A in (X, Z))
    cases = [
        (k.over(X), W, k.over(tensor(X)), torch.tensor(W)),
        (k.over(X, Z), R, k.over(tensor(X), tensor(Z)), R),
        (k.over(X), Outer(U, V, True), k.over(tensor(X)), Outer(*map(torch.tensor, (U, V)), True)),
    ]
    for pairs, weights, of_tensors, theirs in cases:
        expected, found = contracted(pairs, weights), contracted(of_tensors, theirs)
        size = max(np.abs(value).max() for value in expected.values())
        for path, value in expected.items():
            np.testing.assert_allclose(found[path], value, rtol=1e-5, atol=1e-5 * size)
            if not single:
                np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-12 * size)
