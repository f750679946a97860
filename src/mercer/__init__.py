"""Kernel methods: kernels you can combine and prove valid, and estimators that use them."""

from mercer import estimators, kernels
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.estimators import *  # noqa: F403 (the estimators are the front door)
from mercer.estimators.importances import feature_importances
from mercer.kernels.checking import check_kernel
from mercer.operators import centred_alignment, gram, hsic, mmd

__version__ = "0.1.0.dev0"
__all__ = [
    "AutoKernelClassifier",
    "AutoKernelRegressor",
    "centred_alignment",
    "check_kernel",
    "feature_importances",
    "gram",
    "hsic",
    "kernels",
    "mmd",
    *estimators.__all__,
]
