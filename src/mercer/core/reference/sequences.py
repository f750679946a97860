"""Kernels of sequences, pair by pair, in NumPy: the twin of the native routines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# The tables of a batch should stay in cache; how many arrays of its size are alive at once.
BATCH_BYTES = 2**23
TABLES = 5


def common_subsequences(
    symbols: np.ndarray,
    starts: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    length: int,
    decay: float,
    threads: int = 0,
) -> np.ndarray:
    """Gap-weighted common subsequences of pairs of sequences.

    Parameters
    ----------
    symbols : (N,) float64, whole numbers, not negative
        Sequence i is ``symbols[starts[i]:starts[i + 1]]``.
    starts : (n + 1,) int64
    left, right : (p,) int64
        The numbers of the sequences of each pair.
    length : int
        Symbols of a subsequence.
    decay : float

    Returns
    -------
    (p,) float64
    """
    out = np.zeros(len(left))
    for pairs in _batches(np.diff(starts)[left], np.diff(starts)[right]):
        s = _padded(symbols, starts, left[pairs], -1.0)  # fillers match nothing
        t = _padded(symbols, starts, right[pairs], -2.0)
        out[pairs] = _matches(s, t, length, decay)
    return out


def _matches(s: np.ndarray, t: np.ndarray, length: int, decay: float) -> np.ndarray:
    """For each row of s and t.

    ends[b, i, j] is the weight of all common subsequences whose last symbols are at i in s and at j
    in t. One more symbol may follow anywhere below and to the right, at a cost of decay per step: a
    first-order recursive filter along each axis. The rows of long sequences are taken in strips,
    between which the filters along columns hand on their state.
    """
    from scipy.signal import lfilter  # slow to import

    step = [0.0, 1.0], [1.0, -decay]
    states = np.zeros((length - 1, len(t), 1, t.shape[1]))
    out = np.zeros(len(t))
    if t.shape[1] == 0:
        return out
    strip = max(1, BATCH_BYTES // (8 * TABLES * t.size))
    for start in range(0, s.shape[1], strip):
        rows = slice(start, start + strip)
        match = np.where(s[:, rows, None] == t[:, None, :], decay**2, 0.0)
        ends = match
        for state in states:
            above, state[:] = lfilter(*step, ends, axis=1, zi=state)
            ends = match * lfilter(*step, above, axis=2)
        out += ends.sum(axis=(1, 2))
    return out


def weighted_degree(
    S: np.ndarray,
    T: np.ndarray,
    degree: float,
    shifts: np.ndarray,
    symmetric: bool = False,
    threads: int = 0,
) -> np.ndarray:
    """Words of up to ``degree`` symbols that sequences share at positions r apart.

    Parameters
    ----------
    S : (n, length) int16 or float64, whole numbers that are not negative
        int16 if degree (degree + 1) < 2^15.
    T : (m, length), of the same type
    degree : float, a whole number
    shifts : (reach + 1,) float64
        What words at positions r apart weigh.
    symmetric : bool
        Whether S and T are the same.

    Returns
    -------
    (n, m) float64
    """
    return common_words(S[:, None], T[None], degree, shifts)


def common_words(S: np.ndarray, T: np.ndarray, degree: float, shifts: np.ndarray) -> np.ndarray:
    """The same for the sequences along the last axis of arrays that broadcast."""
    length = S.shape[-1]
    out = np.zeros(np.broadcast_shapes(S.shape[:-1], T.shape[:-1]))
    for r in range(1 - len(shifts), len(shifts)):
        start, other = max(r, 0), max(-r, 0)
        run, total = np.zeros(out.shape), np.zeros(out.shape)
        for k in range(length - abs(r)):
            same = S[..., start + k] == T[..., other + k]
            run = np.where(same, np.minimum(run + 1, degree), 0)
            total += run * (2 * degree + 1 - run)  # of the words that end here
        out += shifts[abs(r)] * total
    return out / (degree * (degree + 1))


def common_windows(
    symbols: np.ndarray,
    starts: np.ndarray,
    symbols2: np.ndarray,
    starts2: np.ndarray,
    k: int,
    weight: np.ndarray,
    symmetric: bool = False,
    threads: int = 0,
) -> np.ndarray:
    """Sums over all pairs of words of k symbols, by how many places they differ in.

    Parameters
    ----------
    symbols, symbols2 : (N,) uint8, below 254
        Sequence i is ``symbols[starts[i]:starts[i + 1]]``.
    starts, starts2 : (n + 1,) and (m + 1,) int64
    k : int, at most 254
    weight : (f + 1,) float64, f <= k
        What two words that differ in 0, 1, ... places add; those further apart add nothing.
    symmetric : bool
        Whether both are the same sequences.

    Returns
    -------
    (n, m) float64
    """
    out = np.zeros((len(starts) - 1, len(starts2) - 1))
    whole = np.concatenate([weight, np.zeros(k + 1 - len(weight))])
    for i, j in np.ndindex(out.shape):
        s, t = symbols[starts[i] : starts[i + 1]], symbols2[starts2[j] : starts2[j + 1]]
        if min(len(s), len(t)) < k:
            continue
        left, right = (np.lib.stride_tricks.sliding_window_view(x, k) for x in (s, t))
        apart = sum((left[:, None, p] != right[None, :, p]).astype(int) for p in range(k))
        out[i, j] = whole[apart].sum()
    return out


def _batches(n: np.ndarray, m: np.ndarray) -> Iterator[slice]:
    """Neighbouring pairs whose tables fit together."""
    start, widest = 0, 0
    for stop, size in enumerate((np.maximum(n, 1) * np.maximum(m, 1)).tolist()):
        widest = max(widest, size)
        if stop > start and 8 * TABLES * widest * (stop + 1 - start) > BATCH_BYTES:
            yield slice(start, stop)
            start, widest = stop, size
    if start < len(n):
        yield slice(start, len(n))


def _padded(
    symbols: np.ndarray, starts: np.ndarray, chosen: np.ndarray, filler: float
) -> np.ndarray:
    """The chosen sequences as the rows of one array, filled up at the end."""
    lengths = starts[chosen + 1] - starts[chosen]
    out = np.full((len(chosen), int(lengths.max(initial=0))), filler)
    for row, i, length in zip(out, chosen, lengths, strict=True):
        row[:length] = symbols[starts[i] : starts[i] + length]
    return out
