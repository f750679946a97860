"""Pre-images and reconstruction errors of kernel PCA."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from mercer import KernelPCA
from mercer import kernels as K
from mercer.estimators.spectral.pre_images import nearest_images

KERNELS = [K.RBF(0.3), K.Matern(2.5, 2.0), K.RationalQuadratic(1.5, 2.0), 2 * K.RBF(0.1) + 0.5]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_fixed_points_are_minima_of_the_distance_in_feature_space(kernel):
    rng = np.random.default_rng(0)
    X, c = rng.normal(size=(30, 3)), rng.random((6, 30))
    start = X[:6]
    found = nearest_images(kernel, X, c, start)

    def nearness(z, row):
        return -float(kernel(z[None], X)[0] @ row)

    for z0, z, row in zip(start, found, c, strict=True):
        assert nearness(z, row) <= nearness(z0, row)
        best = minimize(nearness, z, args=(row,), options={"gtol": 1e-10})
        assert nearness(z, row) <= best.fun + 1e-8 * abs(best.fun)


def test_points_come_back_where_nothing_is_left_out():
    X = np.random.default_rng(0).normal(size=(40, 3))
    pca = KernelPCA(kernel=K.RBF(0.5), fit_inverse_transform=True, pre_image="fixed_point").fit(X)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, atol=1e-4)


def test_noise_is_taken_off_digits():
    X = load_digits().data[:500] / 16
    noisy = X + 0.25 * np.random.default_rng(0).normal(size=X.shape)
    pca = KernelPCA(30, kernel=K.RBF(0.03), fit_inverse_transform=True, alpha=0.01)
    errors = {}
    for rule in ("ridge", "fixed_point"):
        pca.set_params(pre_image=rule).fit(noisy[:400])
        cleaned = pca.inverse_transform(pca.transform(noisy[400:]))
        errors[rule] = np.mean((cleaned - X[400:]) ** 2)
    assert errors["fixed_point"] < errors["ridge"] < np.mean((noisy[400:] - X[400:]) ** 2)


def test_reconstruction_errors_are_those_of_plain_pca():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(50, 4)), rng.normal(size=(9, 4))
    pca, plain = KernelPCA(2).fit(X), PCA(2).fit(X)
    expected = np.sum((new - plain.inverse_transform(plain.transform(new))) ** 2, axis=1)
    np.testing.assert_allclose(pca.reconstruction_error(new), expected, rtol=1e-10)


def test_reconstruction_errors_tell_strangers():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 200)
    ring = np.c_[np.cos(angle), np.sin(angle)] + 0.02 * rng.normal(size=(200, 2))
    pca = KernelPCA(12, kernel=K.RBF(1.0)).fit(ring)
    assert pca.reconstruction_error([[0.0, 0.0]]) > 10 * pca.reconstruction_error(ring).max()


def test_what_has_no_pre_images_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match="Euclidean distance"):
        KernelPCA(kernel=K.Laplacian(), fit_inverse_transform=True, pre_image="fixed_point").fit(X)
    with pytest.raises(ValueError, match="precomputed"):
        KernelPCA(2, kernel="precomputed").fit(X @ X.T).reconstruction_error(X @ X.T)
