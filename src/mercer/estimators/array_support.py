"""What an estimator declares about the arrays it takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mercer.arrays import NUMPY, Backend, backend
from mercer.expressions.tensors import by_triton


@dataclass(frozen=True)
class ArraySupport:
    """How an estimator takes torch tensors and functions; its class has it as ``_arrays``.

    Everything else about arrays follows from it: `inputs` checks points, `fitting` converts fitted
    attributes. A classifier that was fitted on a tensor y has ``_labels_in_tensors`` set, and
    predicts tensors.

    Attributes
    ----------
    tensors : "nowhere", "everywhere" or "triton"
        Where tensors of points are computed with as they are: nowhere (those in memory are read as
        arrays, those on a device refused), anywhere, or on devices with Triton, because the host
        has faster ways.
    function_of : "rows" or "sets"
        What a function that is given as kernel takes: two rows, or two arrays of rows.
    answers : tuple of str
        Fitted arrays that become tensors where X is one.
    """

    tensors: Literal["nowhere", "everywhere", "triton"] = "nowhere"
    function_of: Literal["rows", "sets"] = "rows"
    answers: tuple[str, ...] = ()

    def backend(self, X: Any) -> Backend:
        """What computes with points X: the backend of X, or NumPy's where it is to be converted."""
        own = backend(X)
        taken = self.tensors == "everywhere" or (
            self.tensors == "triton" and by_triton(own.device_type(X))
        )
        return own if taken else NUMPY


DEFAULT = ArraySupport()


def array_support(estimator: Any) -> ArraySupport:
    """What the class of an estimator declares."""
    return getattr(estimator, "_arrays", DEFAULT)
