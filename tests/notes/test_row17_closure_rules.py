"""Row 17. Kernels made from kernels: the six rules of lecture 19, each with its proof.

For kernels k1, k2: (1) c k1 with c > 0; (2) f(x) k1(x, x') f(x'); (3) k1 + k2, whose features are
those of both; (4) k1 k2, whose features are all products of one of each; (5) k1 to a whole power;
(6) exp(k1). The lecture then builds (x·x' + c)^M from the linear and the constant kernel, and the
Gaussian from exp(x·x'/σ²) by rule 2 with f(x) = exp(-x·x/2σ²).
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(15, 3))


def f(X):
    """A function of the points that is negative for some of them, which rule 2 allows."""
    return np.asarray(X)[:, 0] - 0.3


k1, k2 = K.Polynomial(2), K.RBF(0.5)

RULES = {
    "1: c k1": (2.5 * k1, lambda a, b, v: 2.5 * a),
    "2: f k1 f": (k1.rescale(f), lambda a, b, v: v[:, None] * a * v),
    "3: k1 + k2": (k1 + k2, lambda a, b, v: a + b),
    "4: k1 k2": (k1 * k2, lambda a, b, v: a * b),
    "5: k1 ** 3": (k1**3, lambda a, b, v: a**3),
    "6: exp(k1)": (K.exp(0.1 * k1), lambda a, b, v: np.exp(0.1 * a)),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_evaluates_as_written_is_proved_and_is_psd(rule, X):
    kernel, by_hand = RULES[rule]
    a = np.array([[(1 + x @ z) ** 2 for z in X] for x in X])
    b = np.array([[np.exp(-0.5 * np.sum((x - z) ** 2)) for z in X] for x in X])
    G = kernel(X)
    np.testing.assert_allclose(G, by_hand(a, b, f(X)), rtol=1e-11, atol=1e-13)
    assert kernel.validity.status == "valid"
    assert len(kernel.validity.proof.premises) >= 1
    report = mercer.check_kernel(kernel, X)
    assert report.valid is True
    assert report.min_eigenvalue >= -report.tolerance


def test_each_proof_names_its_rule():
    first = {name: kernel.validity.proof.rules()[0] for name, (kernel, _) in RULES.items()}
    assert "scaling" in first["1: c k1"]
    assert "f(x) k(x,z) f(z)" in first["2: f k1 f"]
    assert "sum" in first["3: k1 + k2"]
    assert "product" in first["4: k1 k2"]
    assert "power" in first["5: k1 ** 3"]
    assert "exponential" in first["6: exp(k1)"]


def test_features_of_a_sum_are_those_of_both_and_of_a_product_all_products(X):
    left, right = K.Linear(), K.Polynomial(2, coef0=0)
    A, B = left.feature_map().fit_transform(X), right.feature_map().fit_transform(X)
    joined = (left + right).feature_map().fit_transform(X)
    np.testing.assert_allclose(joined, np.hstack([A, B]), rtol=1e-13)
    tensor = (left * right).feature_map().fit_transform(X)
    every = np.array([[a * b for a in ra for b in rb] for ra, rb in zip(A, B, strict=True)])
    assert tensor.shape[1] == A.shape[1] * B.shape[1]
    np.testing.assert_allclose(tensor @ tensor.T, every @ every.T, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(tensor @ tensor.T, (left * right)(X), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("M", [1, 2, 5])
def test_polynomial_kernel_built_from_linear_and_constant(M, X):
    built = (K.Linear() + 0.7) ** M
    np.testing.assert_allclose(built(X), K.Polynomial(M, coef0=0.7)(X), rtol=1e-12)
    assert built.validity.status == "valid"
    rules = built.validity.proof.rules()
    assert "power" in rules[0]
    assert "sum" in rules[1]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_gaussian_derived_as_in_the_lecture(sigma, X):
    g = 1 / (2 * sigma**2)
    built = K.exp(2 * g * K.Linear()).rescale(K.exp(-g * K.sqnorm))
    expected = np.array([[np.exp(-np.sum((x - z) ** 2) / (2 * sigma**2)) for z in X] for x in X])
    np.testing.assert_allclose(built(X), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(built(X), K.RBF.from_sigma(sigma)(X), rtol=1e-12, atol=1e-14)
    # The proof, read from the outside in, is the derivation read from its end.
    rules = built.validity.proof.rules()
    assert len(rules) == 4
    for found, expected_word in zip(
        rules, ["f(x) k(x,z) f(z)", "exponential", "scaling", "inner product"], strict=True
    ):
        assert expected_word in found


def test_the_derivation_does_not_overflow_on_the_way():
    X = np.array([[1000.0, 0.0], [1001.0, 0.5]])
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(X @ X.T)).all()  # rule 6 alone is out of range here
    built = K.exp(1.0 * K.Linear()).rescale(K.exp(-0.5 * K.sqnorm))
    np.testing.assert_allclose(built(X), K.RBF(0.5)(X), rtol=1e-9)


def test_rescaling_by_a_plain_function_gives_the_same_gaussian(X):
    built = K.exp(1.0 * K.Linear()).rescale(lambda P: np.exp(-0.5 * np.sum(P**2, axis=1)))
    np.testing.assert_allclose(built(X), K.RBF(0.5)(X), rtol=1e-12)
    assert built.validity.status == "valid"


def test_outside_the_rules_there_is_no_proof():
    assert (-1.0 * K.RBF(0.5)).validity.status == "indefinite"
    assert (K.Linear() - K.RBF(0.5)).validity.status == "indefinite"
    with pytest.raises(ValueError, match="integer"):
        _ = (K.Linear() ** 0.5).validity
    difference = K.RBF(0.5) - K.Linear()
    found = difference.validity.counterexample
    assert np.linalg.eigvalsh(difference(found.points))[0] == pytest.approx(found.eigenvalue)
    assert found.eigenvalue < 0
