"""KernelPCA's residuals and bounds hold, for every solver and on degenerate points."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer import kernels as K
from mercer.estimators.spectral.pca import KernelPCA
from mercer.operators import CentredGram, DenseGram, gram
from pca_examples import DATA, assert_same_up_to_sign


@pytest.mark.parametrize("kernel", [K.RBF(0.05), K.Laplacian(0.1)], ids=repr)
def test_with_every_point_a_centre_nystrom_is_exact(kernel):
    train, test = DATA["wine"]
    exact = KernelPCA(4, kernel=kernel, eigen_solver="dense").fit(train)
    pca = KernelPCA(4, kernel=kernel, eigen_solver="nystrom", n_centers=10**6, random_state=0).fit(
        train
    )
    assert_allclose(pca.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    assert_allclose(pca.eigenvectors_, exact.eigenvectors_, atol=1e-6)
    assert_allclose(pca.transform(test), exact.transform(test), atol=1e-6)
    assert_allclose(pca.fit_transform(train), exact.fit_transform(train), atol=1e-6)
    assert_allclose(pca.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-7)
    assert_allclose(pca.reconstruction_error(test), exact.reconstruction_error(test), atol=1e-6)
    assert pca.result_.gap < 1e-9


@pytest.mark.parametrize("m", [5, 40, 120])
def test_nystrom_bounds_hold(m):
    train, _ = DATA["digits"]
    kernel = K.RBF(0.01)
    centred = CentredGram(gram(kernel, train))
    values = np.linalg.eigvalsh(centred.dense())[::-1][:5]
    pca = KernelPCA(5, kernel=kernel, eigen_solver="nystrom", n_centers=m, random_state=0)
    pca.fit(train)
    assert np.all(pca.eigenvalues_ <= values * (1 + 1e-10))
    assert np.all(values <= pca.eigenvalues_ + pca.residuals_)
    V = pca.eigenvectors_
    assert_allclose(V.T @ V, np.eye(len(V.T)), atol=1e-8)
    measured = np.linalg.norm(centred.dense() @ V - V * pca.eigenvalues_, axis=0)
    assert np.all(measured <= pca.residuals_)
    assert len(pca.X_fit_) == len(pca.projection_) <= m
    assert f"{len(pca.X_fit_)} centres" in pca.result_.method
    assert_allclose(pca.transform(train), V * np.sqrt(pca.eigenvalues_), atol=1e-8)


def test_nystrom_on_strings_on_a_matrix_and_with_pre_images():
    words = ["banana", "bandana", "cabana", "nanana", "xyzzy", "xyxyx", "zyxzy", "banban"]
    kernel = K.Spectrum(2).normalize()
    settings = {"eigen_solver": "nystrom", "n_centers": 8, "random_state": 0}
    of_words = KernelPCA(2, kernel=kernel, **settings).fit(words)
    exact = KernelPCA(2, kernel=kernel).fit(words)
    assert_allclose(of_words.transform(["bana"]), exact.transform(["bana"]), atol=1e-7)
    given = KernelPCA(2, kernel="precomputed", **settings).fit(kernel(words))
    new = kernel(["bana"], words)
    assert_allclose(given.transform(new), exact.transform(["bana"]), atol=1e-7)
    train, test = DATA["iris"]
    for rule in ("ridge", "fixed_point"):
        pca = KernelPCA(
            3,
            kernel=K.RBF(0.2),
            eigen_solver="nystrom",
            n_centers=40,
            random_state=0,
            fit_inverse_transform=True,
            pre_image=rule,
            alpha=0.01,
        ).fit(train)
        back = pca.inverse_transform(pca.transform(test))
        assert np.mean((back - test) ** 2) < 0.15 * np.mean((test - train.mean(axis=0)) ** 2)


def test_few_features_are_decomposed_themselves():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + 5
    for kernel in (K.Linear(), K.Polynomial(2)):
        auto = KernelPCA(3, kernel=kernel).fit(X)
        assert "features" in auto.result_.method
        dense = KernelPCA(3, kernel=kernel, eigen_solver="dense").fit(X)
        assert_allclose(auto.eigenvalues_, dense.eigenvalues_, rtol=1e-9)
        assert_allclose(auto.eigenvectors_, dense.eigenvectors_, atol=1e-9)
    every = KernelPCA(kernel="linear").fit(X)
    assert len(every.eigenvalues_) == 3
    more = KernelPCA(6, kernel="linear").fit(X)
    assert_allclose(more.eigenvalues_[3:], 0, atol=0)
    assert_allclose(more.eigenvectors_.T @ more.eigenvectors_, np.eye(6), atol=1e-12)
    with pytest.raises(ValueError, match="explicit features"):
        KernelPCA(3, kernel="rbf", eigen_solver="primal").fit(X)


@pytest.mark.parametrize("memory", [1024, 0.1])
def test_float32_is_certified_in_float64(memory):
    """Tiles or a matrix in float32; eigenvalues and residuals are those of the exact formula."""
    train, _ = DATA["digits"]
    single = train.astype(np.float32)
    kernel = K.RBF(0.01)
    exact = CentredGram(gram(kernel, single.astype(float))).dense()
    with sklearn.config_context(working_memory=memory):
        pca = KernelPCA(3, kernel=kernel, random_state=0).fit(single)
    check_certificate(pca, exact)
    given = kernel(single)
    assert given.dtype == np.float32
    pca = KernelPCA(3, kernel="precomputed", random_state=0).fit(given)
    check_certificate(pca, CentredGram(DenseGram(given.astype(float))).dense())


def check_certificate(pca, exact):
    pairs = pca.result_.value
    assert_allclose(pairs.values, np.linalg.eigvalsh(exact)[::-1][:3], rtol=1e-9)
    measured = np.linalg.norm(exact @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    rounded = np.abs(pca.eigenvalues_ - pairs.values)
    assert_allclose(pca.residuals_, measured + rounded, rtol=1e-4, atol=1e-11)
    assert np.all(pca.residuals_ < 1e-4 * pairs.values[0])


SOLVERS = ["auto", "dense", "krylov", "arpack", "randomized", "nystrom"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_degenerate_points(solver):
    settings = {"eigen_solver": solver, "random_state": 0}
    same = np.full((9, 2), 3.0)
    for kernel in (K.RBF(1.0), K.Constant(2.0)):
        pca = KernelPCA(2, kernel=kernel, **settings).fit(same)
        assert_allclose(pca.eigenvalues_, 0.0)
        assert_allclose(pca.transform(same + 1), 0.0)
        assert_allclose(pca.explained_variance_ratio_, 0.0)
    one = KernelPCA(1, kernel="rbf", **settings).fit([[3.0, 1.0]])
    assert_allclose(one.transform([[0.0, 0.0]]), 0.0)
    few = np.random.default_rng(0).normal(size=(4, 2))
    twice = KernelPCA(3, kernel=K.RBF(0.5), **settings).fit(np.vstack([few, few]))
    once = KernelPCA(3, kernel=K.RBF(0.5), eigen_solver="dense").fit(few)
    assert_allclose(twice.eigenvalues_, 2 * once.eigenvalues_, rtol=1e-8)
    assert_same_up_to_sign(twice.transform(few), once.transform(few), atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_eigenvalue_is_as_near_as_the_residual_says(solver, dtype):
    """Also where it is rounded to float32 or, as those of the second column are, to zero."""
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(dtype) * [1, 1e-5]
    X = X.astype(dtype)
    pca = KernelPCA(3, kernel="linear", eigen_solver=solver, random_state=0).fit(X)
    wide = X.astype(float)
    exact = np.linalg.svd(wide - wide.mean(axis=0), compute_uv=False) ** 2
    for value, residual in zip(pca.eigenvalues_, pca.residuals_, strict=True):
        far = np.abs(np.append(exact, 0.0) - value).min()
        assert far <= residual + 1e-13 * exact[0]


def test_float32_stays_float32_with_explicit_features():
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    pca = KernelPCA(2, kernel="poly", degree=2).fit(X)
    assert "features" in pca.result_.method
    assert pca.eigenvectors_.dtype == pca.transform(X[:5]).dtype == np.float32


@pytest.mark.parametrize("solver", ["dense", "nystrom"])
def test_a_corrected_gram_has_no_reconstruction_error(solver):
    """The kernel of new points with themselves is not known."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    kernel = K.Sigmoid(gamma=2.0, coef0=-1.0)
    pca = KernelPCA(3, kernel=kernel, indefinite="clip", eigen_solver=solver).fit(X)
    with pytest.raises(ValueError, match=r"k\(x, x\).*indefinite='clip'"):
        pca.reconstruction_error(X)
    with pytest.raises(ValueError, match="KernelPCA needs a valid kernel"):
        KernelPCA(3, kernel=kernel, eigen_solver=solver).fit(X)


