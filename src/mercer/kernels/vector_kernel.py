"""Kernels on vectors: one formula over pair statistics, and the scales of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import as_numbers
from mercer.expressions import Check, Expression, Parameter, Scale, View
from mercer.expressions import statistic as statistic_node
from mercer.kernels.kernel import (
    _FORMULAS,
    _VALIDITIES,
    MOST_FORMULAS,
    WIDTHS,
    Kernel,
    literal,
    plain_key,
)
from mercer.kernels.validity import Validity, valid

if TYPE_CHECKING:
    pass


class VectorKernel(Kernel, abstract=True):
    """A kernel on vectors given by a formula: derive from it to write one of your own.

    A subclass has ``__init__``, which stores its parameters under their names, `formula`, and
    ``why``, the reason for which it is a kernel, or a method `judge` where that depends on the
    parameters. Gram matrices, products, gradients, sums with other kernels and grid search follow.

    Examples
    --------
    >>> from mercer import SVC
    >>> class Cauchy(VectorKernel):
    ...     why = "a mixture of Gaussians of all widths"
    ...     def __init__(self, gamma=1.0):
    ...         self.gamma = gamma
    ...     def formula(self, s, p):
    ...         return 1 / (1 + p.gamma * s.sqdist)
    >>> k = Cauchy(0.5)
    >>> k([[0.0], [2.0]])[0].round(3).tolist(), (2 * k + 1).validity.status
    ([1.0, 0.333], 'valid')
    >>> SVC(kernel=k).fit([[0.0], [2.0]], ["a", "b"]).predict([[1.5]])
    array(['b'], dtype='<U1')
    """

    why: str = ""

    def formula(self, s: Statistics, p: Parameters) -> Expression:
        """The kernel, as an expression.

        Parameters
        ----------
        s : statistics of a pair of points
            ``s.dot``, ``s.sqdist``, ``s.l1``, ``s.minsum``, ``s.chi2``, ``s.conjunction``.
        p : the parameters of the kernel, such as ``p.gamma``
            With operators and the functions of `mercer.expressions`: exp, log, sqrt, tanh.
        """
        raise NotImplementedError(f"{type(self).__name__} must define formula(s, p)")

    def build(self, view: View, path: str) -> Expression:
        own = plain_key(vars(self), type(self))
        seen = (view, path) if view.steps or path else ()
        key = None if own is None else (type(self).formula, own, *seen)
        known = _FORMULAS.get(key)
        if known is not None:
            return known
        self._validate_params()
        built = self.formula(Statistics(self.seen_through(view, path)), Parameters(self, path))
        if key is not None:
            if len(_FORMULAS) >= MOST_FORMULAS:
                _FORMULAS.clear()
            _FORMULAS[key] = built
        return built

    def seen_through(self, view: View, path: str) -> View:
        return view.then(Check(self.domain))

    @property
    def validity(self) -> Validity:
        own = plain_key(vars(self), type(self))
        if own is None:
            return self.judge()
        key = (type(self).judge, own)
        found = _VALIDITIES.get(key)
        if found is None:
            found = self.judge()
            if len(_VALIDITIES) >= MOST_FORMULAS:
                _VALIDITIES.clear()
            _VALIDITIES[key] = found
        return found

    def judge(self) -> Validity:
        self._validate_params()
        return valid(f"{self!r} is a kernel on {self.domain}", self.why)


class ScaledKernel(VectorKernel, abstract=True):
    """A vector kernel with ``scales``: one divisor per feature, k(x / s, z / s).

    Derive from it as from `VectorKernel`, and store ``scales=None`` in ``__init__``.
    """

    _parameter_constraints: dict = {"scales": ["array-like", None]}
    scales: Any

    def checked_scales(self) -> np.ndarray | None:
        """The scales as an array of shape (d,), or a ValueError that names them."""
        if self.scales is None:
            return None
        try:
            scales = np.asarray(as_numbers(self.scales), dtype=float)
        except (OverflowError, TypeError, ValueError):
            scales = np.empty(0)
        if scales.ndim != 1 or not scales.size or not np.all(np.isfinite(scales) & (scales > 0)):
            raise ValueError(
                f"scales={literal(self.scales)} of {type(self).__name__}: expected positive, "
                "finite numbers, one per feature"
            )
        return scales

    def judge(self) -> Validity:
        self.checked_scales()
        return super().judge()

    def seen_through(self, view: View, path: str) -> View:
        view, scales = view.then(Check(self.domain)), self.checked_scales()
        if scales is None:
            return view
        return view.then(Scale(path + "scales", tuple(scales.tolist())))


class Statistics:
    """The pair statistics of points seen through one view: ``s.dot``, ``s.sqdist``, ``s.l1``..."""

    def __init__(self, view: View):
        self.view = view

    def __getattr__(self, name: str) -> Expression:
        try:
            return statistic_node(name, self.view)
        except KeyError:
            raise AttributeError(f"there is no pair statistic {name!r}") from None


class Parameters:
    """A kernel's numeric parameters as nodes of an expression: ``p.gamma``."""

    def __init__(self, kernel: Kernel, path: str):
        self._kernel, self._path = kernel, path

    def __getattr__(self, name: str) -> Parameter:
        value = getattr(self._kernel, name)
        if isinstance(value, str) and value in WIDTHS:
            raise ValueError(
                f"{name}={value!r} of {type(self._kernel).__name__} becomes a number when an "
                "estimator is fitted; for these points call kernel.settled(X)"
            )
        return Parameter(self._path + name, float(as_numbers(value)))
