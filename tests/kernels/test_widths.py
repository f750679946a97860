"""Widths by name are settled on the training points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import kernels as K

X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 5.0, 200.0]
Y = X[:, 2] > 0


def median(points, metric="euclidean"):
    between = cdist(points, points, metric)[np.triu_indices(len(points), 1)]
    return np.median(between[between > 0])


def test_medians_and_scales():
    m = median(X)
    assert K.RBF("median").settled(X).gamma == pytest.approx(1 / (2 * m**2))
    assert K.Exponential("median").settled(X).gamma == pytest.approx(1 / m)
    assert K.Laplacian("median").settled(X).gamma == pytest.approx(1 / median(X, "cityblock"))
    assert K.Matern(1.5, "median").settled(X).length_scale == pytest.approx(m)
    variance = X.var()
    assert K.RBF("scale").settled(X).gamma == pytest.approx(1 / (3 * variance))
    assert K.Exponential("scale").settled(X).gamma == pytest.approx(1 / np.sqrt(3 * variance))
    assert K.Laplacian("scale").settled(X).gamma == pytest.approx(1 / (3 * np.sqrt(variance)))
    assert K.RationalQuadratic(1.0, "scale").settled(X).length_scale == pytest.approx(
        np.sqrt(3 * variance)
    )
    assert K.RBF("median").settled(np.ones((5, 2))).gamma == 0.5


def test_composites_see_their_own_points():
    kernel = 2 * K.RBF("median").on([0, 1]) + K.Laplacian("median", scales=[1, 5, 200]).normalize()
    found = kernel.settled(X)
    assert found.left.right.kernel.gamma == pytest.approx(1 / (2 * median(X[:, :2]) ** 2))
    expected = 1 / median(X / [1, 5, 200], "cityblock")
    assert found.right.kernel.gamma == pytest.approx(expected)
    assert found(X[:3]).shape == (3, 3)
    composed = K.RBF("median").compose(np.abs).settled(X)
    assert composed.kernel.gamma == pytest.approx(1 / (2 * median(np.abs(X)) ** 2))
    assert kernel.left.right.kernel.gamma == "median"
    plain = K.RBF(2.0)
    assert plain.settled(X) is plain


def test_estimators_settle_at_fit():
    named = mercer.SVC(gamma="scale").fit(X, Y)
    ours = mercer.SVC(kernel=K.RBF("scale")).fit(X, Y)
    assert ours.kernel.gamma == "scale"
    assert ours.kernel_.gamma == pytest.approx(named.kernel_.gamma)
    np.testing.assert_allclose(ours.decision_function(X), named.decision_function(X), rtol=1e-6)
    search = GridSearchCV(mercer.KernelRidge(kernel=K.RBF()), {"kernel__gamma": ["median", 1.0]})
    assert search.fit(X, X[:, 2]).best_params_ == {"kernel__gamma": "median"}


def test_kernels_with_rules_are_texts_proofs_and_errors():
    kernel = K.RBF("median") + K.Matern(0.5, length_scale="scale")
    assert repr(K.parse(repr(kernel))) == repr(kernel)
    assert repr(clone(kernel)) == repr(kernel)
    assert kernel.validity.status == "valid"
    assert "RBF" in K.RBF("median")._repr_html_()
    with pytest.raises(ValueError, match=r"call kernel.settled\(X\)"):
        K.RBF("median")(X)
    with pytest.raises(ValueError, match="gamma"):
        K.RBF("wide")(X)
