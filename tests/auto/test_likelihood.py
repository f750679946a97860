"""Kernel logistic regression against a general minimiser and against refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import kernels as K
from mercer.auto.likelihood import fit_likelihood, mean_loss


def problem(C, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = np.stack([1.5 * X[:, j % 3] * (-1) ** j for j in range(C)], axis=1)
    codes = np.array([rng.choice(C, p=p) for p in np.exp(scores) / np.exp(scores).sum(1)[:, None]])
    codes[:C] = np.arange(C)
    return np.asarray(K.Laplacian(0.4)(X)), codes, rng.integers(1, 4, n).astype(float)


def penalised(G, codes, C, lam, weight, constant):
    """The minimum over scores by a general method; the intercept is a constant in the kernel."""
    n, columns = len(codes), 1 if C == 2 else C
    values, vectors = np.linalg.eigh(G + constant)
    features = vectors * np.sqrt(np.maximum(values, 0))
    shares = np.bincount(codes, weight, C) / weight.sum()
    offset = np.log(shares) - np.log(shares).mean() if C > 2 else np.zeros(1)

    def value(v):
        v = v.reshape(n, columns)
        f = features @ v + offset
        if C == 2:
            r = weight[:, None] * (1 / (1 + np.exp(-f)) - codes[:, None])
        else:
            p = np.exp(f - f.max(1)[:, None])
            r = weight[:, None] * (p / p.sum(1)[:, None] - np.eye(C)[codes])
        loss = mean_loss(f, codes, weight) * weight.sum()
        return loss + lam / 2 * np.vdot(v, v), (features.T @ r + lam * v).ravel()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, np.zeros(n * columns), jac=True, method="L-BFGS-B", options=options)
    return features @ found.x.reshape(n, columns) + offset


@pytest.mark.parametrize("C", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_the_minimum_is_that_of_a_general_method(C, weighted, lam):
    G, codes, weight = problem(C)
    weight = weight if weighted else np.ones(len(codes))
    found = fit_likelihood(G, codes, C, lam, weight if weighted else None)
    np.testing.assert_allclose(found.scores, G @ found.coef + found.intercept, atol=1e-6)
    expected = penalised(G, codes, C, lam, weight, 1e4 if C == 2 else 1.0)
    np.testing.assert_allclose(found.scores, expected, atol=0.02)


@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_left_out_are_near_those_of_refits(C, weighted):
    G, codes, weight = problem(C)
    weight = weight if weighted else np.ones(len(codes))
    found = fit_likelihood(G, codes, C, 0.5, weight)
    apart, moved = [], []
    for i in range(C, len(codes), 4):
        rest = np.delete(np.arange(len(codes)), i)
        other = fit_likelihood(G[np.ix_(rest, rest)], codes[rest], C, 0.5, weight[rest])
        expected = centred(G[i, rest] @ other.coef + other.intercept)
        apart.append(centred(found.left_out[i]) - expected)
        moved.append(centred(found.scores[i]) - expected)
    assert np.sqrt(np.mean(np.square(apart))) < 0.2 * np.sqrt(np.mean(np.square(moved)))


def centred(scores):
    """Scores of several classes up to a constant."""
    return scores - scores.mean() if len(scores) > 1 else scores


@pytest.mark.parametrize("C", [2, 3])
def test_float32_will_do(C):
    G, codes, weight = problem(C)
    one, two = (fit_likelihood(A, codes, C, 1.0, weight) for A in (G, G.astype(np.float32)))
    np.testing.assert_allclose(two.left_out, one.left_out, atol=0.02)


def test_mean_loss():
    codes = np.array([0, 1, 2])
    assert mean_loss(np.zeros((3, 3)), codes) == pytest.approx(np.log(3))
    two = np.array([[-1.0], [2.0]])
    both = np.hstack([0 * two, two])
    assert mean_loss(two, codes[:2]) == pytest.approx(mean_loss(both, codes[:2]))
