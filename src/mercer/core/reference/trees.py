"""Sums over pairs of matching nodes of two ordered trees: the NumPy twin of the native routine.

Trees lie one after the other, their nodes in post-order and numbered through; the children of node
i, left to right, are child[children[i]:children[i + 1]]. Only nodes with equal keys match, and -1
matches nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def tree_sums(
    offsets: np.ndarray,
    keys: np.ndarray,
    children: np.ndarray,
    child: np.ndarray,
    offsets2: np.ndarray,
    keys2: np.ndarray,
    children2: np.ndarray,
    child2: np.ndarray,
    decay: float,
    mu: float | None,
    symmetric: bool,
    threads: int = 0,
) -> np.ndarray:
    """The sums over all pairs of matching nodes of the trees of two lists, (n, m).

    Of whole productions, delta(s, t) = decay Π_i (1 + delta(s_i, t_i)); or, where mu is a number,
    of partial ones, delta(s, t) = mu (decay² + the sum over common subsequences of the children).

    Parameters
    ----------
    offsets, children, child : int64 arrays
    keys : int32 array
    """
    first = _split(offsets, keys, children, child)
    second = first if symmetric else _split(offsets2, keys2, children2, child2)
    K = np.empty((len(first), len(second)))
    for i, S in enumerate(first):
        for j in range(i if symmetric else 0, len(second)):
            K[i, j] = _pair_sum(S, second[j], decay, mu)
            if symmetric:
                K[j, i] = K[i, j]
    return K


Node = tuple[int, list[int]]  # the key and the children


def _split(
    offsets: np.ndarray, keys: np.ndarray, children: np.ndarray, child: np.ndarray
) -> list[list[Node]]:
    return [
        [
            (int(keys[i]), (child[children[i] : children[i + 1]] - first).tolist())
            for i in range(first, last)
        ]
        for first, last in pairwise(offsets.tolist())
    ]


def _pair_sum(S: list[Node], T: list[Node], decay: float, mu: float | None) -> float:
    groups: dict[int, list[int]] = {}
    for t, (key, _) in enumerate(T):
        if key >= 0:
            groups.setdefault(key, []).append(t)
    delta: dict[int, dict[int, float]] = {}  # of nodes whose parent is still to come
    total = 0.0
    for s, (key, below) in enumerate(S):
        rows = [delta.pop(child) for child in below]
        delta[s] = {
            t: _whole(rows, T[t][1], decay)
            if mu is None
            else mu * (decay**2 + _partial(rows, T[t][1], decay))
            for t in groups.get(key, ())
        }
        total += sum(delta[s].values())
    return total


def _whole(rows: list[dict[int, float]], below: list[int], decay: float) -> float:
    value = float(decay)
    for row, child in zip(rows, below, strict=True):
        value *= 1 + row.get(child, 0.0)
    return value


def _partial(rows: list[dict[int, float]], below: list[int], decay: float) -> float:
    r"""The sum over common subsequences of products of matches, gaps weighted by decay.

    .. math::
        \sum_{p \ge 1} \sum_{i_1 < \dots < i_p} \sum_{j_1 < \dots < j_p}
        \lambda^{i_p - i_1 + j_p - j_1 - 2(p - 1)} \prod_r \delta_{i_r j_r}
    """
    total = 0.0
    ending = [0.0] * len(below)  # sums over subsequences that end at child i of s and child j of t
    before = [0.0] * len(below)  # the same over all children before i, decayed with the distance
    for row in rows:
        earlier = 0.0
        for j, child in enumerate(below):
            before[j] = decay * before[j] + ending[j]
            ending[j] = row.get(child, 0.0) * (1 + earlier)
            earlier = decay * earlier + before[j]
            total += ending[j]
    return total
