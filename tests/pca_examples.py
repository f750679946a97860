"""Points for kernel PCA, and what its components are compared by."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn import datasets
from sklearn.preprocessing import StandardScaler


def load(name, n=None):
    X = getattr(datasets, f"load_{name}")().data
    X = StandardScaler().fit_transform(X)[::-1][:n]
    return X[::2], X[1::2]


DATA = {"iris": load("iris"), "wine": load("wine"), "digits": load("digits", 500)}


def assert_same_up_to_sign(A, B, **tolerance):
    signs = np.sign(np.sum(A * B, axis=0))
    assert_allclose(A * np.where(signs == 0, 1, signs), B, **tolerance)
