"""Kernel methods: kernels you can combine and prove valid, and estimators that use them."""

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

from mercer import estimators, kernels
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor
from mercer.estimators import *  # noqa: F403 (the estimators are the front door)
from mercer.estimators.importances import feature_importances
from mercer.kernels.checking import check_kernel
from mercer.operators import centred_alignment, gram, hsic, mmd

if TYPE_CHECKING:
    from mercer.persistence import load, read_libsvm, read_notes, save, write_libsvm

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
    "load",
    "mmd",
    "read_libsvm",
    "read_notes",
    "save",
    "write_libsvm",
    *estimators.__all__,
]

# What is imported when it is first asked for.
_LATER = dict.fromkeys(
    ("load", "read_libsvm", "read_notes", "save", "write_libsvm"), "mercer.persistence"
)


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    return getattr(_importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
