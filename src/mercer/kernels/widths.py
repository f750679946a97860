"""Widths that are settled on points: ``gamma="scale"`` or ``"median"``, and length scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import clone

from mercer.arrays import as_dense, as_numpy, n_rows
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.columns import OnColumns
from mercer.kernels.kernel import WIDTHS, Kernel, has_named_widths
from mercer.kernels.transformations import Composed

# Most points that distances are taken of.
MOST_POINTS = 2000
# Distances that the width of a kernel is one of: the power of it that gamma divides.
_DISTANCES: dict[str, tuple[Any, int]] = {
    "RBF": ("euclidean", 2),
    "Exponential": ("euclidean", 1),
    "Laplacian": ("cityblock", 1),
}


def settled(kernel: Kernel, X: Any) -> Kernel:
    r"""The kernel with numbers for the widths that are given by name.

    "median" is the median distance m between points that differ: the RBF has
    :math:`\gamma = 1/(2m^2)`, `Exponential` and `Laplacian` (with the l1 distance)
    :math:`\gamma = 1/m`, and a ``length_scale`` is m. "scale" has, in the place of m, what the
    distance would be for independent features of variance v: for d features
    :math:`\sqrt{d v/2}` in the RBF, so that :math:`\gamma = 1/(d v)` as in scikit-learn,
    :math:`\sqrt{d v}` and :math:`d\sqrt v` in the others.

    Parameters
    ----------
    kernel : Kernel
    X : the training points

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels as K
    >>> settled(K.RBF(gamma="median") + K.Linear(), np.array([[0.0], [2.0], [4.0]]))
    RBF(gamma=0.125) + Linear()
    """
    if not has_named_widths(kernel):
        return kernel
    kernel = clone(kernel)
    _settle(kernel, X)
    return kernel


def _settle(kernel: Any, X: Any) -> None:
    """Settle the widths in place."""
    if isinstance(kernel, Sum | Product):
        _settle(kernel.left, X)
        _settle(kernel.right, X)
    elif isinstance(kernel, OnColumns):
        _settle(kernel.kernel, kernel.chosen(X))
    elif isinstance(kernel, Composed):
        _settle(kernel.kernel, kernel.function(X))
    elif isinstance(getattr(kernel, "kernel", None), Kernel):
        _settle(kernel.kernel, X)
    for name in ("gamma", "length_scale"):
        rule = getattr(kernel, name, None)
        if isinstance(rule, str) and rule in WIDTHS:
            setattr(kernel, name, _width(kernel, name, rule, X))


def _width(kernel: Any, name: str, rule: str, X: Any) -> float:
    points = as_numpy(as_dense(X[:: max(1, -(-n_rows(X) // MOST_POINTS))])).astype(np.float64)
    scales = kernel.checked_scales() if hasattr(kernel, "checked_scales") else None
    points = points if scales is None else points / scales
    metric, power = _DISTANCES.get(type(kernel).__name__, ("euclidean", 1))
    if rule == "median":
        between = pdist(points, metric) if len(points) > 1 else np.empty(0)
        between = between[between > 0]
        m = float(np.median(between)) if len(between) else 1.0
    else:
        variance, d = float(points.var()), points.shape[1]
        m = d * np.sqrt(variance) if metric == "cityblock" else np.sqrt(d * variance)
        m = (m / np.sqrt(2) if power == 2 else m) if variance > 0 else 1.0
    if name == "length_scale":
        return float(m)
    return float(1 / (2 * m**2) if power == 2 else 1 / m)
