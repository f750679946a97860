"""check_kernel and the kernels given by the user."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import check_kernel
from mercer import kernels as K

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 3))


def test_kernels():
    report = check_kernel(K.RBF(), X)
    assert report.valid is True
    assert report.min_eigenvalue == pytest.approx(np.linalg.eigvalsh(K.RBF()(X))[0], abs=1e-14)
    assert "Bochner" in str(report)
    refuted = check_kernel(K.Sigmoid(coef0=1.0))
    assert refuted.valid is False
    assert refuted.counterexample.eigenvalue == refuted.min_eigenvalue < 0
    assert "not a kernel" in str(refuted)


def test_callables_can_be_refuted_but_not_proved():
    assert check_kernel(lambda x, z: x @ z, X).valid is None
    report = check_kernel(lambda x, z: -float(np.linalg.norm(x - z)), X)
    assert report.valid is False
    small = report.counterexample
    assert len(small.points) <= 3
    assert np.linalg.eigvalsh(small.gram)[0] == pytest.approx(small.eigenvalue)
    with pytest.raises(ValueError, match="X is needed"):
        check_kernel(lambda x, z: 1.0)
    with pytest.raises(ValueError, match="not symmetric"):
        check_kernel(lambda x, z: float(x[0]), X)


def test_matrices_and_rounding():
    A = RNG.normal(size=(40, 3))
    singular = A @ A.T  # 37 eigenvalues that are zero, up to rounding of either sign
    assert check_kernel(singular).valid is True
    assert check_kernel(singular - 1e-3 * np.eye(40)).valid is False
    assert check_kernel(singular - 1e-11 * np.eye(40)).valid is None
    assert check_kernel(np.zeros((3, 3))).valid is True
    assert check_kernel([[1.0, 2.0], [2.0, 1.0]]).counterexample.eigenvalue == pytest.approx(-1)
    with pytest.raises(ValueError, match="square"):
        check_kernel(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"entries \(0, 1\) and \(1, 0\)"):
        check_kernel([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="missing value"):
        check_kernel([[np.nan]])


def test_a_matrix_gives_a_kernel_on_its_indices():
    A = RNG.normal(size=(6, 3))
    kernel = K.FromMatrix(A @ A.T)
    assert kernel.validity.status == "valid"
    index = [5, 0, 0]
    np.testing.assert_allclose(kernel(index), (A @ A.T)[np.ix_(index, index)])
    phi = kernel.feature_map().fit(index)
    assert phi.n_features_out_ == 3
    np.testing.assert_allclose(phi.transform([0, 4]) @ phi.transform([2]).T, kernel([0, 4], [2]))
    assert K.FromMatrix([[1.0, 2.0], [2.0, 1.0]]).validity.status == "indefinite"
    with pytest.raises(ValueError, match=r"outside 0\.\.5"):
        kernel([6])
    with pytest.raises(ValueError, match="integer"):
        kernel([0.5])
    with pytest.raises(ValueError, match="symmetric"):
        K.FromMatrix([[1.0, 2.0], [0.0, 1.0]])([0])


def test_functions_and_features():
    by_pairs = K.FromFunction(lambda x, z: float(x @ z))
    by_sets = K.FromFunction(lambda A, B: A @ B.T, pairwise=False, valid=True)
    np.testing.assert_allclose(by_pairs(X), by_sets(X))
    np.testing.assert_allclose(by_sets.diag(X), K.Linear().diag(X))
    assert by_pairs.validity.status == "unknown"
    assert by_sets.validity.status == "valid"
    assert K.FromFunction(lambda x, z: 1.0, valid=False).validity.status == "unknown"
    with pytest.raises(ValueError, match="pairwise=True"):
        K.FromFunction(lambda A, B: 1.0, pairwise=False)(X)
    with pytest.raises(ValueError, match="one row for each"):
        K.FromFeatures(lambda X: X[:2])(X)
    with pytest.raises(TypeError, match="phi must be"):
        K.FromFeatures(3)(X)


def test_precomputed():
    Gram = K.RBF()(X)
    np.testing.assert_array_equal(K.Precomputed()(Gram), Gram)
    np.testing.assert_array_equal(K.Precomputed().diag(Gram), np.ones(15))
    with pytest.raises(ValueError, match="square"):
        K.Precomputed()(Gram[:3])
    assert K.Precomputed()(Gram[:3], X).shape == (3, 15)
