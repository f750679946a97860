"""Probabilities of `KernelRidgeClassifier`: the nearest to (1 + score) / 2 with sum one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import mercer
from mercer.estimators.labels import nearest_probabilities
from model_zoo import IRIS, SPECIES


def projected(scores):
    """max(p - t, 0) with the t that makes the sum one, by bisection."""
    p = (1 + np.asarray(scores)) / 2
    t = brentq(lambda t: np.maximum(p - t, 0).sum() - 1, p.min() - 2, p.max(), xtol=1e-14)
    return np.maximum(p - t, 0)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=6))
def test_the_nearest_probabilities_are_those_of_bisection(scores):
    found = nearest_probabilities(np.array([scores]))[0]
    np.testing.assert_allclose(found, projected(scores), atol=1e-9)


def test_one_score_is_that_of_the_second_class():
    found = nearest_probabilities(np.array([-3.0, -0.5, 0.0, 0.4, 2.0]))
    np.testing.assert_allclose(found[:, 1], [0, 0.25, 0.5, 0.7, 1])
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_the_class_predicted_is_the_most_probable():
    model = mercer.KernelRidgeClassifier(alpha=0.1).fit(IRIS, SPECIES)
    shares = model.predict_proba(IRIS)
    assert (model.classes_[shares.argmax(axis=1)] == model.predict(IRIS)).all()


def test_probabilities_approach_those_of_the_labels():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(3000, 1))
    true = 1 / (1 + np.exp(-2 * X[:, 0]))
    model = mercer.KernelRidgeClassifier(alpha=3.0, fit_intercept=True)
    found = model.fit(X, rng.random(3000) < true).predict_proba(X)[:, 1]
    assert np.abs(found - true).mean() < 0.03
