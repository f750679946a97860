"""Weights of substrings in models of sequences, and contributions of positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import kernels as K
from mercer.arrays import as_dense
from mercer.estimators.position_weights import PositionWeights, is_within
from mercer.kernels.algebra import Product
from mercer.kernels.sequences import Symbols
from mercer.kernels.transformations import Normalized

# Of substrings that contain one another only the heaviest are reported, among so many.
CANDIDATES = 50


@dataclass(frozen=True)
class FeatureImportances:
    """Weights of substrings, and contributions of positions of sequences.

    Attributes
    ----------
    substrings : list of (substring, weight), one list per function of the model
        The substrings with the largest weights, in decreasing order; for `WeightedDegree`, pairs
        of a position and the word that starts there.
    positions : list of (length, n_functions) arrays
        For each sequence in X, the contribution of each position to the functions. The
        contribution of a substring is divided equally among its positions, so the sum over all
        positions is the value of the function without intercept.
    """

    substrings: list[list[tuple[Any, float]]]
    positions: list[np.ndarray]


def feature_importances(model: Any, X: Any = (), n_largest: int = 20) -> FeatureImportances:
    r"""Weights of substrings in a model of sequences, and their sums at each position.

    The model is :math:`f(x) = \sum_u w_u \phi_u(x) + b` with a weight for every substring u.

    Parameters
    ----------
    model : fitted estimator
        Its ``kernel_`` is `Spectrum`, `Mismatch`, `Gappy`, `Substring` or `WeightedDegree`,
        possibly normalised or multiplied by a number, and it has coefficients ``dual_coef_``.
    X : sequences to explain, optional
    n_largest : int, default=20
        Number of substrings listed for each function.

    Returns
    -------
    FeatureImportances

    Examples
    --------
    >>> from mercer import SVC
    >>> X = ["ACGTACGA", "TTCGTCCA", "GACGTTTA", "AAAATTTT", "GGGCCCAA", "TCTCTGGA"]
    >>> model = SVC(kernel=K.Spectrum(3)).fit(X, [1, 1, 1, 0, 0, 0])
    >>> found = feature_importances(model, ["AACGTA"])
    >>> sorted(word for word, weight in found.substrings[0][:2])
    ['ACG', 'CGT']
    >>> float((found.positions[0].sum() + model.intercept_[0]).round(6)) == float(
    ...     model.decision_function(["AACGTA"])[0].round(6))
    True
    """
    check_is_fitted(model)
    points, V = _expansion(model)
    if not len(V):
        raise ValueError(
            f"this {type(model).__name__} has no support vectors, so it goes by no substrings; a "
            "fit that max_time or max_iter stopped needs more of it"
        )
    base, scale = _base(model.kernel_)
    points = base.domain.check(points, "X")
    V = V * scale(points)[:, None]
    X = base.domain.check(X, "X") if len(X) else []
    parsed, asked = base.parse_objects(points), base.parse_objects(X)
    factors = scale(X) if len(X) else np.zeros(0)
    inside = _inside
    if isinstance(base, K.Substring):
        weights: Any = base.summed(parsed, V)
    elif isinstance(base, K.WeightedDegree):
        weights, inside = PositionWeights(base, parsed, V), is_within
    else:
        weights = _WordWeights(base, parsed, V)
    largest = [weights.heaviest(c, CANDIDATES * n_largest) for c in range(V.shape[1])]
    return FeatureImportances(
        [_apart(some, n_largest, inside) for some in largest],
        [factor * weights.along(x) for factor, x in zip(factors, asked, strict=True)],
    )


def _expansion(model: Any) -> tuple[Any, np.ndarray]:
    """The points that the model's functions are expanded over, and their coefficients (m, c)."""
    if hasattr(model, "support_vectors_"):
        pairs = getattr(model, "pair_coef_", None)  # of classes, where there are several
        return model.support_vectors_, as_dense(model.dual_coef_).T if pairs is None else pairs
    if hasattr(model, "X_fit_") and hasattr(model, "dual_coef_"):
        V = np.asarray(model.dual_coef_, dtype=np.float64)
        return model.X_fit_, V if V.ndim == 2 else V[:, None]
    raise TypeError(
        f"{type(model).__name__} has no coefficients over its points; expected a support vector "
        "machine or a kernel ridge model"
    )


def _base(kernel: K.Kernel) -> tuple[Any, Callable[[Any], np.ndarray]]:
    """The kernel of sequences within, and what f(x) and f(z) it is multiplied by."""
    if isinstance(kernel, K.Spectrum | K.Mismatch | K.Gappy | K.Substring | K.WeightedDegree):
        return kernel, lambda X: np.ones(len(X))
    if isinstance(kernel, Normalized):
        base, scale = _base(kernel.kernel)

        def normalised(X: Any) -> np.ndarray:
            squared = kernel.kernel.diag(X)
            return scale(X) * np.where(
                squared > 0, 1 / np.sqrt(np.where(squared > 0, squared, 1)), 0
            )

        return base, normalised
    if isinstance(kernel, Product) and isinstance(kernel.left, K.Constant):
        base, scale = _base(kernel.right)
        root = np.sqrt(kernel.left.value)
        return base, lambda X: root * scale(X)
    raise TypeError(
        f"the kernel {kernel!r} has no weights for substrings; expected Spectrum, Mismatch, Gappy, "
        "Substring or WeightedDegree, perhaps normalised or multiplied by a number"
    )


class _WordWeights:
    """f(x) = Σ_i v_i k(x, s_i) as weights of words, for kernels that count words."""

    def __init__(self, base: Any, sequences: list, V: np.ndarray) -> None:
        self.base, self.vocabulary = base, base.vocabulary()
        self.w = base.rows(sequences, self.vocabulary, grow=True).T @ V

    def heaviest(self, column: int, count: int) -> list[tuple[Symbols, float]]:
        names = list(self.vocabulary)
        w = self.w[: len(names), column]
        order = np.argsort(-np.abs(w), kind="stable")
        return [(names[u], float(w[u])) for u in order if w[u]]

    def along(self, x: Symbols) -> np.ndarray:
        """(length, c): each word's weight, shared by the places of its symbols."""
        places, words = self.base.words(x)
        out = np.zeros((len(x), self.w.shape[1]))
        if len(words):
            values = np.asarray(self.base.rows(words, self.vocabulary, grow=False) @ self.w)
            np.add.at(out, places, values[:, None] / places.shape[1])
        return out


def _apart(
    found: list[tuple[Any, float]], count: int, inside: Callable[[Any, Any], bool]
) -> list[tuple[Any, float]]:
    """The heaviest, without those inside one that is as heavy."""
    kept: list[tuple[Any, float]] = []
    for word, weight in found:
        if len(kept) == count:
            break
        if not any(inside(word, other) and abs(weight) <= abs(w) for other, w in kept):
            kept.append((word, weight))
    return kept


def _inside(word: Symbols, other: Symbols) -> bool:
    if isinstance(word, tuple) or isinstance(other, tuple):
        return any(other[i : i + len(word)] == word for i in range(len(other) - len(word) + 1))
    return isinstance(word, type(other)) and word in other  # type: ignore[operator]
