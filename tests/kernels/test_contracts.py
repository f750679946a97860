"""What every kernel of the registry must do."""

from __future__ import annotations

import copy
import pathlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import mercer
from mercer import kernels as K
from naive_kernels import (
    CASES,
    ELSEWHERE,
    NAIVE,
    ORACLE_MODULES,
    all_cases,
    naive_cases,
    naive_gram,
    points,
)

CONCRETE = {name for name, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")}
VECTOR_CASES = [k for k in all_cases() if k.domain.is_vectors]


def close(a, b, rtol=1e-11):
    scale = np.max(np.abs(b)) if np.size(b) else 1.0
    np.testing.assert_allclose(a, b, rtol=0, atol=rtol * max(scale, 1e-300))


def test_every_kernel_is_tried_and_has_an_oracle():
    here = pathlib.Path(__file__).parent
    other_oracles = {name for names in ORACLE_MODULES.values() for name in names}
    assert set(CASES) | ELSEWHERE >= CONCRETE
    assert set(CASES) <= set(NAIVE) | other_oracles
    for module, names in ORACLE_MODULES.items():
        text = (here / module).read_text()
        assert all(name in text for name in names)


@pytest.mark.parametrize("kernel", naive_cases(), ids=repr)
def test_equals_the_oracle(kernel):
    rng = np.random.default_rng(0)
    X, Y = points(kernel, 7, rng), points(kernel, 5, rng)
    close(kernel(X), naive_gram(kernel, X))
    close(kernel(X, Y), naive_gram(kernel, X, Y))


@pytest.mark.parametrize("kernel", naive_cases(), ids=repr)
def test_large_blocks_equal_the_oracle(kernel):
    """More points than a tile holds: every tile, mirrored or not, is in its place."""
    rng = np.random.default_rng(1)
    X = points(kernel, 700, rng)
    i, j = rng.integers(0, 700, size=(2, 12))
    K_full = kernel(X)
    assert np.array_equal(K_full, K_full.T)
    rows = [X[k] for k in i] if isinstance(X, list) else X[i]
    columns = [X[k] for k in j] if isinstance(X, list) else X[j]
    close(K_full[np.ix_(i, j)], naive_gram(kernel, rows, columns))


@pytest.mark.parametrize("kernel", all_cases(), ids=repr)
def test_symmetry_diagonal_and_cross_blocks(kernel):
    rng = np.random.default_rng(2)
    X = points(kernel, 8, rng)
    Gram = kernel(X)
    assert Gram.dtype == np.float64
    assert np.array_equal(Gram, Gram.T)
    close(kernel.diag(X), np.diagonal(Gram))
    close(kernel(X, X), Gram)
    close(kernel(X[:3], X[3:]), Gram[:3, 3:])


@pytest.mark.parametrize("kernel", all_cases(), ids=repr)
def test_a_proof_is_not_contradicted_and_a_counterexample_reproduces(kernel):
    validity = kernel.validity
    if validity.status == "valid":
        assert validity.proof is not None
        for seed in range(3):
            Gram = kernel(points(kernel, 15, np.random.default_rng(seed)))
            eigenvalues = np.linalg.eigvalsh(Gram)
            assert eigenvalues[0] >= -1e-12 * len(Gram) * max(eigenvalues[-1], 1e-300)
    else:
        assert validity.status == "indefinite"
        found = validity.counterexample
        assert found.eigenvalue < 0
        assert np.linalg.eigvalsh(kernel(found.points))[0] == pytest.approx(found.eigenvalue)


@pytest.mark.parametrize("kernel", all_cases(), ids=repr)
def test_clone_pickle_and_copy(kernel):
    X = points(kernel, 4, np.random.default_rng(3))
    expected = kernel(X)
    for twin in (clone(kernel), pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        assert twin is not kernel
        assert np.array_equal(twin(X), expected)


@pytest.mark.parametrize("kernel", all_cases(), ids=repr)
def test_text_reads_back(kernel):
    if isinstance(kernel, K.FromFunction | K.FromFeatures):
        with pytest.raises(K.KernelSyntaxError, match="function"):
            K.parse(repr(kernel))
        return
    again = K.parse(repr(kernel))
    assert repr(again) == repr(kernel)
    X = points(kernel, 4, np.random.default_rng(4))
    assert np.array_equal(again(X), kernel(X))


@pytest.mark.parametrize("kernel", VECTOR_CASES, ids=repr)
def test_float32_in_float32_out(kernel):
    rng = np.random.default_rng(5)
    X = points(kernel, 9, rng).astype(np.float32)
    Gram = kernel(X)
    assert Gram.dtype == np.float32
    close(Gram, kernel(X.astype(np.float64)), rtol=2e-5)


@pytest.mark.parametrize("kernel", VECTOR_CASES, ids=repr)
@pytest.mark.parametrize("d", [3, 9])
def test_sparse_equals_dense(kernel, d):
    if getattr(kernel, "scales", None) is not None and d != 3:
        kernel = clone(kernel).set_params(scales=np.linspace(0.5, 2, d))
    rng = np.random.default_rng(6)
    X, Y = points(kernel, 6, rng, d), points(kernel, 5, rng, d)
    X[X < 0.3], Y[Y < 0.3] = 0.0, 0.0
    dense = kernel(X, Y)
    close(kernel(sp.csr_array(X), sp.csr_array(Y)), dense)
    close(kernel(sp.csr_matrix(X), Y), dense)
    close(kernel(sp.csc_array(X)), kernel(X))
    close(kernel.diag(sp.csr_array(X)), kernel.diag(X))
    single = X.astype(np.float32)
    close(kernel(sp.csr_array(single), sp.csr_array(Y)), kernel(single, Y), rtol=2e-5)


@pytest.mark.parametrize("kernel", naive_cases(), ids=repr)
def test_one_point(kernel):
    X = points(kernel, 1, np.random.default_rng(7))
    assert kernel(X).shape == (1, 1)
    close(kernel(X), naive_gram(kernel, X))


@pytest.mark.parametrize(
    "kernel", [k for k in VECTOR_CASES if getattr(k, "scales", None) is None], ids=repr
)
def test_one_feature(kernel):
    X = points(kernel, 6, np.random.default_rng(8), d=1)
    close(kernel(X), naive_gram(kernel, X))


DISTANCE_KERNELS = [
    K.RBF(0.5),
    K.Exponential(0.5),
    K.Laplacian(0.5),
    K.Matern(2.5),
    K.RationalQuadratic(),
]


@pytest.mark.parametrize("kernel", DISTANCE_KERNELS, ids=repr)
@pytest.mark.parametrize("d", [2, 30])
def test_far_from_the_origin(kernel, d):
    """An offset of 1e8 leaves about eight digits in the data, and loses none on the way."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(20, d))
    moved = X + 1e8
    exact = kernel(moved - 1e8)
    close(kernel(moved), exact, rtol=1e-9)


@pytest.mark.parametrize("kernel", DISTANCE_KERNELS, ids=repr)
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("gap", [1e-3, 1e-7, 1e-11])
def test_near_duplicates(kernel, d, gap):
    """Distances far below the norms keep their digits: 1 - k is right, not only k."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(12, d))
    Z = X + gap * rng.normal(size=(12, d))
    sharp = clone(kernel)
    scale = "gamma" if "gamma" in sharp.get_params() else "length_scale"
    power = {"RBF": -2, "Exponential": -1, "Laplacian": -1}.get(type(kernel).__name__, 1)
    sharp.set_params(**{scale: gap**power})
    close(np.diagonal(sharp(X, Z)), np.diagonal(naive_gram(sharp, X, Z)), rtol=1e-9)


@pytest.mark.parametrize("gamma", [1e-300, 1e-12, 1e12, 1e300])
def test_huge_and_tiny_parameters(gamma):
    X = np.random.default_rng(11).normal(size=(10, 6))
    for kernel in (K.RBF(gamma), K.Laplacian(gamma), K.Exponential(gamma), K.Matern(1.5, gamma)):
        with np.errstate(all="ignore"):
            Gram = kernel(X)
        assert np.all(np.isfinite(Gram))
        assert np.array_equal(np.diagonal(Gram), np.ones(10))
        close(Gram, naive_gram(kernel, X), rtol=1e-9)


def test_duplicates_have_distance_zero_exactly():
    X = np.random.default_rng(12).normal(size=(5, 50)) * 1e6
    X = np.vstack([X, X])
    Gram = K.RBF(1.0)(X)
    assert np.array_equal(Gram[:5, 5:], np.eye(5))


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (K.RBF(gamma=0), "gamma"),
        (K.RBF(gamma=-1.0), "gamma"),
        (K.RBF(gamma=float("nan")), "gamma"),
        (K.RBF(gamma="big"), "gamma"),
        (K.RBF(scales=[1.0, 0.0, 1.0]), "scales"),
        (K.RBF(scales=[1.0, 2.0]), "scales"),
        (K.RBF(scales=["a", "b", "c"]), "scales"),
        (K.Laplacian(scales=[[1.0, 2.0, 3.0]]), "scales"),
        (K.Polynomial(degree=2.5), "degree"),
        (K.Polynomial(degree=-1), "degree"),
        (K.Polynomial(gamma=0.0), "gamma"),
        (K.Matern(nu=0.7), "nu"),
        (K.Matern(length_scale=0.0), "length_scale"),
        (K.RationalQuadratic(alpha=-1.0), "alpha"),
        (K.Periodic(period=0.0), "period"),
        (K.Chi2(gamma=-0.5), "gamma"),
        (K.Constant("a"), "value"),
        (K.RBF() ** -1, "exponent"),
        (K.Linear() ** 0.5, "exponent"),
    ],
    ids=repr,
)
def test_a_wrong_parameter_is_named(kernel, match):
    with pytest.raises((ValueError, TypeError), match=match):
        kernel(np.abs(np.random.default_rng(0).normal(size=(4, 3))))


