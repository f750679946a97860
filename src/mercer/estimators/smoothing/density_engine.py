"""From the parameters of a density estimator to its bandwidths and fitted attributes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, to_float64
from mercer.estimators.inputs import tensor_of_points
from mercer.estimators.smoothing.bandwidth_rules import rule_bandwidth
from mercer.estimators.smoothing.bandwidths import resolve_bandwidth, simplest_form
from mercer.estimators.smoothing.supports import BoxSupport
from mercer.kernels.smoothing.densities import smoothing_kernel


def fit_to_tensor(density: Any, X: Any, weight: np.ndarray | None) -> Any:
    """What `fit` does, with the points where they are; rules are settled on the host."""
    X = tensor_of_points(density, X, reset=True)
    if (
        density.bounds is not None
        or np.any(density.adaptive)
        or density.method not in ("auto", "exact")
    ):
        raise ValueError(
            "bounds, adaptive and the methods 'tree' and 'grid' are not available for "
            "tensors; pass X.cpu().numpy()"
        )
    if not isinstance(density.kernel, str):
        raise TypeError("kernel is a function of arrays; with tensors name one")
    if isinstance(density.bandwidth, str) or weight is not None:
        kept = slice(None) if weight is None else np.flatnonzero(weight)
        fit_to_array(density, as_numpy(to_float64(X)), weight)
        density.X_fit_ = X[kept]
    else:
        # Of the points nothing but their number and width matters.
        fit_to_array(density, np.zeros((1, X.shape[1])), None)
        density.X_fit_, density._total_weight = X, float(len(X))
        density.sample_weight_ = np.full(len(X), 1 / len(X))
    return density


def fit_to_array(density: Any, X: np.ndarray, weight: np.ndarray | None) -> Any:
    """Store the points that have weight and settle the bandwidths."""
    n, d = X.shape
    kept, density._total_weight, share = np.ones(n, dtype=bool), float(n), np.full(n, 1 / n)
    if weight is not None:
        kept, density._total_weight = weight > 0, float(weight.sum())
        X, share = X[kept], weight[kept] / density._total_weight
    box = BoxSupport.read(density.bounds, d)
    box.refuse_outside(X)
    density.kernel_ = smoothing_kernel(density.kernel, d)
    density.selection_ = None
    density.bandwidth_ = settled_bandwidth(density, X, share)
    density.X_fit_, density.sample_weight_, density.local_bandwidths_ = X, share, None
    density._bounds = box
    density.local_bandwidths_ = local_factors(density, kept)
    if density.method != "auto":
        refusal = density._mixture().refusal(density.method)
        if refusal is None and density.method == "grid" and density.atol == 0:
            refusal = "a grid needs atol above zero"
        if refusal is not None:
            raise ValueError(f"method={density.method!r}: {refusal}; use method='exact' or 'auto'")
    return density


def refuse_other_metrics(density: Any) -> None:
    if density.metric != "euclidean" or density.metric_params:
        raise ValueError(
            f"metric={density.metric!r} with metric_params={density.metric_params!r}; only "
            "'euclidean' is there, without parameters: for the Mahalanobis distance pass "
            "bandwidth=H, for another a function of the scaled difference as kernel"
        )


def settled_bandwidth(density: Any, X: np.ndarray, weight: np.ndarray) -> float | np.ndarray:
    d = X.shape[1]
    if isinstance(density.bandwidth, str):
        return _by_rule(density, density.bandwidth, X, weight)
    if resolve_bandwidth(density.bandwidth, d).is_matrix:
        _refuse_matrix(density, "bandwidth is a matrix")
    if isinstance(density.bandwidth, Real):
        return float(density.bandwidth)
    return np.array(density.bandwidth, dtype=float)


def _by_rule(density: Any, rule: str, X: np.ndarray, weight: np.ndarray) -> float | np.ndarray:
    d, variance = X.shape[1], density.kernel_.variance(X.shape[1])
    if rule == "plugin" and d > 1:
        _refuse_matrix(density, "bandwidth='plugin' gives a matrix")
    found, density.selection_ = rule_bandwidth(rule, X, weight, variance)
    return simplest_form(found) if found.ndim == 1 else found


def _refuse_matrix(density: Any, which: str) -> None:
    if not density.kernel_.radial:
        raise ValueError(
            f"{which}, which turns the axes that kernel={density.kernel!r} depends "
            "on; give one bandwidth for each feature, or use a radial kernel"
        )


def local_factors(density: Any, kept: np.ndarray) -> np.ndarray | None:
    if isinstance(density.adaptive, Real):
        if density.adaptive == 0:
            return None
        log_p = density._log_density(density.X_fit_)
        return np.exp(-float(density.adaptive) * (log_p - density.sample_weight_ @ log_p))
    local = np.asarray(density.adaptive, dtype=float)
    if local.shape != kept.shape or not np.all(np.isfinite(local)) or local.min() <= 0:
        raise ValueError(
            f"adaptive has shape {local.shape}; expected a number, or a positive factor for "
            f"each of the {len(kept)} points"
        )
    return local[kept]
