"""Ridge fits from points in chunks: sums over the points so far, and the solution of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.estimators.centres import Centres
from mercer.estimators.ridge.engine import Fit, regularisers, where_points_are
from mercer.solvers.nystrom.ridge import solve_nystrom
from mercer.solvers.nystrom.sums import FeatureMoments, accumulated


def with_more_points(
    centres: Centres,
    before: FeatureMoments | None,
    X: Any,
    Y: np.ndarray,
    weight: np.ndarray | None,
) -> FeatureMoments:
    """The sums over the points before and these."""
    Y = Y.reshape(len(Y), -1)
    if centres.operator is not None:
        raise ValueError("chunks must be of points; a precomputed or corrected matrix has none")
    if before is not None and not before.exact:
        raise ValueError(
            "the sums of this fit are over a part of its points, which passes over all made up "
            "for; to learn from points in chunks give all of them to partial_fit"
        )
    if before is not None and len(before.squares) != Y.shape[1]:
        raise ValueError(
            f"y has {Y.shape[1]} targets and the points before had {len(before.squares)}"
        )
    moments = accumulated(centres.blocks(X, Y, weight), centres.whitening, Y.shape[1])
    return moments if before is None else before.merged(moments)


def fit_on_moments(estimator: Any, centres: Centres, moments: FeatureMoments) -> Fit:
    """Solve for what the sums over the points have come to."""
    lam = regularisers(estimator.alpha, len(moments.squares))
    result = solve_nystrom(
        None, centres.whitening, moments, lam, fit_intercept=estimator.fit_intercept
    )
    result = replace(result, method=f"{result.method}, from the sums over {moments.n} points")
    points, coef = centres.expansion(None, result.value.coef)
    fit = Fit(coef, result, result.value.intercept, points=points)
    return where_points_are(fit._replace(centres=centres, moments=moments))
