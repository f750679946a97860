"""Arrays of other libraries that follow the array API, taken in and handed back without a copy.

It is scikit-learn's setting ``array_api_dispatch`` that asks for it. On the host they are worked on
as NumPy's, on a device as torch's tensors.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import sklearn

HOST = 1  # kDLCPU of DLPack


def is_foreign(X: Any) -> bool:
    """Whether X is an array of neither NumPy nor torch that is to be answered in kind."""
    return (
        hasattr(X, "__array_namespace__")
        and not isinstance(X, np.ndarray | np.generic)
        and sklearn.get_config()["array_api_dispatch"]
    )


def taken(X: Any) -> Any:
    """X's numbers as an array of NumPy's or, on a device, as a tensor; what is none as it is."""
    if not is_foreign(X):
        return X
    if X.__dlpack_device__()[0] == HOST:
        return np.from_dlpack(X)
    return importlib.import_module("torch").from_dlpack(X)


def handed_back(found: Any, X: Any) -> Any:
    """What was computed from X in X's library, as far as it is numbers where X is."""
    if not is_foreign(X):
        return found
    if isinstance(found, np.ndarray):
        on_host = X.__dlpack_device__()[0] == HOST
        if not on_host or found.dtype.kind not in "biufc":
            return found  # labels, which stay on the host
        found = np.require(found, requirements=("C", "W"))
    return X.__array_namespace__().from_dlpack(found) if hasattr(found, "__dlpack__") else found
