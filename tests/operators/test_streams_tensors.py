"""Rows that come to a device some at a time, and what is made of them there."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import gram
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.operators import streamed
from tensor_devices import DEVICE, tensor, torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3)).astype(np.float32)
y = RNG.normal(size=(50, 2))
SLICES = [slice(0, 16), slice(16, 32), slice(32, 50)]
POSITIONS = [np.array([3, 5, 8]), np.array([9]), np.array([20, 30, 40, 49])]


@pytest.mark.parametrize("parts", [SLICES, POSITIONS, []], ids=["slices", "positions", "none"])
@pytest.mark.parametrize(
    "kind", [np.asarray, torch.as_tensor, tensor], ids=["array", "host", "there"]
)
def test_rows_arrive_in_order(kind, parts):
    found = list(streamed((kind(X), y, None), parts, tensor(X).device))
    assert len(found) == len(parts)
    for rows, (points, targets, nothing) in zip(parts, found, strict=True):
        assert nothing is None
        assert points.device.type == targets.device.type == DEVICE.type
        assert points.dtype == torch.float32
        np.testing.assert_array_equal(as_numpy(points), X[rows])
        np.testing.assert_array_equal(as_numpy(targets), y[rows])


def test_rows_that_may_not_be_written(tmp_path):
    np.save(tmp_path / "points.npy", X)
    points = np.load(tmp_path / "points.npy", mmap_mode="r")
    found = [as_numpy(some) for (some,) in streamed((points,), SLICES, tensor(X).device)]
    np.testing.assert_array_equal(np.vstack(found), X)


def test_a_pass_that_is_left_early():
    stream = streamed((X,), SLICES, tensor(X).device)
    (first,) = next(stream)
    stream.close()
    np.testing.assert_array_equal(as_numpy(first), X[:16])


@pytest.mark.parametrize("weight", [None, RNG.uniform(size=50)], ids=["equal", "weighted"])
@pytest.mark.parametrize("targets", [None, y], ids=["none", "targets"])
@pytest.mark.parametrize("store", [False, True])
def test_normal_products(store, targets, weight):
    kernel, V = K.RBF(0.3), RNG.normal(size=(7, 2))
    points = X.astype(np.float64)
    expected = gram(kernel, points, points[:7]).normal_product(V, targets, weight)
    operator = gram(kernel, tensor(points), tensor(points[:7]), store=store)
    for found in (
        operator.normal_product(V, targets, weight),
        operator.normal_product(
            tensor(V), None if targets is None else tensor(targets),
            None if weight is None else tensor(weight),
        ),
    ):  # fmt: skip
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(as_numpy(ours), theirs, atol=1e-12)
