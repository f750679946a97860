"""scikit-learn estimators: validate, Gram operator, solver, fitted attributes.

A family is imported when one of its estimators is first asked for.
"""

import importlib as _importlib
import pkgutil as _pkgutil

TYPE_CHECKING = False  # as type checkers read it; typing takes a while to import
if TYPE_CHECKING:
    from typing import Any as _Any

    from mercer.estimators.clustering.centroid import KernelCentroidClassifier
    from mercer.estimators.clustering.kmeans import KernelKMeans
    from mercer.estimators.clustering.spectral import KernelSpectralClustering
    from mercer.estimators.gaussian_process.classification import GaussianProcessClassifier
    from mercer.estimators.gaussian_process.regression import GaussianProcessRegressor
    from mercer.estimators.gaussian_process.structure import StructureSearch
    from mercer.estimators.machines.classification import KernelMachineClassifier
    from mercer.estimators.machines.regression import KernelMachineRegressor
    from mercer.estimators.online.perceptron import KernelPerceptron
    from mercer.estimators.online.sgd import KernelSGDClassifier
    from mercer.estimators.ridge.classification import KernelRidgeClassifier
    from mercer.estimators.ridge.cross_validation import KernelRidgeCV
    from mercer.estimators.ridge.regression import KernelRidge
    from mercer.estimators.smoothing.density import KernelDensity
    from mercer.estimators.smoothing.smoothers import (
        LocalLinearRegressor,
        NadarayaWatsonClassifier,
        NadarayaWatsonRegressor,
    )
    from mercer.estimators.spectral.cca import KernelCCA
    from mercer.estimators.spectral.pca import KernelPCA
    from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

__all__ = [
    "SVC",
    "SVR",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelCCA",
    "KernelCentroidClassifier",
    "KernelDensity",
    "KernelKMeans",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "KernelSGDClassifier",
    "KernelSpectralClustering",
    "LocalLinearRegressor",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "StructureSearch",
]

_NAMES = {
    "clustering.centroid": ("KernelCentroidClassifier",),
    "clustering.kmeans": ("KernelKMeans",),
    "clustering.spectral": ("KernelSpectralClustering",),
    "gaussian_process.classification": ("GaussianProcessClassifier",),
    "gaussian_process.regression": ("GaussianProcessRegressor",),
    "gaussian_process.structure": ("StructureSearch",),
    "machines.classification": ("KernelMachineClassifier",),
    "machines.regression": ("KernelMachineRegressor",),
    "online.perceptron": ("KernelPerceptron",),
    "online.sgd": ("KernelSGDClassifier",),
    "ridge.classification": ("KernelRidgeClassifier",),
    "ridge.cross_validation": ("KernelRidgeCV",),
    "ridge.regression": ("KernelRidge",),
    "smoothing.density": ("KernelDensity",),
    "smoothing.smoothers": (
        "LocalLinearRegressor",
        "NadarayaWatsonClassifier",
        "NadarayaWatsonRegressor",
    ),
    "spectral.cca": ("KernelCCA",),
    "spectral.pca": ("KernelPCA",),
    "svm": ("SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SUBMODULES = {module.name for module in _pkgutil.iter_modules(__path__)}


def __getattr__(name: str) -> "_Any":
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(_importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_SUBMODULES})
