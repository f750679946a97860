"""Gram operators of points that are torch tensors: tensors in, tensors out, on the same device."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from mercer.arrays import Later, as_numpy, beside, device_budget, is_tensor
from mercer.expressions import TensorPairs
from mercer.operators.gram import GramOperator

torch: Any = Later("torch")


class TensorGram(GramOperator):
    """K = (k(x_i, y_j)) on a device, recomputed in tiles at every product.

    Products with a tensor are tensors of its dtype; products with a NumPy array take it to the
    device and bring the answer back in float64.
    """

    def __init__(self, pairs: TensorPairs, reason: str = "recomputed in tiles"):
        super().__init__(pairs.shape, pairs.dtype, f"{reason}, on {pairs.device}")
        self.pairs = pairs
        self.pairs_of = lambda: pairs

    def __matmul__(self, V: Any) -> Any:
        return _multiplied(self._times, V, self.shape, self.pairs.device)

    dot = __matmul__

    def _times(self, V: Any) -> Any:
        return self.pairs.products(V, V.new_zeros((self.shape[0], 0)))[0]

    def _transposed_times(self, U: Any) -> Any:
        return self.pairs.products(U.new_zeros((self.shape[1], 0)), U)[1]

    def _transpose(self) -> Any:
        return _Transposed(self)

    _adjoint = _transpose

    def normal_product(self, V: Any, targets: Any = None, weight: Any = None) -> tuple[Any, Any]:
        """As for arrays; both are of V's library, and what lies between stays on the device."""
        R = self._times(beside(V, self._numbers()))
        R = R if targets is None else beside(targets, R) - R
        if weight is not None:
            R = beside(weight, R)[:, None] * R
        pulled, total = self._transposed_times(R), R.sum(0)
        return (pulled, total) if is_tensor(V) else (as_numpy(pulled), as_numpy(total))

    def _numbers(self) -> Any:
        """A tensor of none, of the dtype and at the place of products."""
        return torch.empty(0, dtype=torch.float64, device=self.pairs.device)

    def diagonal(self) -> Any:
        return self.pairs.diagonal()

    def rows(self, indices: Any) -> Any:
        """K[indices] as for arrays; positions of NumPy's give a NumPy array."""
        if isinstance(indices, Integral):
            return self.rows([indices])[0]
        found = self.pairs.block(indices, slice(None))
        return as_numpy(found) if isinstance(indices, np.ndarray) else found

    def dense(self) -> Any:
        return self.pairs.gram()

    def block(self, rows: Any, columns: Any) -> Any:
        return self.pairs.block(rows, columns)

    def derivative(self, path: str, index: int | None = None) -> TensorGram:
        name = path if index is None else f"{path}[{index}]"
        pairs = self.pairs.derivative(path, index)
        assert isinstance(pairs, TensorPairs)
        return TensorGram(pairs, f"derivative by {name}, recomputed in tiles")

    def single(self) -> TensorGram:
        if self.dtype == np.float64 and not self.pairs.fits_single:
            return self
        pairs = self.pairs.like(self.pairs.formula, np.float32)
        return TensorGram(pairs, "recomputed in tiles, in float32")

    def double(self) -> TensorGram:
        if self.dtype == np.float64:
            return self
        pairs = self.pairs.like(self.pairs.formula, np.float64)
        return TensorGram(pairs, "recomputed in tiles, in float64")


class DenseTensorGram(TensorGram):
    """The same with the matrix stored on the device."""

    def __init__(self, pairs: TensorPairs, reason: str):
        super().__init__(pairs, reason)
        self.K = pairs.gram()

    def _times(self, V: Any) -> Any:
        return self.K @ V.to(self.K.dtype)

    def _transposed_times(self, U: Any) -> Any:
        return self.K.T @ U.to(self.K.dtype)

    def rows(self, indices: Any) -> Any:
        if isinstance(indices, np.ndarray):
            return as_numpy(self.K[torch.as_tensor(indices)])
        return self.K[indices]

    def dense(self) -> Any:
        return self.K


class _Transposed:
    """Kᵀ, of which only products are asked."""

    def __init__(self, gram: TensorGram):
        self.gram, self.shape, self.dtype = gram, gram.shape[::-1], gram.dtype

    def __matmul__(self, U: Any) -> Any:
        return _multiplied(self.gram._transposed_times, U, self.shape, self.gram.pairs.device)

    @property
    def T(self) -> TensorGram:
        return self.gram


def tensor_gram(pairs: TensorPairs, store: bool = True) -> TensorGram:
    """The Gram operator of pairs: stored where a third of what may be taken is enough for it."""
    mib, budget = (
        pairs.shape[0] * pairs.shape[1] * pairs.dtype.itemsize / 2**20,
        device_budget(pairs.device) / 2**20,
    )
    if store and 3 * mib <= budget:
        return DenseTensorGram(pairs, f"stored: {mib:.1f} MiB fit the budget of {budget:.0f} MiB")
    why = f"{mib:.0f} MiB exceed a third of {budget:.0f} MiB" if store else "not all is needed"
    return TensorGram(pairs, f"recomputed in tiles: {why}")


def _multiplied(multiply: Any, V: Any, shape: tuple[int, int], device: Any) -> Any:
    """A product with one column or several, in the library of V and, if that is one, its float."""
    given = V.detach() if is_tensor(V) else torch.as_tensor(np.array(V, np.float64), device=device)
    if given.ndim not in (1, 2) or len(given) != shape[1]:
        shapes = f"({shape[1]},) or ({shape[1]}, c)"
        raise ValueError(f"V has shape {tuple(given.shape)}; expected {shapes}")
    columns = given if given.ndim == 2 else given[:, None]
    out = multiply(columns).reshape(shape[0], *given.shape[1:])
    if not is_tensor(V):
        return as_numpy(out).astype(np.float64, copy=False)
    return out.to(V.dtype if V.is_floating_point() else torch.float64)
