"""A density whose points are on a cluster is the one that has them all here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mercer

pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

from mercer.distributed import log_density  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)) * [1.0, 3.0]
W = RNG.integers(0, 3, size=200).astype(float)
W[:40] = 0.0  # all of the first block
Q = RNG.normal(size=(30, 2)) * 2
POINTS = da.from_array(X, chunks=(40, 2))


@pytest.mark.parametrize("kernel", ["gaussian", "tophat", "epanechnikov", "hypercube"])
@pytest.mark.parametrize("bandwidth", [0.8, [0.5, 2.0], [[0.5, 0.1], [0.1, 2.0]], "scott"], ids=str)
def test_all_points_have_a_part_in_it(kernel, bandwidth):
    if kernel == "hypercube" and np.ndim(bandwidth) == 2:
        pytest.skip("a cube has sides along the features")
    model = mercer.KernelDensity(kernel=kernel, bandwidth=bandwidth).fit(X[:50])
    here = mercer.KernelDensity(kernel=kernel, bandwidth=model.bandwidth_)
    expected = here.fit(X).score_samples(Q)
    assert np.isfinite(expected).any()
    assert_allclose(log_density(model, POINTS, Q), expected, rtol=1e-10)
    weighted = here.fit(X, sample_weight=W).score_samples(Q)
    found = log_density(model, POINTS, Q, da.from_array(W, chunks=70))
    assert_allclose(found, weighted, rtol=1e-10)


def test_tables_with_empty_blocks_have_densities():
    here = pd.DataFrame(X, columns=["u", "v"])
    table = dd.from_pandas(here.assign(row=np.arange(200)), npartitions=4)
    some = table[table["row"] >= 90][["u", "v"]]
    model = mercer.KernelDensity(bandwidth=0.7).fit(here)
    queries = pd.DataFrame(Q, columns=["u", "v"])
    expected = mercer.KernelDensity(bandwidth=0.7).fit(X[90:]).score_samples(Q)
    assert_allclose(log_density(model, some, queries), expected, rtol=1e-10)


def test_errors_say_what_to_do():
    model = mercer.KernelDensity(bandwidth=0.7).fit(X)
    with pytest.raises(ValueError, match="no rows of any weight"):
        log_density(model, POINTS, Q, 0.0 * POINTS[:, 0])
    hole = X.copy()
    hole[90, 1] = np.nan
    missing = r"block 2 \(from row 80 on\): X has a missing value \(NaN\) at row 10, column 1"
    with pytest.raises(ValueError, match=missing):
        log_density(model, da.from_array(hole, chunks=(40, 2)), Q)
    with pytest.raises(ValueError, match="3 features"):
        log_density(model, POINTS, np.zeros((1, 3)))
    with pytest.raises(TypeError, match="log_density"):
        mercer.KernelDensity().fit(POINTS)
    adaptive = mercer.KernelDensity(bandwidth=0.7, adaptive=0.5).fit(X)
    with pytest.raises(ValueError, match="adaptive=0"):
        log_density(adaptive, POINTS, Q)
