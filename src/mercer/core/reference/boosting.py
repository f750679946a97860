"""Boosted partitions in NumPy: the twin of native ``boost`` and ``partition_leaves``/``_sums``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

SQUARED, LOGISTIC, SOFTMAX = range(3)
_FLATTEST = 1e-6
_WORD = 2**64 - 1

Trees = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Settings(NamedTuple):
    """Trees at most, their depth, the trees without progress that end the boosting, the factor on
    leaf values, the penalty, the shares of rows per tree and of features per level, the seed."""

    trees: int
    depth: int
    patience: int
    rate: float
    l2: float
    rows: float
    columns: float
    seed: int


class SplitMix:
    """Steele, Lea and Flood's generator of 64-bit numbers."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _WORD

    def __call__(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        return z ^ (z >> 31)


def boost(
    codes: np.ndarray,
    n_codes: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    judges: np.ndarray,
    scores: np.ndarray,
    loss: int,
    *settings: Any,
) -> tuple[list[Trees], np.ndarray]:
    """Trees of each fold, and the scores after them.

    Parameters
    ----------
    codes : (folds, d, n) uint8, below n_codes
    n_codes : (d,) int32
    targets : (n, outputs) float32
        Numbers, or indicators of classes.
    weights : (folds, n) float32
        Zero for rows without a part in the fit.
    judges : (folds, n) float32
        Weights of the rows whose loss ends the boosting.
    scores : (folds, n, outputs) float32
        Those to begin with.
    loss : 0 for squared, 1 for logistic, 2 for softmax
    settings
        Those of `Settings`, in this order, and the number of threads.

    Returns
    -------
    list of (features, cuts, values, losses)
        Arrays (trees, depth), (trees, depth), (trees, 2**depth, outputs), and the loss of the
        judging rows after each tree. Codes above a cut set the level's bit in the leaf's number.
    ndarray of shape (folds, n, outputs)
    """
    *chosen, _ = settings
    asked, after = Settings(*chosen), scores.astype(np.float64)
    found = []
    for f in range(len(codes)):
        fold = asked._replace(seed=asked.seed + f)
        one = _Boosting(codes[f], n_codes, targets, weights[f], judges[f], loss, fold)
        found.append(one.run(after[f]))
    return found, after.astype(np.float32)


class _Boosting:
    def __init__(
        self,
        codes: np.ndarray,
        n_codes: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        judges: np.ndarray,
        loss: int,
        settings: Settings,
    ) -> None:
        self.codes, self.n_codes, self.loss, self.settings = codes, n_codes, loss, settings
        self.targets, self.weights = targets.astype(float), weights.astype(float)
        self.judges, self.random = judges.astype(float), SplitMix(settings.seed)
        self.useful = [k for k, count in enumerate(n_codes) if count > 1]
        self.inside = np.flatnonzero(weights > 0)

    def run(self, scores: np.ndarray) -> Trees:
        """Trees; the scores (n, outputs) become those after them."""
        s, C = self.settings, self.targets.shape[1]
        features: list[list[int]] = []
        cuts: list[list[int]] = []
        values, losses, best, kept = [], [], 0, scores.copy()
        for t in range(1, s.trees + 1) if self.useful and len(self.inside) else ():
            asked, value, leaf = self.grow(scores)
            features.append([k for k, _ in asked])
            cuts.append([cut for _, cut in asked])
            values.append(value)
            scores += value[leaf]
            losses.append(self.judged(scores))
            if losses[-1] < min(losses[:-1], default=np.inf):
                best, kept = t, scores.copy()
            elif t - best >= s.patience:
                break
        scores[:] = kept
        return (
            np.array(features[:best], dtype=np.int32).reshape(-1, s.depth),
            np.array(cuts[:best], dtype=np.int32).reshape(-1, s.depth),
            np.array(values[:best], dtype=np.float32).reshape(-1, 2**s.depth, C),
            np.array(losses),
        )

    def grow(self, scores: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray, np.ndarray]:
        """The questions of one tree, its values (leaves, outputs), and the leaf of each row."""
        s = self.settings
        drawn = self.draw()
        g, h = self.slopes(scores)
        leaf, asked = np.zeros(len(scores), dtype=int), []
        for level in range(s.depth):
            k, cut = self.split(g[drawn], h[drawn], leaf[drawn], drawn, 2**level)
            asked.append((k, cut))
            leaf |= (self.codes[k].astype(int) > cut) << level
        leaves = 2**s.depth
        G, H = (_by_cell(A[drawn], leaf[drawn], leaves) for A in (g, h))
        return asked, np.where(H > 0, s.rate * G / (np.where(H > 0, H, 1) + s.l2), 0.0), leaf

    def draw(self) -> np.ndarray:
        limit = int(self.settings.rows * 2**32)
        if self.settings.rows >= 1:
            return self.inside
        drawn = self.inside[[(self.random() >> 32) < limit for _ in self.inside]]
        return drawn if len(drawn) else self.inside

    def slopes(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Negative gradients and curvatures, (n, outputs)."""
        w = self.weights[:, None]
        if self.loss == SQUARED:
            return w * (self.targets - scores), w + 0 * scores
        q = expit(scores) if self.loss == LOGISTIC else softmax(scores, axis=1)
        return w * (self.targets - q), w * np.maximum(q * (1 - q), _FLATTEST)

    def split(
        self, g: np.ndarray, h: np.ndarray, leaf: np.ndarray, drawn: np.ndarray, leaves: int
    ) -> tuple[int, int]:
        """The feature and cut with the largest sum of G² / (H + l2) over the leaves after it."""
        s, useful = self.settings, self.useful
        best, most = (useful[0], int(self.n_codes[useful[0]])), 0.0
        wanted = int(np.clip(np.floor(s.columns * len(useful) + 0.5), 1, len(useful)))
        for j in range(wanted):
            other = j + self.random() % (len(useful) - j)
            useful[j], useful[other] = useful[other], useful[j]
            k, B = useful[j], int(self.n_codes[useful[j]])
            cell = leaf * B + self.codes[k][drawn]
            G, H = (_by_cell(A, cell, leaves * B).reshape(leaves, B, -1) for A in (g, h))
            G, H = G.cumsum(axis=1), H.cumsum(axis=1)
            gains = _gain(G, H, s.l2) + _gain(G[:, -1:] - G, H[:, -1:] - H, s.l2)
            by_cut = gains.sum(axis=(0, 2))[:-1]
            if by_cut.max() > most:
                most, best = by_cut.max(), (k, int(by_cut.argmax()))
        return best

    def judged(self, scores: np.ndarray) -> float:
        """The mean loss of the judging rows."""
        if self.loss == SQUARED:
            losses = np.sum((self.targets - scores) ** 2, axis=1)
        elif self.loss == LOGISTIC:
            losses = np.sum(np.logaddexp(0, scores) - self.targets * scores, axis=1)
        else:
            losses = logsumexp(scores, axis=1) - np.sum(self.targets * scores, axis=1)
        return float(self.judges @ losses / max(self.judges.sum(), np.finfo(float).tiny))


def _by_cell(A: np.ndarray, cell: np.ndarray, count: int) -> np.ndarray:
    """Sums of the rows of A (m, outputs) in each cell, (count, outputs)."""
    return np.stack([np.bincount(cell, a, minlength=count) for a in A.T], axis=1)


def _gain(G: np.ndarray, H: np.ndarray, l2: float) -> np.ndarray:
    return np.where(H > 0, G**2 / np.where(H > 0, H + l2, 1), 0.0)


def partition_leaves(
    points: np.ndarray, features: np.ndarray, thresholds: np.ndarray, threads: int = 0
) -> np.ndarray:
    """The leaf of each tree that each point is in, (m, trees) uint8.

    Parameters
    ----------
    points : (m, d) float32
    features : (trees, depth) int32
    thresholds : (trees, depth) float32
        Values above them set the bit of the level.
    """
    bits = points[:, features] > thresholds
    return (bits << np.arange(features.shape[1])).sum(axis=2).astype(np.uint8)


def partition_sums(
    points: np.ndarray,
    features: np.ndarray,
    thresholds: np.ndarray,
    values: np.ndarray,
    threads: int = 0,
) -> np.ndarray:
    """The sums of the values (trees, leaves, outputs) of each point's leaves, (m, outputs)."""
    leaves = partition_leaves(points, features, thresholds)
    chosen = values[np.arange(len(features)), leaves].astype(float)
    return chosen.sum(axis=1)
