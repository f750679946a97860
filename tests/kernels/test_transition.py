"""Smooth transitions and change points: against rescaling, and their derivatives and proof."""

import numpy as np
import pytest

from mercer import GaussianProcessRegressor
from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable

X = np.linspace(-1, 3, 9)[:, None]


def logistic(t):
    return 1 / (1 + np.exp(-t))


@pytest.mark.parametrize("falling", [False, True])
def test_a_product_with_a_transition_is_a_rescaled_kernel(falling):
    sign = -1 if falling else 1
    expected = K.RBF(0.7).rescale(lambda P: logistic(sign * (P[:, 0] - 0.8) / 0.3))
    found = K.Transition(0.8, 0.3, falling) * K.RBF(0.7)
    np.testing.assert_allclose(found(X), expected(X), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("d", [1, 2])
def test_derivatives(falling, d):
    P, step = np.random.default_rng(0).uniform(0, 2, size=(7, d)), 1e-6
    found = K.Transition(0.9, 0.4, falling).gradient(P)
    for name, there in (("location", (0.9, 0.4)), ("width", (0.9, 0.4))):
        move = np.array([name == "location", name == "width"]) * step
        above, below = (K.Transition(*(there + s * move), falling)(P) for s in (1, -1))
        np.testing.assert_allclose(found[name], (above - below) / (2 * step), atol=1e-8)


def test_a_change_point_goes_from_one_kernel_to_the_other():
    before, after = K.RBF(2.0), 3.0 * K.Linear()
    k = K.change_point(before, after, 1.0, 0.01)
    low, high = X[X[:, 0] < 0.9], X[X[:, 0] > 1.1]
    np.testing.assert_allclose(k(low), before(low), atol=1e-4)
    np.testing.assert_allclose(k(high), after(high), atol=1e-3)
    np.testing.assert_allclose(k(low, high), 0, atol=1e-3)


def test_proof_text_and_features():
    k = K.change_point(K.Linear(), K.RBF(), 1.0, 0.5)
    assert k.validity.status == "valid"
    assert "Transition" in str(k.validity.proof)
    assert K.parse(repr(k)).key() == k.key()
    phi = K.change_point(K.Linear(), K.Constant(2.0), 1.0, 0.5)
    Z = phi.feature_map().fit(X).transform(X)
    np.testing.assert_allclose(Z @ Z.T, phi(X), atol=1e-12)


def test_far_from_the_location_nothing_overflows():
    far = np.array([[-1e6], [1e6]], dtype=np.float32)
    np.testing.assert_array_equal(K.Transition(0.0, 1e-3)(far), [[0, 0], [0, 1]])


def test_location_and_width_are_learnt():
    x = np.linspace(0, 1, 120)[:, None]
    y = np.where(x[:, 0] < 0.62, 0.0, np.sin(40 * x[:, 0]))
    y += 0.05 * np.random.default_rng(0).normal(size=120)
    kernel = K.Transition(0.5, 0.02) * (1.0 * K.RBF(200.0))
    assert {"left__location", "left__width"} <= {entry.name for entry in learnable(kernel)}
    model = GaussianProcessRegressor(kernel).fit(x, y)
    assert abs(model.kernel_.left.location - 0.62) < 0.05
