"""The kernels of working sets on a device, one step after the other in NumPy."""

from __future__ import annotations

import numpy as np


def work(a, F, lo, hi, group, Q, target, limit, steps, flat, most, groups):
    """As `mercer.core.triton.working_sets.work`."""
    rows = [A.numpy() for A in (a, F, lo, hi, group, Q, target, limit)]
    for b, (x, f, low, high, g, q, goal, left) in enumerate(zip(*rows, strict=True)):
        f, q, taken = f.copy(), q.astype(np.float64), 0
        step = pair if groups else single
        while taken < min(left, most) and step(x, f, low, high, g, q, goal, flat, groups):
            taken += 1
        steps[b] = taken


def pair(a, F, lo, hi, group, Q, goal, flat, groups):
    """One step of two variables, in place; whether there was one to take."""
    pairs = []
    for g in range(groups):
        rising = np.where((group == g) & (a < hi), F, np.inf)
        falling = np.where((group == g) & (a > lo), F, -np.inf)
        pairs.append((falling.max() - rising.min(), int(np.argmin(rising)), g))
    violation, i, g = max(pairs, key=lambda found: found[0])
    if not violation > goal:
        return False
    curvature = np.maximum(Q.diagonal() + Q[i, i] - 2 * Q[i], flat)
    fall = F - F[i]
    gain = np.where((group == g) & (a > lo) & (fall > 0), fall**2 / curvature, -1.0)
    j = int(np.argmax(gain))
    room, fallen = hi[i] - a[i], a[j] - lo[j]
    step = min(fall[j] / curvature[j], room, fallen)
    F += step * (Q[i] - Q[j])
    a[i] = hi[i] if step >= room else a[i] + step
    a[j] = lo[j] if step >= fallen else a[j] - step
    return True


def single(a, F, lo, hi, group, Q, goal, flat, groups):
    """One step of one variable, in place; whether there was one to take."""
    able = ((F < 0) & (a < hi)) | ((F > 0) & (a > lo))
    if not np.max(np.abs(F), where=able, initial=0.0) > goal:
        return False
    own = np.maximum(Q.diagonal(), flat)
    bound = np.where(F < 0, hi, lo)
    to = np.where(np.abs(F) >= own * np.abs(bound - a), bound, a - F / own)
    move = np.abs(to - a)
    i = int(np.argmax(np.where(able, move * (2 * np.abs(F) - own * move), -1.0)))
    F += (to[i] - a[i]) * Q[i]
    a[i] = to[i]
    return True


def follow(K, column, F, point, amount, count):
    """As `mercer.core.triton.working_sets.follow`."""
    for b in range(len(F)):
        some = point[b, : count[b]].long()
        F[b] += (amount[b, : count[b]] @ K[some][:, column[b].long()]).double()
