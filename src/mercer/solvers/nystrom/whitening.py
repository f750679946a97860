"""From the kernel between a few centres to features whose inner products are its approximation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri

from mercer.arrays import as_numpy, backend, is_tensor, like
from mercer.arrays.factorisation import factorised
from mercer.cached import cached_property
from mercer.operators import DenseGram, GramOperator
from mercer.solvers.ridge_problem import EPS
from mercer.solvers.tensor_factors import (
    pivoted_factor,
    triangular_inverse,
    triangular_product,
    upper_factor,
)

# Right-hand sides that are solved for one by one.
FEW_COLUMNS = 8
# A pivot so many times rounding counts as small.
SMALL_PIVOT = 100
NOWHERE = "the kernel is zero at every centre; choose other centres or another kernel"


class CentreWhitening:
    """Features ``Phi = K_nM W`` with ``Phi Phi^T`` the Nyström approximation of K.

    W comes from a Cholesky factorisation of ``K_MM`` that takes the largest pivot first and ends
    where the rest is rounding: the centres left over are dropped, and nothing is added to the
    diagonal.

    Parameters
    ----------
    K_MM : ndarray of shape (M, M)
        The kernel between the centres.

    Attributes
    ----------
    kept : ndarray of shape (r,)
        Which centres are kept.
    W : ndarray of shape (r, r)
        Upper triangular.
    """

    def __init__(self, K_MM: np.ndarray):
        K = np.array(K_MM, dtype=np.float64, order="F")
        floor = len(K) * EPS * float(K.diagonal().max(initial=0.0))
        factor, failed = dpotrf(K, lower=0)
        order = np.arange(len(K))
        # Without a small pivot there is nothing to drop, and no need to choose the largest first.
        if failed or np.min(factor.diagonal()) ** 2 <= SMALL_PIVOT * floor:
            factor, order, rank, _ = dpstrf(K, lower=0)
            factor, order = factor[:rank, :rank], order[:rank] - 1
        if not len(order):
            raise ValueError(NOWHERE)
        self.kept = order
        self._factor = np.asfortranarray(np.triu(factor))
        self.W: Any = np.asfortranarray(dtrtri(self._factor)[0])
        self.W32: Any = self.W.astype(np.float32)

    def features(self, gram: GramOperator, single: bool = False) -> np.ndarray:
        """Phi of shape (b, r) for the kernel of b points with the centres kept."""
        K = gram.single().dense() if single else gram.dense()
        if isinstance(gram, DenseGram):
            K = K.copy()
        K = np.ascontiguousarray(K, dtype=np.float32 if single else np.float64)
        trmm, W = (blas.strmm, self.W32) if single else (blas.dtrmm, self.W)
        return trmm(1.0, W, K.T, trans_a=1, overwrite_b=1).T

    def apply(self, V: np.ndarray) -> np.ndarray:
        """``W V`` for V of shape (r, t)."""
        return triangular_solve(self._factor, V)

    def pull(self, V: np.ndarray) -> np.ndarray:
        """``W^T V`` for V of shape (r, t)."""
        return triangular_solve(self._factor, V, transposed=True)

    def shifted_inverse(self, H: Any, lam: float) -> Callable[[np.ndarray], np.ndarray]:
        """G -> (H + lam I)^{-1} G for arrays G (r, t), H (r, r) positive definite."""
        upper, _ = factorised(H + lam * np.eye(len(H)))
        return lambda G: triangular_solve(upper, triangular_solve(upper, G, transposed=True))

    @property
    def reach(self) -> float:
        """The length of W's longest column."""
        return float((self.W**2).sum(0).max()) ** 0.5


class TensorCentreWhitening(CentreWhitening):
    """The same for a tensor: factors stay where ``K_MM`` is, V and its products are arrays."""

    def __init__(self, K_MM: Any):
        floor = len(K_MM) * EPS * float(K_MM.diagonal().max())
        factor, order = upper_factor(K_MM), np.arange(len(K_MM))
        if factor is None or float(factor.diagonal().min()) ** 2 <= SMALL_PIVOT * floor:
            factor, order = pivoted_factor(K_MM, floor)
        if not len(order):
            raise ValueError(NOWHERE)
        self.kept, self._factor = order, factor
        self.W: Any = triangular_inverse(factor)

    @cached_property
    def W32(self) -> Any:
        return self.W.float()

    def features(self, gram: GramOperator, single: bool = False) -> Any:
        W = self.W32 if single else self.W
        K: Any = (gram.single() if single else gram).dense()
        return K.to(W.dtype) @ W

    def to_cpu(self) -> CentreWhitening:
        """The same in this machine's memory."""
        host = object.__new__(CentreWhitening)
        host.kept = self.kept
        host._factor, host.W = (np.asfortranarray(as_numpy(A)) for A in (self._factor, self.W))
        host.W32 = host.W.astype(np.float32)
        return host

    def apply(self, V: np.ndarray) -> np.ndarray:
        return triangular_product(self._factor, V)

    def pull(self, V: np.ndarray) -> np.ndarray:
        return triangular_product(self._factor, V, transposed=True)

    def shifted_inverse(self, H: Any, lam: float) -> Callable[[np.ndarray], np.ndarray]:
        shifted = H.clone()
        shifted.diagonal().add_(lam)
        solve = backend(H).cholesky(shifted)
        return lambda G: as_numpy(solve(like(G, H)))


def whitened(K_MM: Any) -> CentreWhitening:
    """The whitening of the kernel between the centres, an array or a tensor."""
    return TensorCentreWhitening(K_MM) if is_tensor(K_MM) else CentreWhitening(K_MM)


def triangular_solve(upper: np.ndarray, V: np.ndarray, transposed: bool = False) -> np.ndarray:
    """``U^{-1} V`` or ``U^{-T} V`` for the upper triangle U of a matrix in column order.

    Few columns are solved for one by one, which BLAS does on the calling thread: its other threads
    would go on waiting actively, and slow down the pass over the data that follows.
    """
    if V.shape[1] > FEW_COLUMNS:
        return blas.dtrsm(1.0, upper, V, trans_a=int(transposed))
    columns = [blas.dtrsv(upper, v, trans=int(transposed)) for v in V.T]
    return np.stack(columns, axis=1) if columns else np.zeros_like(V)
