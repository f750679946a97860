"""Every estimator once, with points to learn from and what it says of them."""

from __future__ import annotations

import inspect

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

import mercer

SETTINGS = {
    "AutoKernelClassifier": {},
    "AutoKernelRegressor": {},
    "GaussianProcessClassifier": {"kernel": "rbf"},
    "GaussianProcessRegressor": {"kernel": "rbf"},
    "KernelCCA": {"regularization": 0.1},
    "KernelCentroidClassifier": {"kernel": "rbf"},
    "KernelDensity": {"bandwidth": "lscv"},
    "KernelKMeans": {"n_clusters": 3},
    "KernelMachineClassifier": {"kernel": "rbf", "alpha": 0.1},
    "KernelMachineRegressor": {"kernel": "rbf", "alpha": 0.1, "loss": "huber"},
    "KernelPCA": {"kernel": "rbf", "n_components": 3},
    "KernelPerceptron": {"kernel": "rbf", "random_state": 0},
    "KernelRidge": {"kernel": "rbf", "alpha": 0.1},
    "KernelRidgeCV": {"kernel": "rbf"},
    "KernelRidgeClassifier": {"kernel": "rbf", "alpha": 0.1},
    "KernelSGDClassifier": {"kernel": "rbf", "alpha": 0.01, "n_iter": 2000, "random_state": 0},
    "KernelSpectralClustering": {"n_clusters": 3},
    "LocalLinearRegressor": {"bandwidth": 0.5},
    "NadarayaWatsonClassifier": {},
    "NadarayaWatsonRegressor": {},
    "NuSVC": {"nu": 0.3},
    "NuSVR": {},
    "OneClassSVM": {"nu": 0.2},
    "SVC": {},
    "SVR": {},
    "StructureSearch": {"components": ("linear", "smooth"), "max_steps": 1},
}


def names() -> list[str]:
    """All that the package exports; a new one must be given its settings here."""
    found = [
        name
        for name, value in inspect.getmembers(mercer, inspect.isclass)
        if issubclass(value, BaseEstimator)
    ]
    assert found == sorted(SETTINGS)
    return found


def made(name: str) -> BaseEstimator:
    return getattr(mercer, name)(**SETTINGS[name])


def lesson(name: str, n: int) -> tuple[np.ndarray, ...]:
    """What the estimator's fit takes, of n points."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    if name == "KernelCCA":
        return X, X[:, :2] ** 2 + 0.3 * rng.normal(size=(n, 2))
    if name in (
        "KernelPCA",
        "KernelDensity",
        "KernelKMeans",
        "KernelSpectralClustering",
        "OneClassSVM",
    ):
        return (X,)
    return (X, (y > 0).astype(int) if is_classifier(made(name)) else y)


def said(model: BaseEstimator, X: np.ndarray) -> list[np.ndarray]:
    """All that the model says of points."""
    methods = ("decision_function", "predict_proba", "transform", "score_samples", "predict")
    found = [np.asarray(getattr(model, m)(X)) for m in methods if hasattr(model, m)]
    return found or [model.labels_]
