"""Which estimators fit Dask collections, and how: checks, then the solver of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.distributed.checkpoints import require_seed
from mercer.distributed.points import DaskPoints
from mercer.estimators import (
    KernelDensity,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelRidgeCV,
)
from mercer.estimators.labels import require_weight
from mercer.estimators.machines.engine import (
    classification_loss,
    fit_machines,
    has_levels,
    regression_losses,
)
from mercer.estimators.ridge.engine import fit_on_centres, regularisers, store
from mercer.estimators.spectral.pca_engine import fit_components_on_centres, learn_pre_images
from mercer.estimators.spectral.pre_images import refuse_no_images


def fitter(estimator: Any, method: str) -> Callable:
    """What fits the estimator to Dask collections in place of its own method."""
    found = [fit for kind, fit in FITS.items() if isinstance(estimator, kind)]
    name = type(estimator).__name__
    if not found or method != "fit":
        able = ", ".join(kind.__name__ for kind in FITS)
        instead = f"one of {able}"
        if isinstance(estimator, KernelDensity):
            instead = "sum over all points with mercer.distributed.log_density"
        raise TypeError(
            f"{name}.{method} takes no Dask collection; fit a sample in memory (X.compute()), or "
            f"{instead}. Methods of a fitted {name} take them all"
        )
    solver = getattr(estimator, "solver", getattr(estimator, "eigen_solver", "nystrom"))
    if solver not in ("auto", "nystrom"):
        raise ValueError(
            f"solver={solver!r} needs all points in one memory; Dask collections are fitted with "
            "'nystrom'"
        )
    require_seed(estimator)
    return found[0]


def _ridge(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    check = {"multi_output": True, "y_numeric": True}
    with DaskPoints(estimator, X, y, sample_weight, check=check) as points:
        estimator.kernel_ = points.kernel()
        return _ridge_on(estimator, points, flat=points.survey.columns == 0)


def _ridge_classifier(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    with DaskPoints(estimator, X, y, sample_weight, labels=True) as points:
        estimator.kernel_, estimator.classes_ = points.kernel(), points.classes
        return _ridge_on(estimator, points, flat=len(points.classes) == 2)


def _ridge_on(estimator: Any, points: DaskPoints, flat: bool) -> Any:
    lam = regularisers(estimator.alpha, points.targets.shape[1])
    fit = fit_on_centres(estimator, points, points.targets, lam, points.weights)
    store(estimator, None, fit, flat=flat)
    return estimator


def _ridge_cv(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    if estimator.cv not in (None, "gcv") or estimator.scoring is not None:
        raise ValueError(
            f"cv={estimator.cv!r} and scoring={estimator.scoring!r}; a Dask collection takes "
            "cv=None or 'gcv', and no other score than the mean squared error"
        )
    alphas = estimator._regularisers()
    check = {"multi_output": True, "y_numeric": True}
    with DaskPoints(estimator, X, y, sample_weight, check=check, squares=True) as points:
        estimator.kernel_ = points.kernel()
        fit = estimator._by_centres(points, points.targets, alphas, points.weights)
        store(estimator, None, fit, flat=points.survey.columns == 0)
    return estimator


def _pca(estimator: Any, X: Any, y: Any = None) -> Any:
    with DaskPoints(estimator, X, squares=True) as points:
        estimator.kernel_ = points.kernel()
        fit_components_on_centres(estimator, points)
    if estimator.fit_inverse_transform:
        refuse_no_images(estimator.kernel_, estimator.X_fit_, estimator.pre_image)
        learn_pre_images(estimator, estimator.X_fit_)
    return estimator


def _machine_classifier(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    with DaskPoints(estimator, X, y, sample_weight, labels=True, newton=True) as points:
        estimator.kernel_, estimator.classes_ = points.kernel(), points.classes
        require_weight(points.classes, np.arange(len(points.classes)), points.class_totals())
        targets, weight = points.vectors()
        fit_machines(estimator, points, targets, [classification_loss(estimator)], weight)
    return estimator


def _machine_regressor(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    if has_levels(estimator):
        raise ValueError(
            f"quantile={estimator.quantile!r}; a Dask collection takes one level at a time, since "
            "fits that must not cross need all points in one memory"
        )
    check = {"y_numeric": True}
    with DaskPoints(estimator, X, y, sample_weight, check=check, newton=True) as points:
        estimator.kernel_ = points.kernel()
        if estimator.loss == "quantile":
            estimator.quantiles_ = np.atleast_1d(np.float64(estimator.quantile))
        targets, weight = points.vectors()
        fit_machines(estimator, points, targets, regression_losses(estimator), weight)
    return estimator


FITS: dict[type, Callable] = {
    KernelRidge: _ridge,
    KernelRidgeClassifier: _ridge_classifier,
    KernelRidgeCV: _ridge_cv,
    KernelMachineClassifier: _machine_classifier,
    KernelMachineRegressor: _machine_regressor,
    KernelPCA: _pca,
}
