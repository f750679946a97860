"""Kernel methods: kernels you can combine and prove valid, and estimators that use them.

What the package holds is imported when it is first asked for.
"""

# ruff: noqa: F403, F405 (the estimators are the front door)
import importlib as _importlib

from mercer._registry import LOADERS as _LOADERS

TYPE_CHECKING = False  # as type checkers read it; typing takes a while to import
if TYPE_CHECKING:
    from typing import Any as _Any

    from mercer import kernels
    from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
    from mercer.dependence import centred_alignment, hsic, mmd
    from mercer.estimators import *
    from mercer.estimators.importances import feature_importances
    from mercer.kernels.checking import check_kernel
    from mercer.operators import gram
    from mercer.persistence import load, read_libsvm, read_notes, save, write_libsvm
    from mercer.reports.report import report

__version__ = "0.1.0.dev0"
__all__ = [
    "SVC",
    "SVR",
    "AutoKernelClassifier",
    "AutoKernelRegressor",
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
    "centred_alignment",
    "check_kernel",
    "feature_importances",
    "gram",
    "hsic",
    "kernels",
    "load",
    "mmd",
    "read_libsvm",
    "read_notes",
    "report",
    "save",
    "write_libsvm",
]

_PACKAGES = (
    "auto",
    "core",
    "dependence",
    "distributed",
    "estimators",
    "expressions",
    "kernels",
    "operators",
    "persistence",
    "plots",
    "reports",
    "solvers",
)
# Where names are that are no packages: with the estimators, but for these.
_MODULES = {
    **dict.fromkeys(__all__, "mercer.estimators"),
    **dict.fromkeys(("AutoKernelClassifier", "AutoKernelRegressor"), "mercer.auto"),
    "feature_importances": "mercer.estimators.importances",
    "check_kernel": "mercer.kernels.checking",
    **dict.fromkeys(("centred_alignment", "hsic", "mmd"), "mercer.dependence"),
    "gram": "mercer.operators",
    "report": "mercer.reports.report",
    **dict.fromkeys(
        ("load", "read_libsvm", "read_notes", "save", "write_libsvm"), "mercer.persistence"
    ),
}


_LOADERS["dask"] = lambda: _importlib.import_module("mercer.distributed")


def __getattr__(name: str) -> "_Any":
    if name not in _PACKAGES and name not in _MODULES:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    try:
        if name in _PACKAGES:
            return _importlib.import_module(f"mercer.{name}")
        found = getattr(_importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:  # hasattr and inspect.getmembers expect this type
        raise AttributeError(f"mercer.{name} cannot be imported: {error}") from error
    globals()[name] = found  # found at once the next time
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_MODULES})