@pytest.mark.parametrize("scales", [["a"], [0.0], [-1.0], [np.nan], [np.inf], [[1.0]], []])
def test_wrong_scales_are_not_called_valid(scales):
    for kernel in (K.RBF(scales=scales), K.Periodic(scales=scales), 2 * K.RBF(scales=scales)):
        with pytest.raises(ValueError, match="scales="):
            _ = kernel.validity


def test_angles_between_points_below_the_normal_numbers():
    X = (1e-40 * np.random.default_rng(0).normal(size=(6, 3))).astype(np.float32)
    np.testing.assert_allclose(K.Cosine()(X), K.Cosine()(X.astype(float)), atol=1e-6)


def test_scales_beyond_float32():
    X = np.array([[0.0], [1e-50], [1.0]])
    single = X.astype(np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            K.RBF(scales=[1e-50])(single), K.RBF(scales=[1e-50])(single.astype(float))
        )
    assert K.RBF(scales=[0.5])(single).dtype == np.float32


def test_single_points_many_periods_away():
    X = (1e5 * np.random.default_rng(0).random((50, 2))).astype(np.float32)
    kernel, wide = K.Periodic(0.7), X.astype(float)
    np.testing.assert_allclose(kernel(X), kernel(wide), atol=1e-6)
    found, expected = (kernel.gradient(A)["period"] for A in (X, wide))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert kernel(X).dtype == np.float32