@pytest.mark.parametrize("solver", SOLVERS)
def test_values_beyond_floating_point_are_refused(solver):
    X = 1e160 * np.random.default_rng(0).normal(size=(40, 3))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"value inf .*scale X"):
        KernelPCA(2, kernel="linear", eigen_solver=solver).fit(X)


@pytest.mark.parametrize("solver", SOLVERS)
def test_eigenvectors_of_zero_are_orthonormal_too(solver):
    X = np.random.default_rng(0).normal(size=(30, 2))
    for points, rank in ((X, 2), (np.ones_like(X), 0), (X[:1], 0)):
        k = min(5, len(points))
        pca = KernelPCA(5, kernel="linear", eigen_solver=solver, random_state=0).fit(points)
        assert pca.transform(X).shape == (30, k)
        assert_allclose(pca.eigenvectors_.T @ pca.eigenvectors_, np.eye(k), atol=1e-9)
        assert_allclose(pca.eigenvalues_[rank:], 0.0, atol=0)
        assert np.all(pca.residuals_ < 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_categories_seen_once_each_are_all_alike(solver):
    settings = {"eigen_solver": solver, "random_state": 0, "n_centers": 60}
    for kernel in ("linear", K.RBF(1e3)):
        pca = KernelPCA(3, kernel=kernel, **settings).fit(np.eye(60))
        assert_allclose(pca.eigenvalues_, 1.0)
        assert pca.transform(np.eye(60)).shape == (60, 3)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 4),
    k=st.integers(1, 8),
    copies=st.integers(1, 3),
    solver=st.sampled_from(["auto", "dense", "krylov", "nystrom"]),
    seed=st.integers(0, 999),
)
def test_any_points_against_eigh(n, d, k, copies, solver, seed):
    X = np.repeat(np.random.default_rng(seed).normal(size=(n, d)), copies, axis=0)
    kernel = K.RBF(0.3)
    pca = KernelPCA(k, kernel=kernel, eigen_solver=solver, n_centers=200, random_state=0).fit(X)
    centred = CentredGram(gram(kernel, X)).dense()
    exact = np.linalg.eigvalsh(centred)[::-1]
    found = pca.eigenvalues_
    assert_allclose(found, exact[: len(found)], atol=1e-9 * n * copies)
    V = pca.eigenvectors_[:, found > 0]
    residuals = np.linalg.norm(centred @ V - V * found[found > 0], axis=0)
    slack = 1e-9 * n * copies
    assert np.all(residuals <= pca.residuals_[found > 0] + slack)
    assert_allclose(pca.transform(X), pca.eigenvectors_ * np.sqrt(found), atol=1e-5)


def test_signs_are_the_same_for_every_solver_and_start():
    """Of points that mirror each other two entries are largest, up to rounding."""
    half = np.random.default_rng(0).normal(loc=(3.0, 0.0), size=(20, 2))
    X = np.vstack([half, -half])
    first = KernelPCA(3, kernel=K.RBF(0.05), eigen_solver="dense").fit_transform(X)
    for solver in ("krylov", "arpack", "nystrom"):
        for seed in range(4):
            pca = KernelPCA(
                3, kernel=K.RBF(0.05), eigen_solver=solver, n_centers=40, random_state=seed
            )
            assert_allclose(pca.fit_transform(X), first, atol=1e-6)
