"""Novelty counts training points that are closer to another than a row is to any."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import kernels as K
from mercer.reports import novelty


@pytest.mark.parametrize("kernel", [K.RBF(0.3), K.Linear() + 0.5, K.Laplacian(0.2)])
def test_novelty_is_the_count(kernel):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(40, 2)), 2 * rng.normal(size=(15, 2))
    model = mercer.KernelRidge(kernel=kernel).fit(X, X[:, 0])

    def similarity(a, b):
        return (kernel([a], [b]) / np.sqrt(kernel.diag([a]) * kernel.diag([b]))).item()

    nearest = [max(similarity(x, z) for z in np.delete(X, i, axis=0)) for i, x in enumerate(X)]
    expected = [np.mean([s > max(similarity(x, z) for z in X) for s in nearest]) for x in new]
    assert novelty.novelty(model, new) == pytest.approx(np.array(expected), abs=0.026)
    assert novelty.novelty(model, X).max() == 0
    assert novelty.novelty(model, np.array([[1e3, -1e3]]))[0] in (1.0, pytest.approx(1, abs=1))


def test_novelty_of_strings_and_of_models_without_points():
    texts = ["spam egg", "spam ham", "egg ham", "ham egg spam"] * 3
    model = mercer.SVC(kernel=K.Spectrum(2)).fit(texts, [0, 1, 0, 1] * 3)
    found = novelty.novelty(model, ["spam ham", "xyzxyz"])
    assert found[0] < found[1] == 1.0
    assert novelty.novelty(mercer.KernelPCA(kernel="precomputed").fit(np.eye(4)), np.eye(4)) is None


def test_fingerprints_do_not_depend_on_types():
    a = pd.DataFrame({"x": [1, 2, 3], "w": ["a", None, "c"]})
    b = pd.DataFrame({"x": [1.0, 2.0, 3.5], "w": pd.Series(["a", np.nan, "c"], dtype="category")})
    stored = novelty.stored_fingerprints(a)
    assert novelty.were_trained_on(stored, a).all()
    assert novelty.were_trained_on(stored, b).tolist() == [True, True, False]
    assert novelty.were_trained_on(stored, a[::-1]).all()
    assert novelty.were_trained_on("*", a) is None
    assert novelty.were_trained_on(None, a) is None
    array = np.array([[0.0, 1.0], [2.0, 3.0]])
    stored = novelty.stored_fingerprints(array)
    assert novelty.were_trained_on(stored, np.array([[-0.0, 1.0], [2.0, 4.0]])).tolist() == [1, 0]
