"""What models depend on: features of vectors; substrings and positions of sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import kernels as K
from mercer.arrays import as_dense, n_rows, take_rows
from mercer.estimators.position_weights import PositionWeights, is_within
from mercer.kernels.algebra import Product
from mercer.kernels.sequences import Symbols
from mercer.kernels.transformations import Normalized

# Of substrings that contain one another only the heaviest are reported, among so many.
CANDIDATES = 50
# Points that features are permuted among, and permutations of each.
MOST_POINTS, REPEATS = 500, 5


@dataclass(frozen=True)
class FeatureImportances:
    """Features of vectors and what they change; for sequences, substrings and positions.

    Attributes
    ----------
    features : list of (name, change)
        For models of vectors: the root mean squared change of the model's functions when the
        feature is permuted among the points, in decreasing order. Without names, the names are
        positions.
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
    features: list[tuple[Any, float]] = field(default_factory=list)


def feature_importances(model: Any, X: Any = (), n_largest: int = 20) -> FeatureImportances:
    r"""Features that a model of vectors depends on, or substrings in a model of sequences.

    A model of vectors is asked how much its functions change, :math:`\sqrt{E (f(x) - f(x'))^2}`,
    when the values of one feature are permuted among the points. Targets are not used; for the loss
    of score see `report` or ``sklearn.inspection.permutation_importance``.

    A model of sequences is :math:`f(x) = \sum_u w_u \phi_u(x) + b` with a weight for every
    substring u, which are listed, with their sums at each position of the sequences X.

    Parameters
    ----------
    model : fitted estimator
        With ``decision_function`` or ``predict`` on vectors or tables; or with coefficients
        ``dual_coef_`` and a ``kernel_`` that is `Spectrum`, `Mismatch`, `Gappy`, `Substring` or
        `WeightedDegree`, possibly normalised or multiplied by a number.
    X : points or sequences, optional
        By default the training points that a model of vectors stores, of which at most 500 are
        used. Needed for pipelines and models that store none.
    n_largest : int, default=20
        Number of features, or of substrings for each function, that are listed.

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
    kernel = getattr(model, "kernel_", None)
    if not isinstance(kernel, K.Kernel) or kernel.domain.is_vectors or hasattr(model, "coding_"):
        return FeatureImportances([], [], _changes(model, X)[:n_largest])
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


def _changes(model: Any, X: Any) -> list[tuple[Any, float]]:
    """The root mean squared change of f for each permuted feature, largest first."""
    names_of = ("decision_function", "predict_proba", "predict")
    function = next((getattr(model, name) for name in names_of if hasattr(model, name)), None)
    if function is None:
        raise TypeError(f"{type(model).__name__} has neither decision_function nor predict")
    if not hasattr(X, "shape"):
        given = X if len(X) else getattr(model, "X_fit_", getattr(model, "support_vectors_", None))
        if given is None or (hasattr(model, "coding_") and not len(X)):
            raise ValueError(
                f"X: this {type(model).__name__} stores no points of the form that it takes; pass "
                "some, such as the training points"
            )
        X = as_dense(given) if hasattr(given, "shape") else np.asarray(given)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(n_rows(X))[:MOST_POINTS])
    X = take_rows(X, rows) if hasattr(X, "iloc") else np.asarray(as_dense(take_rows(X, rows)))
    before = np.asarray(function(X), dtype=float)
    names = list(X.columns) if hasattr(X, "columns") else list(range(X.shape[1]))
    found = []
    for k, name in enumerate(names):
        changes = []
        for _ in range(REPEATS):
            order, changed = rng.permutation(len(rows)), X.copy()
            if hasattr(X, "iloc"):
                changed.isetitem(k, X.iloc[order, k].set_axis(X.index))
            else:
                changed[:, k] = X[order, k]
            changes.append(np.mean((np.asarray(function(changed), dtype=float) - before) ** 2))
        found.append((name, float(np.sqrt(np.mean(changes)))))
    return sorted(found, key=lambda pair: -pair[1])


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