def test_gradients_take_sparse_points():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 3))
    X[X < 0] = 0
    for kernel in (K.Periodic(), K.Periodic(scales=[1.0, 2.0, 3.0]), K.RBF(scales=[1.0, 2.0, 3.0])):
        dense, sparse = kernel.gradient(X), kernel.gradient(sp.csr_array(X))
        for path in dense:
            close(sparse[path], dense[path])


@pytest.mark.parametrize("kernel", [K.RBF(), K.Exponential(), K.RationalQuadratic()], ids=repr)
@pytest.mark.parametrize("d", [2, 6])
def test_points_at_the_ends_of_the_range(kernel, d):
    X = np.array([[1.0], [-1.0], [0.0], [1.0]]) * np.full((4, d), 1e200)
    with np.errstate(all="ignore"):
        expected = np.eye(4)
        expected[0, 3] = expected[3, 0] = 1
        np.testing.assert_array_equal(
            kernel(X)[np.ix_([0, 2, 3], [0, 2, 3])], expected[np.ix_([0, 2, 3], [0, 2, 3])]
        )


@pytest.mark.parametrize("kernel", [K.RBF(), K.Linear(), K.Min()], ids=repr)
@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ([[1.0, np.nan]], ValueError, "missing value .* row 0, column 1"),
        ([[1.0, np.inf]], ValueError, "infinite value at row 0, column 1"),
        ([["a", "b"]], ValueError, "has the text"),
        ([1.0, 2.0], ValueError, "[12]D"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        ("abc", TypeError, "X is a single str"),
    ],
    ids=["nan", "inf", "strings", "one-dimensional", "empty", "text"],
)
def test_wrong_points_are_named(kernel, X, error, match):
    with pytest.raises(error, match=match):
        kernel(X)


def test_wrong_width_is_named():
    with pytest.raises(ValueError, match="X has 2 features but Y has 3"):
        K.RBF()(np.ones((2, 2)), np.ones((2, 3)))


def test_negative_values_where_none_belong():
    for kernel in (K.Min(), K.Chi2(), K.Min() + K.RBF()):
        with pytest.raises(ValueError, match="negative value"):
            kernel([[1.0, -1.0]])


def test_missing_value_names_the_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.0, np.nan], "height": [1.0, 2.0]})
    with pytest.raises(ValueError, match="column 'age'"):
        K.RBF()(frame)


def test_the_front_door():
    assert mercer.gram(K.Linear(), [[1.0], [2.0]]).shape == (2, 2)
    assert mercer.check_kernel(K.RBF()).valid is True


def test_high_powers_keep_the_sign():
    X = np.random.default_rng(13).normal(size=(6, 3))
    close(K.Polynomial(65, coef0=0.0)(X), (X @ X.T) ** 65)


def test_a_sum_of_very_many_kernels():
    X = np.random.default_rng(14).normal(size=(5, 150))
    kernel = sum(K.RBF(0.1).on([j]) for j in range(150))
    expected = sum(K.RBF(0.1)(X[:, [j]]) for j in range(150))
    close(kernel(X), expected)
