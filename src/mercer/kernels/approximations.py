"""Feature maps that approximate a kernel: random Fourier features, Nyström, tensor sketch."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, as_vectors, n_rows, require_cpu, take_rows
from mercer.arrays.remote import over_blocks
from mercer.kernels.algebra import spectral_terms
from mercer.kernels.kernel import Kernel
from mercer.memory_errors import explaining_memory


class ApproximateMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """phi with phi(x)·phi(z) ≈ k(x, z).

    Parameters
    ----------
    kernel : Kernel
    n_components : int
        Number of features.
    random_state : int, RandomState or None
    """

    def __init__(self, kernel: Kernel, n_components: int = 100, random_state: Any = None):
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ApproximateMap:
        raise NotImplementedError

    @over_blocks
    def transform(self, X: Any) -> Array:
        raise NotImplementedError

    def _read(self, X: Any) -> Any:
        """Points; tensors are read as arrays."""
        return require_cpu(X, type(self).__name__)

    @property
    def _n_features_out(self) -> int:
        return self.n_components


class FourierMap(ApproximateMap):
    r"""Random Fourier features of a stationary kernel.

    :math:`k(x - z) = k(0)\, E[\cos(w \cdot (x - z))]` with w from the kernel's spectral
    distribution, so :math:`\sqrt{k(0) / D}\,(\cos w_i \cdot x, \sin w_i \cdot x)_{i \le D}`
    approximates it with an error of order :math:`D^{-1/2}`. The terms of a sum share the features
    in proportion to their weights.

    References
    ----------
    Rahimi and Recht (2007), "Random features for large-scale kernel machines", NIPS.
    """

    @explaining_memory
    def fit(self, X: Any, y: Any = None) -> FourierMap:
        X = as_vectors(self._read(X))
        if not self.kernel.is_stationary:
            raise TypeError(
                f"method='fourier' needs a stationary kernel, a function of x - z, and "
                f"{self.kernel!r} is not one; use method='nystrom'"
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        terms, weights = spectral_terms(self.kernel, X.shape[1])
        counts = _shares(weights, self.n_components // 2)
        self.frequencies_ = np.vstack(
            [t.kernel.frequencies(rng, c, X.shape[1]) for t, c in zip(terms, counts, strict=True)]
        )
        self.amplitudes_ = np.concatenate(
            [np.full(c, np.sqrt(w / c)) for w, c in zip(weights, counts, strict=True) if c]
        )
        self.n_features_in_ = X.shape[1]
        return self

    @over_blocks
    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = as_vectors(self._read(X))
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features; the map was fitted on {self.n_features_in_}"
            )
        angles = np.asarray(X @ self.frequencies_.T.astype(X.dtype))
        amplitudes = self.amplitudes_.astype(X.dtype)
        return np.hstack([np.cos(angles) * amplitudes, np.sin(angles) * amplitudes])


class NystromMap(ApproximateMap):
    r"""Features from the kernel with M sampled points: :math:`K_{nM} K_{MM}^{-1/2}`.

    Directions of :math:`K_{MM}` below rounding are dropped (their features are zero); nothing is
    added to its diagonal.

    References
    ----------
    Williams and Seeger (2001), "Using the Nyström method to speed up kernel machines", NIPS.
    """

    @explaining_memory
    def fit(self, X: Any, y: Any = None) -> NystromMap:
        X = self._read(X)
        n = n_rows(X)
        if self.n_components > n:
            raise ValueError(
                f"n_components={self.n_components} but X has {n} points; choose at most {n}"
            )
        chosen = check_random_state(self.random_state).permutation(n)[: self.n_components]
        self.centers_ = take_rows(X, np.sort(chosen))
        eigenvalues, vectors = np.linalg.eigh(self.kernel(self.centers_).astype(float))
        floor = len(eigenvalues) * np.finfo(float).eps * max(eigenvalues[-1], 0.0)
        kept = eigenvalues > floor
        scale = np.where(kept, 1 / np.sqrt(np.where(kept, eigenvalues, 1.0)), 0.0)
        self.whitening_ = vectors * scale
        return self

    @over_blocks
    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.kernel(self._read(X), self.centers_) @ self.whitening_


class SketchMap(ApproximateMap):
    """Tensor sketch of a polynomial kernel, by scikit-learn's PolynomialCountSketch.

    References
    ----------
    Pham and Pagh (2013), "Fast and scalable polynomial kernels via explicit feature maps", KDD.
    """

    @explaining_memory
    def fit(self, X: Any, y: Any = None) -> SketchMap:
        sketch = getattr(self.kernel, "tensor_sketch", lambda *_: None)
        unfitted = sketch(self.n_components, self.random_state)
        if unfitted is None:
            raise TypeError(
                f"method='sketch' needs a Polynomial kernel with coef0 >= 0; got {self.kernel!r}"
            )
        self.sketch_ = unfitted.fit(as_vectors(self._read(X)))
        return self

    @over_blocks
    def transform(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.sketch_.transform(as_vectors(self._read(X)))


METHODS = {"fourier": FourierMap, "nystrom": NystromMap, "sketch": SketchMap}


def approximate_map(
    kernel: Kernel, n_components: int, method: str, random_state: Any
) -> ApproximateMap:
    """The map of the named method, unfitted."""
    if method not in METHODS:
        raise ValueError(f"method={method!r}; expected one of {sorted(METHODS)}")
    least = 2 if method == "fourier" else 1
    if not isinstance(n_components, Integral) or n_components < least:
        raise ValueError(f"n_components={n_components!r}; expected an integer of at least {least}")
    if method == "fourier" and n_components % 2:
        raise ValueError(
            f"n_components={n_components} is odd; a frequency gives a cosine and a sine, so "
            "method='fourier' needs an even number"
        )
    return METHODS[method](kernel, int(n_components), random_state)


def _shares(weights: np.ndarray, total: int) -> np.ndarray:
    """Split ``total`` frequencies in proportion to the weights, at least one for each positive."""
    positive = weights > 0
    if positive.sum() > total:
        raise ValueError(
            f"n_components={2 * total} is too few for a sum of {positive.sum()} kernels; "
            f"use at least {2 * positive.sum()}"
        )
    if not positive.any():  # the zero kernel, for which any frequency will do
        weights = np.ones(len(weights))
    counts = np.where(positive, 1, 0)
    spare = total - counts.sum()
    ideal = spare * weights / weights.sum()
    counts += np.floor(ideal).astype(int)
    remainder = np.argsort(-(ideal - np.floor(ideal)), kind="stable")
    counts[remainder[: total - counts.sum()]] += 1
    return counts
