"""What comes over the wire is summed as it would be where it was made."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mercer
from mercer.solvers.nystrom.sums import FeatureSums, ProductSums

pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
pytest.importorskip("distributed")

from distributed.protocol.numpy import serialize_numpy_ndarray

from mercer.distributed import points, spans, survey, workers
from mercer.distributed.keeping import kept
from mercer.estimators.centres import Centres

RNG = np.random.default_rng(0)
# So many rows that NumPy takes several goes at the sum of an array that is not aligned.
N = 20_000
X = RNG.normal(size=(N, 12))
Y = np.sin(X).sum(axis=1)
S = RNG.lognormal(sigma=2.0, size=N)


def displaced(array):
    """The same numbers, beginning at no multiple of their size."""
    order = "F" if array.flags.f_contiguous else "C"
    data = np.frombuffer(b"???" + array.tobytes(order="A"), dtype=np.uint8)[3:]
    there = np.ndarray(array.shape, array.dtype, buffer=data, order=order)
    assert not there.flags.aligned
    assert_array_equal(there, array)
    return there


def same(first, second):
    for name, value in vars(first).items():
        assert_array_equal(getattr(second, name), value, err_msg=name)


@pytest.mark.parametrize("shape", [(N,), (N, 3)])
def test_arrays_that_arrive_are_aligned(shape):
    array = RNG.normal(size=shape)
    header, (frame,) = serialize_numpy_ndarray(array)
    message = bytearray(b"???") + bytes(frame)
    found = workers._aligned(header, [memoryview(message)[3:]])
    assert found.flags.aligned
    assert found.flags.writeable
    assert_array_equal(found, array)
    assert_array_equal(found.sum(axis=0), array.sum(axis=0))


def test_sums_do_not_depend_on_how_a_block_lies_in_memory():
    estimator = mercer.KernelRidge(kernel="rbf", gamma=0.05, n_centers=30, random_state=0)
    estimator.fit(X[:100], Y[:100])
    preparation = survey.Preparation(estimator, {"y_numeric": True}, True)
    blocks = [
        (X, Y, S),
        tuple(map(displaced, (X, Y, S))),
        (displaced(np.asfortranarray(X)), Y, displaced(S)),
    ]
    centres, r = Centres(estimator, X), 30
    V, u = RNG.normal(size=(r, 1)), RNG.normal(size=N)
    with kept(centres, "centres") as there:
        task = spans.Task(there, preparation, True)

        def sums(each, vector):
            yield survey.Survey((preparation, False), each, 0)
            yield survey.Weighed(preparation, each)
            yield survey.Diagonal((preparation, centres.kernel), each)
            for kind in (FeatureSums(1), ProductSums(V)):
                yield points.Pass(kind, there, preparation, True)(each)
            yield spans._gathered(task, each, vector)
            yield spans._curved(task, each, vector**2)

        expected = list(sums(blocks[0], u))
        for block in blocks[1:]:
            for found, wanted in zip(sums(block, displaced(u)), expected, strict=True):
                same(found, wanted)
