"""Labelled graphs, many at a time: the NumPy twin of the native routines.

Graphs lie one after the other with their nodes numbered through: those of graph g are offsets[g] to
offsets[g + 1] - 1, and the neighbours of node i are indices[indptr[i]:indptr[i + 1]], increasing.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise

import numpy as np

OF_EDGE = np.uint64(2**64 - 1)


def _rotated(x: np.ndarray, by: int) -> np.ndarray:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def _scrambled(x: np.ndarray) -> np.ndarray:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return x ^ (x >> np.uint64(33))


def mixed(first: np.ndarray, second: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The names of two names in this order, with a number: (n, 2), (n, 2) and (n,) to (n, 2).

    As MurmurHash3 (x64, 128 bits) mixes two blocks of 16 bytes, the number being the seed.
    """
    c, d, five = (np.uint64(v) for v in (0x87C37B91114253D5, 0x4CF5AD432745937F, 5))
    a = b = np.asarray(number, dtype=np.uint64)
    for block in (first, second):
        a = _rotated(a ^ (_rotated(block[:, 0] * c, 31) * d), 27) + b
        a = a * five + np.uint64(0x52DCE729)
        b = _rotated(b ^ (_rotated(block[:, 1] * d, 33) * c), 31) + a
        b = b * five + np.uint64(0x38495AB5)
    a, b = a ^ np.uint64(32), b ^ np.uint64(32)
    a = a + b
    b = b + a
    a, b = _scrambled(a), _scrambled(b)
    a = a + b
    return np.stack((a, b + a), axis=1)


def refined(
    offsets: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    names: np.ndarray,
    edge_codes: np.ndarray | None,
    edge_names: np.ndarray,
    iterations: int,
    threads: int = 0,
) -> np.ndarray:
    """The names of all nodes in the rounds 0, ..., iterations: (iterations + 1, n, 2) uint64.

    Parameters
    ----------
    offsets, indptr : int64 arrays
    indices : int32 array
    names : (n, 2) uint64 array
    edge_codes : int32 array, as long as indices, or None
        Rows of edge_names; None where all edges have its first.
    edge_names : (k, 2) uint64 array
    """
    out = np.empty((iterations + 1, *names.shape), dtype=np.uint64)
    out[0] = names
    edge = edge_names[np.zeros_like(indices) if edge_codes is None else edge_codes]
    degrees = np.diff(indptr)
    for i in range(iterations):
        added = mixed(edge, out[i][indices], np.full(len(indices), OF_EDGE))
        sums = np.concatenate((np.zeros((1, 2), np.uint64), np.cumsum(added, axis=0)))
        out[i + 1] = mixed(out[i], sums[indptr[1:]] - sums[indptr[:-1]], degrees)
    return out


