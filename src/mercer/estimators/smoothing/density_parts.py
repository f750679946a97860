"""Densities of some of the features: what a Parzen density leaves when others are given or gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.estimators.smoothing.bandwidths import resolve_bandwidth, simplest_form
from mercer.kernels.smoothing.window import SmoothingKernel
from mercer.kernels.smoothing.windows import BallPower, Gaussian, Hypercube


def marginal(kde: Any, features: Sequence[Any]) -> Any:
    """The fitted density of some features, the others integrated out."""
    kept = _columns(kde, features)
    return _like(
        kde,
        kernel=_marginal_kernel(kde, len(kept)),
        bandwidth=_part_of_bandwidth(kde.bandwidth_, kept),
        X=kde.X_fit_[:, kept],
        weight=kde.sample_weight_,
        local=kde.local_bandwidths_,
        box=kde._box().part(kept),
        columns=kept,
        total=kde._total_weight,
    )


def conditional(kde: Any, given: Mapping[Any, float]) -> Any:
    """The fitted density of the other features where some have given values."""
    at = _columns(kde, list(given))
    values = np.array([list(given.values())], dtype=np.float64)
    rest = [k for k in range(kde.n_features_in_) if k not in at]
    if not rest:
        raise ValueError("given names every feature; expected some of them")
    if not np.isfinite(values).all():
        raise ValueError(f"given={dict(given)} must have finite values")
    box = kde._box()
    if not box.part(at).contains(values)[0]:
        raise ValueError(f"given={dict(given)} lies outside bounds")
    conditioner = _Conditioner(kde, at, rest)
    parts = [conditioner(image[0]) for image in box.part(at).images(values, kde._reach()[at])]
    X, log_weight, factors = zip(*parts, strict=True)
    X, log_weight = box.part(rest).nearby(np.concatenate(X)), np.concatenate(log_weight)
    local = None if factors[0] is None else np.concatenate(factors)
    top = log_weight.max()
    if not np.isfinite(top):
        raise ValueError(f"no point is in reach of given={dict(given)}: p is zero there")
    weight = np.exp(log_weight - top)
    kept = weight > 0
    return _like(
        kde,
        kernel=kde.kernel_,
        bandwidth=conditioner.bandwidth,
        X=X[kept],
        weight=weight[kept] / weight[kept].sum(),
        local=None if local is None else local[kept],
        box=box.part(rest),
        columns=rest,
        total=1.0,
    )


class _Conditioner:
    """What becomes of points, weights and scales where the features ``at`` have given values."""

    def __init__(self, kde: Any, at: list[int], rest: list[int]):
        self.kde, self.at, self.rest = kde, at, rest
        self.kernel = _marginal_kernel(kde, len(at))
        h = kde.bandwidth_
        self.given = resolve_bandwidth(_part_of_bandwidth(h, at), len(at))
        if isinstance(h, float) or h.ndim == 1:
            self.bandwidth = _part_of_bandwidth(h, rest)
            self.slope = np.zeros((len(rest), len(at)))
        else:
            inner, across = h[np.ix_(at, at)], h[np.ix_(rest, at)]
            self.slope = np.linalg.solve(inner, across.T).T
            self.bandwidth = h[np.ix_(rest, rest)] - self.slope @ across.T

    def __call__(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        kde = self.kde
        away = values - kde.X_fit_[:, self.at]
        u, local = self.given.shrink(away), kde.local_bandwidths_
        log_weight = np.log(kde.sample_weight_)
        if local is not None:
            u = u / local[:, None]
            log_weight = log_weight - len(self.at) * np.log(local)
        log_weight = log_weight + self.kernel.log_pairs(u, np.zeros((1, len(self.at))))[:, 0]
        if isinstance(kde.kernel_, BallPower):
            # (1 - a² - b²)^p = (1 - b²)^p (1 - a²/(1 - b²))^p: a ball of another radius.
            shrunk = np.sqrt(np.maximum(1 - (u**2).sum(axis=1), np.finfo(float).tiny))
            local = shrunk if local is None else shrunk * local
        return kde.X_fit_[:, self.rest] + away @ self.slope.T, log_weight, local


def _columns(kde: Any, features: Sequence[Any]) -> list[int]:
    d, names = kde.n_features_in_, list(getattr(kde, "feature_names_in_", ()))
    chosen = [names.index(k) if k in names else k for k in features]
    known = all(isinstance(k, int | np.integer) and 0 <= k < d for k in chosen)
    if not chosen or len(set(chosen)) < len(chosen) or not known:
        raise ValueError(
            f"features={list(features)} were named; expected some of the columns 0 to {d - 1}"
            f"{f' or {names}' if names else ''}, each once"
        )
    return chosen


def _marginal_kernel(kde: Any, kept: int) -> SmoothingKernel:
    gone = kde.n_features_in_ - kept
    if isinstance(kde.kernel_, Gaussian | Hypercube) or gone == 0:
        return kde.kernel_
    if isinstance(kde.kernel_, BallPower):
        return BallPower(kde.kernel_.power + gone / 2)
    raise ValueError(
        f"kernel={kde.kernel!r} has no marginal of its own kind; use 'gaussian', 'hypercube', "
        "'tophat', 'epanechnikov', 'biweight' or 'triweight'"
    )


def _part_of_bandwidth(h: Any, kept: list[int]) -> Any:
    if isinstance(h, float):
        return h
    return simplest_form(h[kept]) if h.ndim == 1 else h[np.ix_(kept, kept)]


def _like(kde: Any, *, kernel, bandwidth, X, weight, local, box, columns, total) -> Any:
    """A fitted density made from parts of another."""
    other = type(kde)(
        bandwidth=bandwidth, kernel=kernel, method="auto", rtol=kde.rtol, atol=kde.atol
    )
    other.n_features_in_ = X.shape[1]
    other.kernel_, other.bandwidth_, other.selection_ = kernel, bandwidth, None
    other.X_fit_, other.sample_weight_, other.local_bandwidths_ = X, weight, local
    other._bounds, other._total_weight = box, total
    if hasattr(kde, "feature_names_in_"):
        other.feature_names_in_ = kde.feature_names_in_[columns]
    if box.is_bounded:
        other.bounds = np.column_stack([box.low, box.high])
    if local is not None:
        other.adaptive = local
    return other
