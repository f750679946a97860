"""check_kernel: what is known about a kernel, a function or a matrix, and what its Gram shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import take_rows, to_cpu
from mercer.kernels.given import FromFunction, FromMatrix, Precomputed, asymmetric_pair
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import (
    Counterexample,
    Validity,
    is_clearly_negative,
    shrink,
    smallest_eigenvalue,
    tolerance,
)


@dataclass(frozen=True, eq=False)
class KernelReport:
    """What `check_kernel` found.

    Attributes
    ----------
    valid : True, False or None
        None where neither a proof nor a counterexample is known.
    min_eigenvalue : float or None
        The smallest eigenvalue of the Gram matrix looked at.
    counterexample : Counterexample or None
        Points that show it; the two whose values differ, where k is not symmetric.
    validity : Validity or None
        The kernel's own proof or reason.
    tolerance : float
        How far below zero rounding alone can push an eigenvalue of this Gram.
    message : str
    """

    valid: bool | None
    min_eigenvalue: float | None
    counterexample: Counterexample | None
    validity: Validity | None
    tolerance: float
    message: str

    def __str__(self) -> str:
        head = {True: "valid", False: "not a kernel", None: "not decided"}[self.valid]
        parts = [f"{head}: {self.message}"]
        if self.min_eigenvalue is not None:
            parts.append(
                f"smallest eigenvalue {self.min_eigenvalue:.3g} (rounding: ±{self.tolerance:.1g})"
            )
        if self.valid is not False and self.validity is not None and self.validity.proof:
            parts.append(str(self.validity.proof))
        if self.counterexample is not None:
            parts.append(str(self.counterexample))
        return "\n".join(parts)


def check_kernel(k: Kernel | Callable | Any, X: Any = None) -> KernelReport:
    """Whether a similarity is a kernel: its Gram matrices are positive semidefinite.

    Parameters
    ----------
    k : Kernel, callable ``k(x, z)``, or (n, n) matrix
    X : points, optional
        A Gram matrix on them is looked at; needed for a callable.

    Returns
    -------
    KernelReport
        For a kernel, ``valid`` comes from its proof or a counterexample. A callable can be refuted
        by X but not proved; one that is not symmetric is refuted by two points. A matrix is judged
        by its eigenvalues, up to rounding.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> check_kernel(K.Sigmoid(coef0=1.0)).valid
    False
    >>> check_kernel([[1.0, 2.0], [2.0, 1.0]]).min_eigenvalue
    -1.0
    """
    k, X = to_cpu(k), to_cpu(X)
    if isinstance(k, Kernel):
        return _check_kernel(k, X)
    if callable(k):
        if X is None:
            raise ValueError(
                "X is missing: a function is checked on points, check_kernel(f, X), since only "
                "their Gram matrix can show something about it"
            )
        return _check_kernel(FromFunction(k), X)
    if isinstance(k, str):
        raise TypeError(
            f"k is the text {k!r}; pass a kernel, or kernels.parse(k) of one written as text"
        )
    if X is not None:
        raise ValueError("X has no meaning for a matrix; pass the matrix alone")
    matrix = FromMatrix(k)
    return _check_kernel(matrix, np.arange(len(matrix.matrix())))


def _check_kernel(k: Kernel, X: Any) -> KernelReport:
    validity = k.validity
    known = {"valid": True, "indefinite": False, "unknown": None}[validity.status]
    found = validity.counterexample
    if X is None:
        eigenvalue = found.eigenvalue if found else None
        return KernelReport(known, eigenvalue, found, validity, 0.0, _reason(validity))
    K = k(X) if isinstance(k, Precomputed) else k(X, X)  # both triangles, not one and its mirror
    E = k.rounding(X)
    _refuse_non_finite(K)
    if (pair := asymmetric_pair(K, E)) is not None:
        return _not_symmetric(K, X, pair, validity, E)
    message = _reason(validity)
    if known is not False and is_clearly_negative(K, E):
        found = shrink(X, K, E)
        claimed = f", against its claim: {message}" if known else ""
        known, message = False, f"the Gram matrix of X has a clearly negative eigenvalue{claimed}"
    elif known is None and not isinstance(k, FromMatrix):
        message = f"no contradiction on these {len(K)} points, which prove nothing beyond them"
    return KernelReport(known, smallest_eigenvalue(K), found, validity, tolerance(E), message)


def _not_symmetric(
    K: np.ndarray, X: Any, pair: tuple[int, int], validity: Validity, E: np.ndarray
) -> KernelReport:
    i, j = pair
    found = Counterexample(take_rows(X, list(pair)), K[np.ix_(pair, pair)], None)
    message = (
        f"not symmetric: k(x, z) = {K[i, j]:g} and k(z, x) = {K[j, i]:g} for the points x and z at "
        f"positions {i} and {j} of X"
    )
    return KernelReport(False, None, found, validity, tolerance(E), message)


def _refuse_non_finite(K: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(K))
    if len(bad):
        i, j = bad[0]
        raise ValueError(
            f"the kernel of points ({i}, {j}) of X is {K[i, j]}; a Gram matrix needs finite numbers"
        )


def _reason(validity: Validity) -> str:
    return validity.proof.claim if validity.proof else validity.reason