def path_counts(
    offsets: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    codes: np.ndarray,
    threads: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ordered pairs of nodes that a path joins, by the codes of both and their distance.

    Returns
    -------
    keys : (K, 3) uint32 array
        Codes of both ends and the distance, sorted within a graph.
    counts : (K,) float64 array
    starts : (g + 1,) int64 array
        The rows of each graph.
    """
    rows: list[tuple[int, int, int]] = []
    counts: list[int] = []
    starts = [0]
    for first, last in pairwise(offsets.tolist()):
        found: Counter = Counter()
        for source in range(first, last):
            distance = {source: 0}
            queue = deque([source])
            while queue:
                i = queue.popleft()
                for j in indices[indptr[i] : indptr[i + 1]].tolist():
                    if j not in distance:
                        distance[j] = distance[i] + 1
                        queue.append(j)
            del distance[source]
            found.update((int(codes[source]), int(codes[j]), d) for j, d in distance.items())
        for key, count in sorted(found.items()):
            rows.append(key)
            counts.append(count)
        starts.append(len(rows))
    return (
        np.array(rows, dtype=np.uint32).reshape(-1, 3),
        np.array(counts, dtype=np.float64),
        np.array(starts, dtype=np.int64),
    )


def walk_sums(
    offsets: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    edges: np.ndarray,
    offsets2: np.ndarray,
    indptr2: np.ndarray,
    indices2: np.ndarray,
    labels2: np.ndarray,
    edges2: np.ndarray,
    decay: float,
    symmetric: bool,
    threads: int = 0,
) -> np.ndarray:
    r"""The sums over k of decay^k 1ᵀ W^k 1 for the direct products of the graphs of two lists.

    .. math:: W X = M \circ \sum_l A_l X B_l

    where A_l and B_l hold the edges labelled l and M marks the pairs of nodes with equal labels. By
    conjugate gradients, whose error in this sum is the square of their error in the solution; NaN
    where they do not end.
    """
    A = _walk_graphs(offsets, indptr, indices, labels, edges)
    B = A if symmetric else _walk_graphs(offsets2, indptr2, indices2, labels2, edges2)
    K = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j in range(i if symmetric else 0, len(B)):
            K[i, j] = _walk_sum(a, B[j], decay)
            if symmetric:
                K[j, i] = K[i, j]
    return K


def _walk_graphs(
    offsets: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    labels: np.ndarray,
    edges: np.ndarray,
) -> list[tuple[np.ndarray, dict[int, np.ndarray]]]:
    """The labels of each graph's nodes, and its adjacency matrix for each edge label."""
    graphs = []
    for first, last in pairwise(offsets):
        ends = slice(indptr[first], indptr[last])
        rows = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
        matrices = {}
        for label in np.unique(edges[ends]).tolist():
            chosen = edges[ends] == label
            matrices[label] = np.zeros((last - first, last - first))
            matrices[label][rows[chosen], indices[ends][chosen] - first] = 1.0
        graphs.append((labels[first:last], matrices))
    return graphs


def _walk_sum(a: tuple, b: tuple, decay: float) -> float:
    match = (a[0][:, None] == b[0]).astype(float)
    shared = [(a[1][label], b[1][label]) for label in a[1] if label in b[1]]
    r, p, value = match, match, 0.0
    rr = float(match.sum())
    for _ in range(10 * int(rr) + 100):
        if rr == 0:
            return value
        w = p - decay * match * sum((A @ p @ B for A, B in shared), np.zeros_like(p))
        curvature = float((p * w).sum())
        if not curvature > 0:
            break
        alpha = rr / curvature
        value += alpha * rr  # 1ᵀ x, since 1ᵀ p = rᵀ r for every direction
        r = r - alpha * w
        rr, before = float((r * r).sum()), rr
        if alpha * rr <= 1e-15 * value * (1 - rr / before):
            return value
        p = r + rr / before * p
    return np.nan


def spectral_sums(
    offsets: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    offsets2: np.ndarray,
    values2: np.ndarray,
    weights2: np.ndarray,
    decay: float,
    symmetric: bool,
    threads: int = 0,
) -> np.ndarray:
    """The same for graphs with a single label, from eigenvalues and their weights (1ᵀu)².

    Σ_ij u_i v_j / (1 - decay s_i t_j) over the eigenvalues s of a graph and t of another.
    """
    K = np.zeros((len(offsets) - 1, len(offsets2) - 1))
    for i in range(K.shape[0]):
        own = slice(offsets[i], offsets[i + 1])
        T = weights2 / (1 - decay * values[own, None] * values2)
        for j in range(K.shape[1]):
            K[i, j] = (weights[own] @ T[:, offsets2[j] : offsets2[j + 1]]).sum()
    return K


def subgraph_counts(
    offsets: np.ndarray, indptr: np.ndarray, indices: np.ndarray, size: int, threads: int = 0
) -> np.ndarray:
    """Connected induced subgraphs of 1 to `size` nodes of each graph, by pattern: int64.

    A set of s nodes has a pattern of s(s - 1)/2 bits, bit j(j - 1)/2 + i for the pair of its nodes
    number i < j, in whatever order; the patterns of one size follow those of the sizes before.
    """
    widths = [1 << s * (s - 1) // 2 for s in range(1, size + 1)]
    out = np.zeros((len(offsets) - 1, sum(widths)), dtype=np.int64)
    for g, (first, last) in enumerate(pairwise(offsets.tolist())):
        around = {i: set(indices[indptr[i] : indptr[i + 1]].tolist()) for i in range(first, last)}
        sets = {frozenset([i]) for i in around}
        for s in range(1, size + 1):
            start = sum(widths[: s - 1])
            for nodes in sets:
                order = list(nodes)
                pattern = sum(
                    1 << j * (j - 1) // 2 + i
                    for j in range(s)
                    for i in range(j)
                    if order[i] in around[order[j]]
                )
                out[g, start + pattern] += 1
            sets = {nodes | {j} for nodes in sets for i in nodes for j in around[i] - nodes}
    return out
