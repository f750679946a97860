"""Spectral clustering against eigh of the Laplacian, and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelSpectralClustering
from mercer import kernels as K


@parametrize_with_checks([KernelSpectralClustering(2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_eigenvalues_are_those_of_the_laplacian(dtype):
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(dtype)
    model = KernelSpectralClustering(4, gamma=0.7).fit(X)
    gram = K.RBF(0.7)(X.astype(np.float64))
    root = 1 / np.sqrt(gram.sum(axis=1))
    expected = np.linalg.eigvalsh(np.eye(300) - root[:, None] * gram * root)[:4]
    assert_allclose(model.eigenvalues_, expected, atol=1e-5)
    assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1.0)


@pytest.mark.parametrize("made", [make_circles, make_moons])
def test_scikit_learns_partition(made):
    more = {"factor": 0.4} if made is make_circles else {}
    X, _ = made(300, noise=0.05, random_state=0, **more)
    ours = KernelSpectralClustering(2, gamma=25.0).fit_predict(X)
    theirs = SpectralClustering(2, gamma=25.0, random_state=0).fit_predict(X)
    assert adjusted_rand_score(ours, theirs) == 1.0
    given = KernelSpectralClustering(2, kernel="precomputed").fit_predict(K.RBF(25.0)(X))
    assert adjusted_rand_score(ours, given) == 1.0


def test_strings():
    words = ["aaab", "aaba", "abaa", "cccda", "ccdca", "acdcc"]
    labels = KernelSpectralClustering(2, kernel=K.Spectrum(1).normalize()).fit_predict(words)
    assert len(set(labels[:3])) == len(set(labels[3:])) == 1
    assert labels[0] != labels[3]


def test_points_without_similar_ones_are_named():
    X = np.array([[1.0], [2.0], [-4.0]])
    with pytest.raises(ValueError, match="point 1 has similarities that sum to"):
        KernelSpectralClustering(2, kernel="linear").fit(X)
    with pytest.raises(ValueError, match="n_clusters=8 with 8 components and X has n_samples=3"):
        KernelSpectralClustering().fit(X)
