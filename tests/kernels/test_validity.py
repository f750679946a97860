"""What is proved of kernels, and what is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels as K


def test_like_terms_are_collected():
    validity = (2 * K.RBF() - K.RBF()).validity
    assert validity.status == "valid"
    assert "like terms" in validity.proof.rule
    assert (K.RBF() - 2 * K.RBF()).validity.status == "indefinite"
    assert (K.Polynomial(2, coef0=0.0) - K.Polynomial(2, coef0=0.0)).validity.status == "valid"
    assert (-1.0 * (-2.0 * K.Linear())).validity.status == "valid"


def test_non_integer_powers_need_infinite_divisibility():
    assert (K.RBF() ** 0.5).validity.status == "valid"
    assert ((2 * K.RBF() * K.Laplacian()) ** 0.3).validity.status == "valid"
    assert (K.exp(K.Linear()) ** 0.3).validity.status == "valid"
    for kernel in (K.Linear() ** 0.5, (K.RBF() + K.Laplacian()) ** 0.5):
        with pytest.raises(ValueError, match="infinitely divisible"):
            _ = kernel.validity


def test_facts_worth_getting_right():
    assert K.Conjunction().validity.status == "valid"
    assert K.Conjunction().domain is K.Linear().domain
    assert K.Tanimoto().validity.status == "valid"
    assert str(K.Min().domain) == str(K.Chi2().domain) == "non-negative vectors"
    assert K.Polynomial(2, coef0=-0.5).validity.status == "indefinite"
    assert K.Polynomial(0, coef0=-1.0).validity.status == "valid"
    assert len(K.Sigmoid(coef0=1.0).validity.counterexample.points) == 2


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("coef0", [-2.0, 0.0, 0.5, 1.0, 3.9, 4.1, 20.0, 500.0])
def test_tanh_is_never_a_kernel(gamma, coef0):
    kernel = K.Sigmoid(gamma, coef0)
    found = kernel.validity.counterexample
    assert len(found.points) <= 3
    assert np.linalg.eigvalsh(kernel(found.points))[0] == pytest.approx(found.eigenvalue)
    assert found.eigenvalue < -1e-5


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("coef0", [-1e-3, -1.0, -40.0])
def test_polynomial_with_negative_coef0_is_not_a_kernel(degree, coef0):
    assert K.Polynomial(degree, 0.7, coef0).validity.status == "indefinite"


def test_domains_meet_or_refuse():
    assert str((K.RBF() + K.Min()).domain) == "non-negative vectors"
    with pytest.raises(TypeError, match=r"k\.on\(columns\)"):
        K.RBF() + K.Spectrum(3)
    with pytest.raises(TypeError, match="Precomputed"):
        K.RBF() + K.Precomputed()
    with pytest.raises(TypeError, match="Precomputed"):
        2 * K.Precomputed()
