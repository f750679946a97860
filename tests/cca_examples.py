"""Views for kernel CCA, and its textbook form as an oracle."""

import numpy as np
import scipy.linalg


def hidden(n, seed=0, noise=0.1):
    """Two views of a hidden coordinate, related by a function no straight line sees."""
    rng = np.random.RandomState(seed)
    t = rng.uniform(-2, 2, size=(n, 1))
    X = np.hstack([t**2 + noise * rng.normal(size=(n, 1)), rng.normal(size=(n, 1))])
    Y = np.hstack([t + noise * rng.normal(size=(n, 1)), rng.normal(size=(n, 1))])
    return X, Y


def centred(gram):
    return gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()


def generalised_eigenproblem(grams, rho):
    """Oracle: N a = mu D a in the dual coefficients, on the range of D."""
    grams = [centred(gram) for gram in grams]
    D = scipy.linalg.block_diag(*(G @ G + rho * np.trace(G) * G for G in grams))
    N = np.block([[G @ H if G is not H else 0 * G for H in grams] for G in grams])
    values, vectors = np.linalg.eigh(D)
    kept = values > 1e-11 * values.max()
    W = vectors[:, kept] / np.sqrt(values[kept])
    return np.sort(np.linalg.eigvalsh(W.T @ N @ W))[::-1] / (len(grams) - 1)


def noise(n=40, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
