"""Arrays of other libraries, converted to those we compute with, and back, without a copy.

On a device they are worked on as torch's tensors. On the host it is scikit-learn's setting
``array_api_dispatch`` that asks for it, and they are worked on as NumPy's.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import sklearn

HOST = (1, 3)  # kDLCPU and kDLCUDAHost of DLPack


def is_tensor(X: Any) -> bool:
    """Whether X is a torch tensor, on whatever device; torch is not imported to find out."""
    return "torch" in sys.modules and isinstance(X, sys.modules["torch"].Tensor)


def is_half(X: Any) -> bool:
    """Whether X is a tensor in half precision, which is computed with in float32."""
    return is_tensor(X) and str(X.dtype) in ("torch.float16", "torch.bfloat16")


def tensor_as_numpy(X: Any) -> np.ndarray:
    """A tensor as an array in this machine's memory; half precision as float32."""
    X = X.detach().cpu()
    return (X.float() if is_half(X) else X).numpy()


def is_recorded(X: Any) -> bool:
    """Whether X is a tensor by which torch is to find derivatives."""
    return is_tensor(X) and X.requires_grad and sys.modules["torch"].is_grad_enabled()


def is_foreign(X: Any) -> bool:
    """Whether X is an array of neither NumPy nor torch that is to be answered in kind."""
    if isinstance(X, np.ndarray | np.generic) or is_tensor(X):
        return False
    if hasattr(X, "__array_namespace__") and sklearn.get_config()["array_api_dispatch"]:
        return True
    return _is_on_device(X)


def _is_on_device(X: Any) -> bool:
    """Whether X is an array that says it is not in this machine's own memory."""
    if isinstance(X, type) or not hasattr(X, "__dlpack_device__"):
        return False
    return X.__dlpack_device__()[0] not in HOST


def to_native(X: Any) -> Any:
    """X's numbers as an array of NumPy's or, on a device, as a tensor; what is none as it is."""
    if not is_foreign(X):
        return X
    if not _is_on_device(X):
        return np.from_dlpack(X)
    try:
        return importlib.import_module("torch").from_dlpack(X)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"X is a {type(X).__module__}.{type(X).__name__} on a device, where mercer computes "
            "with torch, which is not installed: pip install 'mercer[gpu]', or pass X in the "
            "memory of the host"
        ) from error


def is_numbers(found: Any) -> bool:
    """Whether it is an array of NumPy's that holds numbers."""
    return isinstance(found, np.ndarray) and found.dtype.kind in "biufc"


def tensor_where(values: np.ndarray, X: Any) -> Any:
    """Numbers as a tensor on X's device, in their own dtype."""
    values = np.require(values, requirements=("C", "W"))
    return sys.modules["torch"].as_tensor(values, device=X.device)


def to_input_type(found: Any, X: Any) -> Any:
    """What was computed from X in X's library, as far as it is numbers where X is."""
    if isinstance(found, tuple):
        return tuple(to_input_type(each, X) for each in found)
    if is_tensor(X) and is_numbers(found):
        if found.dtype.kind == "f" and X.is_floating_point():
            dtype = "float32" if is_half(X) else str(X.dtype).removeprefix("torch.")
            found = found.astype(dtype, copy=False)
        return tensor_where(found, X)
    if not is_foreign(X):
        return found
    found = to_input_type(found, to_native(X))
    if isinstance(found, np.ndarray):
        if not is_numbers(found):
            return found  # labels, which stay on the host
        # NumPy 2.0 reads through DLPack what may not be written to.
        return _library(X).asarray(np.require(found, requirements=("C", "W")))
    return _library(X).from_dlpack(found) if hasattr(found, "__dlpack__") else found


def _library(X: Any) -> Any:
    """The module with the functions of X's library."""
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__()
    return sys.modules[type(X).__module__.partition(".")[0]]  # as of CuPy before version 14
