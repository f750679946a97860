"""Row 4. Embed, then learn a halfspace: section 16.1 of chapter 16 (Shalev-Shwartz and Ben-David).

The whole numbers from -10 to 10, positive where |x| > 2, are not cut apart by any threshold on the
line. After psi(x) = (x, x²) the halfspace with w = (0, 1) and b = 5 does it. More generally a
halfspace over all monomials up to degree k is a polynomial of degree k in many variables, (16.1).
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

import mercer
from mercer import kernels as K

X = np.arange(-10.0, 11.0)[:, None]
y = np.where(np.abs(X[:, 0]) > 2, 1, -1)


def psi(X):
    X = np.asarray(X)
    return np.hstack([X, X**2])


def test_no_halfspace_on_the_line_separates_the_points():
    best = 0
    for threshold in np.arange(-10.5, 11.5):
        for side in (1, -1):
            best = max(best, np.mean(np.where(X[:, 0] > threshold, side, -side) == y))
    assert best < 1
    assert mercer.SVC(kernel=K.Linear(), C=100.0).fit(X, y).score(X, y) <= best


def test_the_chapters_halfspace_does_after_the_map():
    w, b = np.array([0.0, 1.0]), 5.0
    np.testing.assert_array_equal(np.sign(psi(X) @ w - b), y)


def test_the_largest_margin_after_the_map():
    # The nearest points are (±2, 4) and (±3, 9): the border is x² = 6.5, at distance 2.5 from both.
    model = mercer.SVC(kernel=K.FromFeatures(psi), C=np.inf, tol=1e-8).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.margin_ == pytest.approx(2.5, rel=1e-5)
    fresh = np.linspace(-12, 12, 49)[:, None]
    by_hand = (fresh[:, 0] ** 2 - 6.5) / 2.5
    np.testing.assert_allclose(model.decision_function(fresh), by_hand, atol=1e-4)


def test_kernel_of_a_map_is_the_linear_method_on_its_image():
    fresh = np.linspace(-12, 12, 49)[:, None]
    through = mercer.SVC(kernel=K.FromFeatures(psi), C=3.0, tol=1e-8).fit(X, y)
    image = mercer.SVC(kernel=K.Linear(), C=3.0, tol=1e-8).fit(psi(X), y)
    np.testing.assert_allclose(
        through.decision_function(fresh), image.decision_function(psi(fresh)), atol=1e-5
    )
    np.testing.assert_array_equal(through.predict(fresh), image.predict(psi(fresh)))
    # The error of h on the image is the error of h ∘ psi on the points.
    assert through.score(X, y) == image.score(psi(X), y)


@pytest.mark.parametrize("kernel", [K.Polynomial(2), K.Polynomial(4), K.RBF(0.5)], ids=repr)
def test_kernels_that_contain_the_square_separate_them_too(kernel):
    assert mercer.SVC(kernel=kernel, C=np.inf).fit(X, y).score(X, y) == 1.0
    perceptron = mercer.KernelPerceptron(kernel, n_epochs=2000, random_state=0).fit(X, y)
    assert perceptron.score(X, y) == 1.0


def test_polynomials_of_one_variable_have_k_plus_one_coefficients():
    for k in range(1, 6):
        by_hand = np.array([[x**j for j in range(k + 1)] for x in X[:, 0] / 10])
        powers = K.FromFeatures(lambda P, k=k: np.vander(P[:, 0], k + 1, increasing=True))
        np.testing.assert_allclose(powers(X / 10), by_hand @ by_hand.T, rtol=1e-12)
        assert K.Polynomial(k).feature_map().fit(X).transform(X).shape[1] == k + 1


@pytest.mark.parametrize("k", [1, 2, 3])
def test_multivariate_polynomials_are_learned_as_halfspaces(k):
    rng = np.random.default_rng(k)
    P = rng.uniform(-1, 1, size=(120, 2))
    tuples = [J for r in range(k + 1) for J in product(range(2), repeat=r)]
    weights = rng.normal(size=len(tuples))
    values = np.array(
        [sum(w * prod(p[i] for i in J) for w, J in zip(weights, tuples, strict=True)) for p in P]
    )
    values -= np.median(values)
    far = np.abs(values) > 0.02  # a margin, so that the hard-margin machine has something to find
    labels = np.sign(values)
    model = mercer.SVC(kernel=K.Polynomial(k), C=np.inf).fit(P[far], labels[far])
    assert model.score(P[far], labels[far]) == 1.0
    # In the feature space it is a halfspace: one weight per monomial and a bias.
    F = K.Polynomial(k).feature_map().fit_transform(P[far])
    w = model.dual_coef_.ravel() @ F[model.support_]
    np.testing.assert_allclose(
        F @ w + model.intercept_, model.decision_function(P[far]), rtol=1e-6, atol=1e-5
    )
