"""Gram operators of points that are torch tensors: tensors in, tensors out, on the same device."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from mercer.arrays import LazyModule, as_numpy, device_budget, like
from mercer.arrays.libraries import is_foreign, is_half
from mercer.arrays.torch_state import computing, learning
from mercer.expressions import TensorPairMatrix
from mercer.expressions.tensors import positions, stored_product
from mercer.operators.gram import GramOperator

torch: Any = LazyModule("torch")


class TensorGram(GramOperator):
    """K = (k(x_i, y_j)) on a device, recomputed in tiles at every product.

    Products with a tensor, wherever that is, are tensors on the operator's device, of the dtype of
    the one given; float32 for one in half precision, float64 for whole numbers. Products with a
    NumPy array take it to the device and bring the answer back in double. torch differentiates
    what is returned, by the points, by V and by hyperparameters that are tensors.
    """

    def __init__(self, pairs: TensorPairMatrix, reason: str = "recomputed in tiles"):
        super().__init__(pairs.shape, pairs.dtype, f"{reason}, on {pairs.device}")
        self.pairs = pairs

    def _pairs(self) -> TensorPairMatrix:
        return self.pairs

    @computing
    def __matmul__(self, V: Any) -> Any:
        if is_foreign(V):
            return super().__matmul__(V)
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
        R = self._times(like(V, self._numbers()))
        R = R if targets is None else like(targets, R) - R
        if weight is not None:
            R = like(weight, R)[:, None] * R
        pulled, total = self._transposed_times(R), R.sum(0)
        if isinstance(V, torch.Tensor):
            return pulled, total
        return as_numpy(pulled), as_numpy(total)

    def _numbers(self) -> Any:
        """A tensor of none, of the dtype and at the place of products."""
        return torch.empty(0, dtype=torch.float64, device=self.pairs.device)

    def diagonal(self) -> Any:
        return self.pairs.diagonal()

    def rows(self, indices: Any) -> Any:
        """K[indices] as for arrays; positions of NumPy's give a NumPy array."""
        if isinstance(indices, Integral) or getattr(indices, "shape", None) == ():
            return self.rows([int(indices)])[0]
        found = self.block(indices, slice(None))
        return as_numpy(found) if isinstance(indices, np.ndarray) else found

    def dense(self) -> Any:
        return self.pairs.gram()

    @learning
    def gradient(self, U: Any, V: Any) -> dict[str, float | np.ndarray]:
        return super().gradient(U, V)

    def block(self, rows: Any, columns: Any) -> Any:
        return self.pairs.block(rows, columns)

    def derivative(self, path: str, index: int | None = None) -> TensorGram:
        name = path if index is None else f"{path}[{index}]"
        pairs = self.pairs.derivative(path, index)
        assert isinstance(pairs, TensorPairMatrix)
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

    def __init__(self, pairs: TensorPairMatrix, reason: str):
        super().__init__(pairs, reason)
        self.K = pairs.gram()

    def _times(self, V: Any) -> Any:
        return stored_product(self.K, V)

    def _transposed_times(self, U: Any) -> Any:
        return stored_product(self.K, U, transposed=True)

    @computing
    def block(self, rows: Any, columns: Any) -> Any:
        places = [positions(P, n) for P, n in zip((rows, columns), self.shape, strict=True)]
        at = [slice(None) if P is None else P.to(self.K.device) for P in places]
        return self.K[at[0]][:, at[1]]

    def rows(self, indices: Any) -> Any:
        if isinstance(indices, slice):
            return self.K[indices]
        return super().rows(indices)

    def dense(self) -> Any:
        return self.K


class _Transposed:
    """Kᵀ, known by its products alone."""

    def __init__(self, gram: TensorGram):
        self.gram, self.shape, self.dtype = gram, gram.shape[::-1], gram.dtype

    @computing
    def __matmul__(self, U: Any) -> Any:
        return _multiplied(self.gram._transposed_times, U, self.shape, self.gram.pairs.device)

    @property
    def T(self) -> TensorGram:
        return self.gram


def tensor_gram(pairs: TensorPairMatrix, store: bool = True) -> TensorGram:
    """The Gram operator of pairs: stored where a third of what may be taken is enough for it.

    A matrix that torch is to differentiate is not stored, so that every product has a graph of
    its own.
    """
    mib, budget = (
        pairs.shape[0] * pairs.shape[1] * pairs.dtype.itemsize / 2**20,
        device_budget(pairs.device) / 2**20,
    )
    recorded = pairs.recorded() is not None
    if store and not recorded and 3 * mib <= budget:
        return DenseTensorGram(pairs, f"stored: {mib:.1f} MiB fit the budget of {budget:.0f} MiB")
    why = f"{mib:.0f} MiB exceed a third of {budget:.0f} MiB" if store else "not all is needed"
    if recorded:
        why = "torch may ask for derivatives"
    return TensorGram(pairs, f"recomputed in tiles: {why}")


def _multiplied(multiply: Any, V: Any, shape: tuple[int, int], device: Any) -> Any:
    """A product with one column or several, in the library of V and its precision."""
    given = V if isinstance(V, torch.Tensor) else torch.as_tensor(_numbers(V))
    given = given.to(device)
    if given.ndim not in (1, 2) or len(given) != shape[1]:
        shapes = f"({shape[1]},) or ({shape[1]}, c)"
        raise ValueError(f"V has shape {tuple(given.shape)}; expected {shapes}")
    columns = given if given.ndim == 2 else given[:, None]
    if columns.is_complex():
        out = torch.complex(multiply(columns.real), multiply(columns.imag))
    else:
        out = multiply(columns)
    out = out.reshape(shape[0], *given.shape[1:])
    if not isinstance(V, torch.Tensor):
        return as_numpy(out)
    return out.to(_precision(V))


def _numbers(V: Any) -> np.ndarray:
    """An array in double, real or complex, that torch may write to."""
    V = np.asarray(V)
    return np.array(V, np.complex128 if np.iscomplexobj(V) else np.float64)


def _precision(V: Any) -> Any:
    """The dtype of a product with V."""
    if is_half(V):
        return torch.float32
    return V.dtype if V.is_floating_point() or V.is_complex() else torch.float64
