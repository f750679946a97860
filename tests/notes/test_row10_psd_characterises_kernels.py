"""Row 10. A symmetric function is a kernel exactly when all its Gram matrices are PSD.

Lemma 16.2 of chapter 16 (Shalev-Shwartz and Ben-David), and the last section of notes 004
(Kernels). One way: a Gram matrix of inner products has qᵀGq = ‖Σ q_i psi(x_i)‖², never negative.
The other way, on finitely many points: a PSD matrix A factors as A = ΦΦᵀ, whose rows are feature
vectors with A as their inner products.
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K


def random_psd(n: int, rank: int, seed: int) -> np.ndarray:
    B = np.random.default_rng(seed).normal(size=(n, rank))
    return B @ B.T


@pytest.mark.parametrize(
    "kernel", [K.Linear(), K.Polynomial(3), K.RBF(0.5), K.Laplacian(0.5), K.Conjunction()], ids=repr
)
def test_quadratic_form_of_a_kernel_is_a_squared_length(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 3))
    G = kernel(X)
    for _ in range(50):
        q = rng.normal(size=25)
        assert q @ G @ q >= -1e-10 * np.abs(G).max()
    report = mercer.check_kernel(kernel, X)
    assert report.valid is True
    assert report.min_eigenvalue >= -report.tolerance


def test_quadratic_form_is_the_squared_norm_of_the_combined_features():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10, 3))
    F = K.Polynomial(2).feature_map().fit_transform(X)
    q = rng.normal(size=10)
    length = sum((sum(q[i] * F[i, j] for i in range(10))) ** 2 for j in range(F.shape[1]))
    assert q @ K.Polynomial(2)(X) @ q == pytest.approx(length)


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (6, 6), (12, 3)])
def test_a_psd_matrix_gives_a_kernel_with_a_map(n, rank):
    A = random_psd(n, rank, seed=n)
    kernel = K.FromMatrix(A)
    indices = np.arange(n)
    assert kernel.validity.status == "valid"
    np.testing.assert_array_equal(kernel(indices), A)
    Phi = kernel.feature_map().fit_transform(indices)
    assert Phi.shape == (n, rank)
    np.testing.assert_allclose(Phi @ Phi.T, A, rtol=1e-10, atol=1e-12)
    assert mercer.check_kernel(A).valid is True
    np.testing.assert_array_equal(kernel(indices[::-1], indices[:1]), A[::-1, :1])


def test_a_matrix_with_a_negative_eigenvalue_gives_none():
    A = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 5.0]])
    report = mercer.check_kernel(A)
    assert report.valid is False
    assert report.min_eigenvalue == pytest.approx(-1)
    kernel = K.FromMatrix(A)
    assert kernel.validity.status == "indefinite"
    found = kernel.validity.counterexample
    np.testing.assert_array_equal(found.points, [0, 1])
    assert np.linalg.eigvalsh(A[np.ix_(found.points, found.points)])[0] == pytest.approx(-1)
    with pytest.raises(K.NoFiniteFeatureMap):
        kernel.feature_map()


def test_a_function_is_refuted_by_points_and_never_proved_by_them():
    X = np.random.default_rng(2).normal(size=(20, 2))
    refuted = mercer.check_kernel(lambda x, z: -float(np.sum((x - z) ** 2)), X)
    assert refuted.valid is False
    found = refuted.counterexample
    by_hand = np.array([[-np.sum((x - z) ** 2) for z in found.points] for x in found.points])
    assert np.linalg.eigvalsh(by_hand)[0] == pytest.approx(refuted.counterexample.eigenvalue)
    assert refuted.counterexample.eigenvalue < 0

    not_refuted = mercer.check_kernel(lambda x, z: float(np.exp(-np.sum((x - z) ** 2))), X)
    assert not_refuted.valid is None
    assert not_refuted.counterexample is None


def test_reproducing_property_of_the_proofs_space():
    # The proof takes psi(x) = K(·, x) with <K(·, x), K(·, z)> = K(x, z). On finitely many points
    # K(·, x) is a column of G, and the inner product of columns a and b is a G⁻¹ b.
    X = np.random.default_rng(3).normal(size=(8, 2))
    G = K.RBF(1.0)(X)
    inner = np.array([[a @ np.linalg.solve(G, b) for b in G.T] for a in G.T])
    np.testing.assert_allclose(inner, G, rtol=1e-8, atol=1e-10)


def test_rounding_is_not_taken_for_indefiniteness():
    X = np.random.default_rng(4).normal(size=(200, 2))
    G = K.RBF(0.01)(X)  # numerically of low rank: its smallest eigenvalues are rounding
    assert np.linalg.eigvalsh(G)[0] < 1e-14
    assert mercer.check_kernel(G).valid is True


def test_symmetry_is_required():
    with pytest.raises(ValueError, match="symmetric"):
        mercer.check_kernel(np.array([[1.0, 0.5], [0.4, 1.0]]))
