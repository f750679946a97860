"""Expressions over tensors: torch's operations and Triton's kernels against NumPy, in all forms."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.core.programs import Op
from mercer.core.triton.launches import Launch
from mercer.core.triton.source import gram_source, log_sum_exp_source, product_source
from mercer.core.triton.tiles import TritonTiles, compiled
from mercer.expressions import TensorPairMatrix, over, statistic
from naive_kernels import naive_cases, naive_gram, points
from tensor_devices import DEVICE, WAYS, tensor, torch, use

VECTORS = [k for k in naive_cases() if k.domain.is_vectors and type(k).__name__ != "FromFunction"]
VECTORS = [k for k in VECTORS if type(k).__name__ != "FromFeatures"]
COMPOSITES = [
    K.RBF(0.5) * K.Polynomial(2) + K.Linear(),
    K.Laplacian(0.2) * K.RBF(0.1) + 2.0,
    K.exp(K.Linear()).normalize(),
    (K.RBF(1.0) + K.Polynomial(2)).normalize(),
    2.0 * K.RBF(0.5, scales=[1.0, 2.0, 3.0]) ** 0.5 + K.Sigmoid(0.1, 0.2) ** 2,
]
EPS = {np.float64: 2.0**-52, np.float32: 2.0**-23}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    use(request.param, monkeypatch)
    return request.param


def within(found, expected, dtype, times=16.0):
    """As near as rounding of the largest entry allows."""
    np.testing.assert_allclose(
        as_numpy(found), expected, rtol=0, atol=times * EPS[dtype] * np.abs(expected).max()
    )


@pytest.mark.parametrize("kernel", VECTORS, ids=repr)
def test_every_vector_kernel_is_its_formula(kernel, way):
    rng = np.random.default_rng(0)
    X, Y = points(kernel, 5, rng), points(kernel, 7, rng)
    X[2] = Y[3]
    pairs = over(kernel.expression(), tensor(X), tensor(Y))
    K_XY = naive_gram(kernel, X, Y)
    within(pairs.gram(), K_XY, np.float64, times=64)
    V, U = rng.normal(size=(7, 2)), rng.normal(size=(5, 1))
    left, right = pairs.products(tensor(V), tensor(U))
    within(left, K_XY @ V, np.float64, times=256)
    within(right, K_XY.T @ U, np.float64, times=256)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", COMPOSITES, ids=repr)
def test_composites_agree_with_numpy(kernel, dtype, way):
    rng = np.random.default_rng(1)
    X, Y = (rng.normal(size=(n, 3)).astype(dtype) for n in (20, 30))
    K_XY, K_XX = kernel(X.astype(float), Y.astype(float)), kernel(X.astype(float))
    pairs = over(kernel.expression(), tensor(X), tensor(Y))
    assert pairs.gram().dtype == getattr(torch, np.dtype(dtype).name)
    within(pairs.gram(), K_XY, dtype, times=32)
    V = rng.normal(size=(30, 6)).astype(dtype)
    found, _ = pairs.products(tensor(V), tensor(np.zeros((20, 0))))
    within(found, K_XY @ V, dtype, times=64)
    expected = np.log(np.exp(K_XY).sum(axis=1))
    within(pairs.log_sum_exp(), expected, dtype, times=64)
    own = over(kernel.expression(), tensor(X))
    square = own.gram()
    assert bool((square == square.T).all())
    within(square, K_XX, dtype, times=32)
    within(own.diagonal(), np.diagonal(K_XX), dtype, times=32)
    within(own.block([3, 1], slice(2, 9)), K_XX[[3, 1], 2:9], dtype, times=64)
    within(own.combination([4, 0], tensor(V[:2])), K_XX[:, [4, 0]] @ V[:2], dtype, times=64)
    within(own.part([4, 0, 5]).gram(), K_XX[np.ix_([4, 0, 5], [4, 0, 5])], dtype, times=64)


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(0.3, scales=[1.0, 2.0, 3.0]),
        K.Laplacian(0.3, scales=[1.0, 2.0, 3.0]),
        K.Polynomial(2, 0.5) * K.RBF(0.3),
        K.Cosine() * K.Periodic(2.0, 1.0),
    ],
    ids=repr,
)
def test_derivatives_agree_with_numpy(kernel, way):
    X = np.random.default_rng(2).normal(size=(9, 3))
    pairs = over(kernel.expression(), tensor(X))
    for path, expected in kernel.gradient(X).items():
        for index in range(expected.shape[2]) if expected.ndim == 3 else [None]:
            wanted = expected if index is None else expected[..., index]
            within(pairs.derivative(path, index).gram(), wanted, np.float64, times=64)


@pytest.mark.parametrize("precision", ["fp16x3", "tf32x3", "tf32"])
@pytest.mark.parametrize("d", [3, 10, 100])
def test_float32_is_as_accurate_as_it_says(d, precision, monkeypatch):
    use("triton", monkeypatch)
    rng = np.random.default_rng(d)
    # Far from the origin, and two points that coincide.
    X, Y = (5 + rng.normal(size=(n, d)).astype(np.float32) for n in (40, 70))
    X[0] = Y[0]
    kernel, V = K.RBF(1 / d), rng.normal(size=(70, 1)).astype(np.float32)
    K_XY = kernel(X.astype(float), Y.astype(float))
    pairs = TensorPairMatrix(kernel.expression(), tensor(X), tensor(Y), precision)
    assert pairs.tiles().form.leaves[0].folded == (precision == "fp16x3" and d < 100)
    found = as_numpy(pairs.products(tensor(V), tensor(V[:40, :0]))[0])
    error = np.max(np.abs(found - K_XY @ V) / (K_XY @ np.abs(V)))
    assert error < (2e-3 if precision == "tf32" else 1e-6)


@pytest.mark.parametrize("d", [3, 20])
def test_points_that_nearly_coincide_keep_their_distance(d, way):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, d))
    Y = X * (1 + 1e-5)
    for kernel in (K.Exponential(1.0), K.RBF(1e4)):
        for dtype in (np.float32, np.float64):
            A, B = X.astype(dtype), Y.astype(dtype)
            expected = kernel(A.astype(float), B.astype(float))
            within(over(kernel.expression(), tensor(A), tensor(B)).gram(), expected, dtype, 64)


def test_points_of_very_different_sizes(way):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)).astype(np.float32)
    X[0] *= 1e6
    within(over(K.RBF(0.2).expression(), tensor(X)).gram(), K.RBF(0.2)(X.astype(float)), np.float32)
    for size in (1e-12, 1e12):
        scaled = K.RBF(0.2 / size**2)
        expected = scaled(size * X[1:].astype(float))
        within(
            over(scaled.expression(), tensor(np.float32(size) * X[1:])).gram(),
            expected,
            np.float32,
            times=64,
        )


def test_a_distance_that_rounding_made_negative_is_made_zero_where_that_is_felt(monkeypatch):
    use("triton", monkeypatch)
    X = tensor(np.random.default_rng(2).normal(size=(20, 20)).astype(np.float32))
    for kernel, felt in (
        (K.RBF(0.01), False),
        (K.RBF(0.01) + K.RationalQuadratic(1.0, 10.0), False),
        (K.RationalQuadratic(1.5, 10.0), False),
        (K.Exponential(1e-4), True),
        (K.RBF(0.01) + K.Exponential(1e-4), True),
    ):
        form = over(kernel.expression(), X).tiles().form
        assert form.feels_its_sign(0) is felt


def test_a_logarithm_of_what_may_be_below_the_normal_numbers_is_told_from_others(monkeypatch):
    use("triton", monkeypatch)
    X = tensor(np.random.default_rng(2).normal(size=(20, 20)).astype(np.float32))
    for expression, above in (
        (K.RationalQuadratic(1.5, 10.0).expression(), True),
        (K.Tanimoto().expression() ** 1.5, False),
        ((0.5 + 2.0 * statistic("dot")) ** 1.5, False),
        (statistic("sqdist") ** 0.3, False),
    ):
        form = over(expression, X).tiles().form
        power = next(k for k, o in enumerate(form.operations) if o.op == Op.REAL_POWER)
        assert form.above_zero(power) is above


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_small_points_beside_large_ones_keep_their_digits(size, share, way):
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(n, 12)).astype(np.float32) for n in (20, 30))
    X[: int(share * 20)] *= np.float32(size)
    for kernel in (
        K.Linear(),
        K.Polynomial(2, 1.0, 0.0).normalize(),
        K.RBF(0.05 / size**2),  # as wide as the small ones are far apart
    ):
        expected = kernel(X.astype(float), Y.astype(float)), kernel(X.astype(float))
        pairs = (
            over(kernel.expression(), tensor(X), tensor(Y)),
            over(kernel.expression(), tensor(X)),
        )
        for found, wanted in zip(pairs, expected, strict=True):
            rows = np.abs(wanted).max(axis=1, keepdims=True) + 1e-300
            np.testing.assert_allclose(as_numpy(found.gram()) / rows, wanted / rows, atol=4e-6)


@pytest.mark.parametrize("size", [1e-42, 1e-25, 1e25])
def test_squares_that_float32_has_no_room_for(size, way):
    rng = np.random.default_rng(0)
    X = (size * rng.normal(size=(20, 12))).astype(np.float32)
    for kernel in (
        K.RBF(0.1 / size**2 if size > 1e-40 else 1.0),
        K.Linear(),
        K.Laplacian(1 / size),
    ):
        pairs = over(kernel.expression(), tensor(X))
        assert pairs.dtype == np.float64
        within(pairs.gram(), kernel(X), np.float64, times=256)
    assert over(K.RBF().expression(), tensor(np.zeros((2, 3), np.float32))).dtype == np.float32


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_squares_that_float64_has_no_room_for(way):
    X = 1e160 * np.random.default_rng(0).normal(size=(9, 12))
    np.testing.assert_array_equal(as_numpy(over(K.RBF().expression(), tensor(X)).gram()), np.eye(9))
    K_XY = over(K.RBF().expression(), tensor(X), tensor(X[:3])).gram()
    np.testing.assert_array_equal(as_numpy(K_XY), np.eye(9)[:, :3])


def test_rows_of_features_may_begin_beyond_32_bits():
    X = torch.zeros((4, 6))
    for kernel in (K.Laplacian(), K.RBF(1e6, scales=np.ones(6)), K.Min() * K.Linear()):
        form = TritonTiles(*_parts(kernel, X)).form
        for text in (product_source(form, 3), gram_source(form, True), log_sum_exp_source(form)):
            assert not re.search(r"\b\d+ \* [nm]\b|\b[nm] \* \d", text.text)


def _parts(kernel, X):
    """What tiles over X and itself are made of."""
    pairs = TensorPairMatrix(kernel.expression(), X)
    lowering = pairs.lowering
    return (
        lowering.program,
        [pairs._leaf(node) for node in lowering.leaves],
        [pairs.side(t, 0) for t in lowering.row_terms],
        [pairs.side(t, 1) for t in lowering.column_terms],
        len(X),
        len(X),
        X.device,
        X.dtype,
    )


def test_log_sum_exp_of_nothing_and_of_next_to_nothing(way):
    X = np.array([[0.0], [1e17]])
    pairs = over(-0.5 * statistic("sqdist"), tensor(X), tensor(X[:1]))
    np.testing.assert_allclose(as_numpy(pairs.log_sum_exp()), [0.0, -5e33], rtol=1e-12)
    assert as_numpy(pairs.log_sum_exp(np.array([-np.inf]))).tolist() == [-np.inf, -np.inf]


def test_the_same_formula_over_other_points(way):
    X = np.random.default_rng(0).normal(size=(9, 3))
    pairs = over(K.RBF(0.3).expression(), tensor(X))
    pairs.gram()
    within(pairs.at(tensor(X[:4]), tensor(X[4:])).gram(), K.RBF(0.3)(X[:4], X[4:]), np.float64)


def test_positions_that_are_not_there(way):
    X = np.random.default_rng(0).normal(size=(5, 3))
    pairs = over(K.RBF().expression(), tensor(X))
    for wrong in ([0, 5], np.array([5]), torch.tensor([5]), tensor([1, 5])):
        for ask in (lambda p: pairs.block(p, slice(None)), lambda p: pairs.block([0], p)):
            with pytest.raises(IndexError, match="index 5 is out of range for 5 points"):
                ask(wrong)
    with pytest.raises(IndexError, match="index -6 is out of range for 5 points"):
        pairs.block(tensor([-6]), slice(None))
    for wrong in (np.ones(4, dtype=bool), tensor(np.ones(4, dtype=bool))):
        with pytest.raises(IndexError, match="a mask of 4 points; expected one of 5"):
            pairs.block(wrong, slice(None))
    assert tuple(pairs.block([], slice(None)).shape) == (0, 5)
    assert as_numpy(pairs.combination([], np.zeros((0, 2)))).tolist() == [[0.0, 0.0]] * 5
    within(pairs.block([-1], np.arange(5) > 2), K.RBF()(X)[[-1], 3:], np.float64)


def test_log_sum_exp_far_away_and_weighted(way):
    X, Y = np.array([[0.0], [100.0]]), np.array([[0.0], [1.0], [3.0]])
    log_weight = np.array([0.0, -np.inf, -2.0])
    values = -0.5 * (X - Y.T) ** 2 + log_weight
    top = values.max(axis=1)
    expected = top + np.log(np.exp(values - top[:, None]).sum(axis=1))
    pairs = over(-0.5 * statistic("sqdist"), tensor(X), tensor(Y))
    np.testing.assert_allclose(as_numpy(pairs.log_sum_exp(log_weight)), expected, rtol=1e-13)
    with pytest.raises(ValueError, match=r"shape \(2,\); expected \(3,\)"):
        pairs.log_sum_exp(log_weight[:2])


def test_a_new_hyperparameter_or_number_of_points_is_the_same_kernel():
    def text(kernel, n, columns=1):
        tiles = TritonTiles(*_parts(kernel, torch.randn((n, 4))))
        return product_source(tiles.form, columns).text

    assert text(K.RBF(0.1), 10) == text(K.RBF(0.37), 345)
    assert text(K.Matern(1.5, 4.0), 10) == text(K.Matern(1.5, 3.0), 11)
    assert text(0.3 * K.RBF(0.1) + K.Linear(), 10) == text(0.7 * K.RBF(0.2) + K.Linear(), 10)
    assert text(K.RationalQuadratic(1.7), 10) == text(K.RationalQuadratic(0.9), 10)
    assert text(K.RBF(0.1), 10) != text(K.Laplacian(0.1), 10)
    assert text(K.RationalQuadratic(1.5), 10) != text(K.RationalQuadratic(2.5), 10)
    assert text(K.Polynomial(2), 10) != text(K.Polynomial(3), 10)


def test_what_is_refused(way):
    X = tensor(np.zeros((3, 2)))
    with pytest.raises(TypeError, match="Y is a ndarray; move both"):
        K.RBF()(X, np.zeros((3, 2)))
    with pytest.raises(TypeError, match="X is a ndarray and Y is a tensor"):
        K.RBF()(np.zeros((3, 2)), X)
    with pytest.raises(ValueError, match="Y has 1; both need the same"):
        K.RBF()(X, X[:, :1])
    with pytest.raises(ValueError, match=r"NaN. at row 0, column 1"):
        K.RBF()(tensor(np.array([[1.0, np.nan]])))
    with pytest.raises(ValueError, match="negative value"):
        K.Min()(tensor(np.array([[-1.0, 2.0]])))
    with pytest.raises(TypeError, match="sparse"):
        K.RBF()(X.to_sparse())
    with pytest.raises(ValueError, match="shape"):
        K.RBF()(X[0])
    with pytest.raises(ValueError, match="precision='fp8'"):
        TensorPairMatrix(K.RBF().expression(), X, precision="fp8")
    with pytest.raises(ValueError, match="expected a tensor, one number per point"):
        K.RBF().rescale(lambda P: as_numpy(P)[:, 0])(X)


def test_whole_numbers_become_double_and_results_stay_on_the_device(way):
    A = np.arange(6).reshape(3, 2)
    found = K.Linear()(tensor(A))
    assert found.dtype == torch.float64
    assert found.device.type == DEVICE.type
    np.testing.assert_array_equal(
        as_numpy(found), np.arange(6).reshape(3, 2) @ [[0, 2, 4], [1, 3, 5]]
    )
    rescaled = K.RBF().rescale(lambda P: 1 + P[:, 0] ** 2)
    X = np.random.default_rng(0).normal(size=(4, 2))
    within(rescaled(tensor(X)), rescaled(X), np.float64)


class Cramped:
    """A kernel on a device whose shared memory holds tiles of so many values only."""

    def __init__(self, kernel, largest, tried):
        self.kernel, self.largest, self.tried = kernel, largest, tried

    def __getitem__(self, grid):
        errors = pytest.importorskip("triton.runtime.errors")

        def launch(*arguments, BM, BN, **options):
            self.tried.append((BM, BN))
            values = BM * BN
            if values > self.largest:
                raise errors.OutOfResources(values, self.largest, "shared memory")
            self.kernel[grid](*arguments, BM=BM, BN=BN, **options)

        return launch


def test_a_layout_that_does_not_fit_gives_way_to_a_smaller_one(monkeypatch):
    use("triton", monkeypatch)
    tried, largest = [], 512
    monkeypatch.setattr(
        "mercer.core.triton.tiles.compiled",
        lambda text: Cramped(compiled(text), largest, tried),
    )
    monkeypatch.setattr("mercer.core.triton.tiles.ROOM", {})
    rng, kernel = np.random.default_rng(0), K.RBF(0.5)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(30, 3))
    pairs, K_XY = over(kernel.expression(), tensor(X), tensor(Y)), kernel(X, Y)
    V = rng.normal(size=(30, 6))
    none = tensor(np.zeros((20, 0)))
    for asked, expected in (
        (lambda: pairs.products(tensor(V[:, :1]), none)[0], K_XY @ V[:, :1]),
        (lambda: pairs.products(tensor(V), none)[0], K_XY @ V),
        (pairs.gram, K_XY),
        (pairs.log_sum_exp, np.log(np.exp(K_XY).sum(axis=1))),
    ):
        tried.clear()
        within(asked(), expected, np.float64, times=64)
        assert tried[0] > tried[-1]
        assert all(rows * columns > largest for rows, columns in tried[:-1])
        found = tried[-1]
        tried.clear()
        asked()
        assert tried == [found]  # which is remembered
    own = over(kernel.expression(), tensor(X))
    within(own.gram(), kernel(X), np.float64, times=64)
    largest = 16
    monkeypatch.setattr("mercer.core.triton.tiles.ROOM", {})
    with pytest.raises(Exception, match="out of resource"):
        own.gram()


def test_layouts_shrink_to_the_least_there_is():
    launch, sizes = Launch(64, 64, 4), []
    while launch is not None:
        sizes.append((launch.rows, launch.columns, launch.stages))
        launch = launch.smaller()
    assert sizes == [
        (64, 64, 3), (64, 32, 3), (64, 16, 3), (32, 16, 3), (16, 16, 3), (16, 16, 1)
    ]  # fmt: skip


def test_a_matrix_beyond_memory_is_refused_by_its_size(monkeypatch):
    use("torch", monkeypatch)
    X = tensor(np.zeros((60, 2)))
    monkeypatch.setattr("mercer.arrays.validation.WORTH_ASKING", 0)
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 8 * 60 * 59
    )
    with pytest.raises(MemoryError, match=rf"60 x 60 in float64 needs 0 MiB, and {DEVICE.type}"):
        K.RBF()(X)
    pairs = over(K.RBF().expression(), X)
    with pytest.raises(MemoryError, match="some rows at a time"):
        pairs.block(slice(None), slice(None))
    assert tuple(pairs.block(slice(0, 59), slice(None)).shape) == (59, 60)
    assert tuple(pairs.products(X, X)[0].shape) == (60, 2)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_a_symmetric_matrix_made_in_blocks_has_equal_halves(rows, monkeypatch):
    use("torch", monkeypatch)
    monkeypatch.setattr("mercer.core.torch.tiles.BLOCK_BYTES", 6 * 8 * 30 * rows)
    X = np.random.default_rng(0).normal(size=(30, 6))
    found = over(K.RBF(0.3).expression(), tensor(X)).gram()
    assert bool((found == found.T).all())
    within(found, K.RBF(0.3)(X), np.float64)


def test_some_points_of_tensors_in_double(way):
    X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    pairs = over(K.RBF(0.3).expression(), tensor(X))
    expected = K.RBF(0.3)(X.astype(float))
    within(pairs.double(slice(2, 6), slice(0, 12)).gram(), expected[2:6], np.float64)
    within(pairs.double(slice(2, 6), slice(2, 6)).gram(), expected[2:6, 2:6], np.float64)


def test_a_matrix_wider_than_a_grid_is_made_from_its_transpose(monkeypatch):
    use("triton", monkeypatch)
    monkeypatch.setattr("mercer.core.triton.tiles.MOST_COLUMNS", 8)
    rng, kernel = np.random.default_rng(0), K.RBF(0.3).rescale(lambda P: 1 + P[:, 0] ** 2)
    X, Y = rng.normal(size=(5, 3)), rng.normal(size=(12, 3))
    within(over(kernel.expression(), tensor(X), tensor(Y)).gram(), kernel(X, Y), np.float64)
    own = over(kernel.expression(), tensor(Y))
    within(own.block([3, 1], slice(None)), kernel(Y)[[3, 1]], np.float64)
    within(own.gram(), kernel(Y), np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_diagonal_of_one_number_has_all_its_digits(dtype, way):
    kernel = 0.1 * K.RBF(0.3) + 0.7 * K.Laplacian(0.3)
    pairs = over(kernel.expression(), tensor(np.zeros((3, 2), dtype)))
    assert set(pairs.diagonal().tolist()) == {float(dtype(0.1 + 0.7))}
    assert set(pairs.gram().diagonal().tolist()) == {float(dtype(0.1 + 0.7))}
