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


def powers(*coefficients):
    """Σ a_q (x·z)^q."""
    terms = [c * K.Linear() ** q for q, c in enumerate(coefficients)]
    return sum(terms[1:], start=terms[0])


@pytest.mark.parametrize(
    ("kernel", "expansion"),
    [
        (
            0.25 * K.Polynomial(2) - 0.125 * K.Linear(),
            "0.25 + 0.375 * Linear() + 0.25 * Linear() ** 2",
        ),
        (K.Polynomial(2, coef0=-1.0) + 2 * K.Linear(), "1 + Linear() ** 2"),
        (K.Polynomial(3) - K.Polynomial(2), "Linear() + 2 * Linear() ** 2 + Linear() ** 3"),
        ((K.Linear() - 2) * (K.Linear() + 2) + 4, "Linear() ** 2"),
        ((-1.0 * K.Linear()) ** 2, "Linear() ** 2"),
        (K.Polynomial(2) ** 2 - K.Polynomial(4), "0"),
        (K.Polynomial(2, 0.5) * 4 - K.Linear() ** 2, "4 + 4 * Linear()"),
        (K.Constant(3.0) - 1.0, "2"),
        ((K.RBF() + 1) ** 2 - 1, "2 * RBF(gamma=1.0) + RBF(gamma=1.0) ** 2"),
        (K.RBF() * (K.Linear() - 1) + K.RBF(), "RBF(gamma=1.0) * Linear()"),
    ],
    ids=repr,
)
def test_polynomials_in_kernels_are_proved_by_their_coefficients(kernel, expansion):
    validity = kernel.validity
    assert validity.status == "valid"
    claims = {f"{kernel!r} = {text} is a kernel" for text in (expansion, swapped(expansion))}
    assert validity.proof.claim in claims
    assert "no coefficient is negative" in validity.proof.rule


def swapped(text):
    """Factors of a product in the other order, which is not fixed."""
    return " * ".join(reversed(text.split(" * "))) if " + " not in text else text


@pytest.mark.parametrize(
    ("coefficients", "degree"),
    [
        ((1.0, -0.1), 1),
        ((1.0, 2.0, -1e-3), 2),
        ((0.0, 5.0, -0.1, 3.0), 2),
        ((1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.0), 3),
        ((-0.5, 1.0, 1.0), 0),
        ((2.0, -1e-3, 6.0, 4.0, 1.0), 1),
        ((1e-20, 0.0, -1e-30), 2),
        ((1.0, *[0.0] * 19, -1.0), 20),
    ],
)
def test_a_negative_coefficient_has_a_counterexample(coefficients, degree):
    kernel = powers(*coefficients)
    validity = kernel.validity
    assert validity.status == "indefinite"
    assert f"(x·z)^{degree} is {coefficients[degree]:.6g}" in validity.reason
    x = validity.counterexample.points
    dots = x @ x.T
    Gram = sum(c * dots**q for q, c in enumerate(coefficients))
    smallest = np.linalg.eigvalsh(Gram)[0]
    assert smallest == pytest.approx(validity.counterexample.eigenvalue, rel=1e-5)
    assert smallest < -1e-7 * np.abs(Gram).max()


def test_a_coefficient_that_rounding_may_have_made_is_not_decided():
    k = K.Linear()
    validity = (0.3 * k - 0.1 * k - 0.2 * k).validity
    assert validity.status == "unknown"
    assert "(x·z)^1 is -2.77556e-17: zero up to the rounding" in validity.reason
    assert (0.1 * k + 0.2 * k - 0.3 * k).validity.status == "valid"
    hidden = powers(1.0, -1e-12, 1.0, 1.0).validity
    assert hidden.status == "unknown"
    assert "(x·z)^1 is -1e-12" in hidden.reason


def test_long_expansions_are_not_written_out():
    assert (-1 * K.Polynomial(200)).validity.status == "indefinite"
    many = sum(K.RBF(1.0 / i) for i in range(1, 9)) - 1e-3
    assert (many**6).validity.status in ("unknown", "indefinite")


def test_polynomials_without_negative_coefficients_have_a_feature_map():
    X = np.random.default_rng(0).normal(size=(6, 3))
    kernel = 0.3 * K.Polynomial(3) - 0.1 * K.Linear()
    features = kernel.feature_map().fit_transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), rtol=1e-12)
    with pytest.raises(K.NoFiniteFeatureMap):
        (K.Polynomial(2) - 3 * K.Linear()).feature_map()


@pytest.mark.parametrize(
    "kernel",
    [
        K.Linear() - K.Linear(),
        0.0 * K.RBF(),
        K.Constant(0.0),
        K.RBF(2.0) - K.RBF(2.0),
        K.Polynomial(2) - K.Linear() ** 2 - 2 * K.Linear() - 1,
        (0.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm)),
    ],
    ids=repr,
)
def test_the_zero_kernel_is_valid_and_cannot_be_normalised(kernel):
    normal = kernel.normalize()
    for use in (lambda: normal.validity, lambda: normal(np.eye(2)), lambda: normal.diag(np.eye(2))):
        with pytest.raises(ValueError, match="is zero everywhere and cannot be normalised"):
            use()
    assert kernel.validity.status == "valid"


def test_kernels_are_normalised_once():
    kernel = K.RBF().normalize()
    assert kernel.normalize() is kernel
    assert K.parse("RBF()" + ".normalize()" * 150).validity.status == "valid"


@pytest.mark.parametrize(
    "wrapped", ["({} + 1).normalize()", "exp({}).normalize()", "({} + exp(Linear())).normalize()"]
)
def test_normalisations_within_each_other_are_few(wrapped):
    """Formulas of more would take exponential time to write out."""
    text = "RBF()"
    for _ in range(3):
        text = wrapped.format(text)
    assert K.parse(text).validity.status == "valid"
    with pytest.raises(ValueError, match="4 normalisations within each other"):
        K.parse(wrapped.format(text))
    with pytest.raises(ValueError, match="4 normalisations within each other"):
        _ = K.Normalized(K.parse(text) * K.Linear()).validity


def test_powers_of_differences_within_each_other_are_decided():
    """Expanded, the coefficients would have thousands of digits."""
    kernel = K.Linear()
    for _ in range(15):
        kernel = (kernel - 1) ** 2
    assert kernel.validity.status == "indefinite"
