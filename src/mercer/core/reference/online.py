"""Online learners, one point after another: the NumPy twin of the native routine."""

from __future__ import annotations

import numpy as np


def visit(
    K: np.ndarray,
    Y: np.ndarray,
    F: np.ndarray,
    coef: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    source: np.ndarray,
    threshold: np.ndarray,
    inclusive: bool,
    queue: np.ndarray,
    budget: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Visit targets in turn: where ``y (F + bias)`` is below the threshold, add y to the source.

    ``F``, ``coef`` and ``bias`` are changed in place, so that F stays the scores of the targets.

    Parameters
    ----------
    K : float32 or float64 array of shape (s, t)
        The kernel between sources, which have coefficients, and targets, which are visited.
    Y : array of shape (t, c)
        Labels -1 and +1, one column per machine.
    F : array of shape (c, t)
        Scores of the targets without bias.
    coef : array of shape (c, s)
    bias : array of shape (c,) or None
        Moves with the coefficients if there is one.
    target, source : int64 arrays of shape (k,)
        What is visited at each step, and the source whose coefficient would change.
    threshold : array of shape (k,)
    inclusive : bool
        Whether a margin equal to the threshold falls short too.
    queue : int64 array
        Sources with coefficients, oldest first; looked at under a budget only.
    budget : int
        Most sources with coefficients: beyond it the oldest is forgotten. -1 for any number.

    Returns
    -------
    changed : uint8 array of shape (k, c)
        At which steps which machines changed.
    queue : int64 array
        As it is afterwards.
    """
    changed = np.zeros((len(target), Y.shape[1]), dtype=np.uint8)
    ages = queue.tolist() if budget >= 0 else []
    for i, (t, s) in enumerate(zip(target, source, strict=True)):
        margin = Y[t] * (F[:, t] if bias is None else F[:, t] + bias)
        changed[i] = margin <= threshold[i] if inclusive else margin < threshold[i]
        if not changed[i].any():
            continue
        change = np.where(changed[i], Y[t], 0.0)
        coef[:, s] += change
        if bias is not None:
            bias += change
        F += np.outer(change, K[s])
        if budget < 0:
            continue
        if s not in ages:
            ages.append(int(s))
        while len(ages) > budget:
            oldest = ages.pop(0)
            F -= np.outer(coef[:, oldest], K[oldest])
            coef[:, oldest] = 0.0
    return changed, np.array(ages, dtype=np.int64)
