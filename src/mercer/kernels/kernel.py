"""What every kernel can do, derived from its formula, its domain and its proof."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Hashable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mercer._sklearn import ParameterMixin, validate_parameter_constraints
from mercer.arrays import as_numbers, namespace
from mercer.arrays.libraries import to_input_type, to_native
from mercer.arrays.torch_state import computing
from mercer.expressions import Constant as Number
from mercer.expressions import (
    Expression,
    PairMatrix,
    Scale,
    Statistic,
    View,
    diagonal,
    lower,
    over,
    rounding,
)
from mercer.kernels.domains import REALS, Domain
from mercer.kernels.expansions import Expansion
from mercer.kernels.validity import Validity, search
from mercer.memory_errors import explaining_memory

if TYPE_CHECKING:
    from mercer.kernels.approximations import ApproximateMap
    from mercer.kernels.feature_maps import FeatureMap

REGISTRY: dict[str, type[Kernel]] = {}
# Formulas and proofs of vector kernels whose parameters are plain values, by these.
_FORMULAS: dict[tuple | None, Expression] = {}
_VALIDITIES: dict[tuple, Validity] = {}
MOST_FORMULAS = 256


class NoFiniteFeatureMap(TypeError):
    """The kernel has no feature map into a finite-dimensional space."""


class Kernel(ParameterMixin):
    """A similarity k(x, z), with everything that is derived from its definition.

    Subclasses say what they are (`build`), where (`domain`) and why they are valid (`judge`).
    """

    def _validate_params(self) -> None:
        """Raise an error that names a parameter that is not what it may be."""
        given = {name: as_numbers(value) for name, value in self.get_params(deep=False).items()}
        validate_parameter_constraints(self._parameter_constraints, given, type(self).__name__)

    # NumPy scalars on the left of an operator then leave the operation to us.
    __array_ufunc__ = None
    # How tightly its text binds: 0 for a sum, 1 for a product, 2 for a power, 3 for all others.
    precedence = 3
    _parameter_constraints: dict = {}

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if not abstract and not cls.__name__.startswith("_"):
            REGISTRY.setdefault(cls.__name__, cls)

    # What a kernel says of itself.

    def build(self, view: View, path: str) -> Expression:
        """The kernel's formula on points seen through ``view``, parameters named from ``path``."""
        raise NotImplementedError(
            f"{type(self).__name__} must define build; a kernel of vectors derives from "
            "kernels.VectorKernel and defines formula and why"
        )

    @property
    def domain(self) -> Domain:
        """The points this kernel is defined on."""
        return REALS

    def judge(self) -> Validity:
        """Whether the kernel is positive semidefinite at its current parameters, and why."""
        raise NotImplementedError(f"{type(self).__name__} must define judge, or why as a text")

    @property
    def is_stationary(self) -> bool:
        """Whether k(x, z) is a function of x - z."""
        return False

    @property
    def distance(self) -> Hashable | None:
        """The distance k(x, z) is a function of, by name; None where there is no such distance."""
        return None

    @property
    def is_isotropic(self) -> bool:
        """Whether k(x, z) is a function of one distance between x and z."""
        return self.distance is not None

    @property
    def is_infinitely_divisible(self) -> bool:
        """Whether k**t is positive semidefinite for every t > 0."""
        return False

    def feature_map(self) -> FeatureMap:
        """A transformer phi with phi(x)·phi(z) = k(x, z), where one of finite size exists.

        Raises
        ------
        NoFiniteFeatureMap
        """
        raise NoFiniteFeatureMap(
            f"{type(self).__name__} has no finite feature map; approximate_map(n_components) gives "
            "one that approximates it"
        )

    def frequencies(self, rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        """n draws from the kernel's spectral distribution, shape (n, d), for stationary kernels."""
        raise TypeError(
            f"method='fourier' needs a stationary kernel with a known spectrum, and {self!r} is "
            "not one; use method='nystrom'"
        )

    def expand(self) -> Expansion:
        """The kernel as a polynomial in kernels that are not sums, products or powers."""
        return Expansion.of_kernel(self)

    # What follows.

    def expression(self) -> Expression:
        """The kernel as one expression over pair statistics."""
        return self.build(View(), "")

    def over(self, X: Any, Y: Any = None) -> PairMatrix:
        """The kernel over all pairs of X and Y, to be evaluated block by block."""
        return over(self.expression(), to_native(X), to_native(Y), self.tensors())

    def tensors(self) -> dict[str, Any]:
        """The hyperparameters, by path, that are tensors that require a gradient."""
        if "torch" not in sys.modules:
            return {}
        given = self.get_params(deep=True).items()
        return {path: value for path, value in given if getattr(value, "requires_grad", False)}

    @computing
    @explaining_memory
    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """The Gram matrix, shape (n, m); symmetric to the last bit where Y is None.

        Of tensors it is a tensor, computed where they are, which torch may differentiate.
        """
        return to_input_type(self.over(X, Y).gram(), X)

    @computing
    @explaining_memory
    def diag(self, X: Any) -> np.ndarray:
        """k(x, x) for each x, shape (n,)."""
        return to_input_type(self.over(X).diagonal(), X)

    def rounding(self, X: Any) -> np.ndarray:
        """How far rounding may have moved each entry of the Gram matrix of X, shape (n, n)."""
        return rounding(self.over(X))

    @computing
    @explaining_memory
    def gradient(self, X: Any, Y: Any = None) -> dict[str, np.ndarray]:
        """The Gram's derivative with respect to each hyperparameter.

        Returns
        -------
        dict
            For every parameter path (``gamma``, ``left__scales``, ...) an array of shape (n, m),
            or (n, m, d) for a vector of d scales.
        """
        pairs = self.over(X, Y)
        found = {}
        for path, size in pairs.formula.parameters().items():
            if size is None:
                found[path] = pairs.derivative(path).gram()
            else:
                parts = [pairs.derivative(path, i).gram() for i in range(size)]
                found[path] = namespace(parts[0]).stack(parts, -1)
        return found

    def settled(self, X: Any) -> Kernel:
        """The kernel with numbers for widths given as "scale" or "median", from the points X."""
        from mercer.kernels.widths import settled

        return settled(self, X)

    def _repr_latex_(self) -> str:
        """The formula, in notebooks."""
        from mercer.kernels.formulas import latex

        return f"$k(x, z) = {latex(self)}$"

    def _repr_html_(self) -> str:
        """The formula and the text that `parse` reads, in notebooks."""
        from mercer.kernels.formulas import html

        return html(self)

    @property
    def validity(self) -> Validity:
        """A proof, a counterexample, or "unknown" after a short search for one.

        Raises
        ------
        ValueError
            If the kernel's constants, multiplied or added up, are beyond the range of float64.
        """
        found = self.judge()
        if found.status == "valid" and not has_named_widths(self):
            refuse_overflow(self)
        return found

    def searched(self, reason: str) -> Validity:
        """Indefinite if a short search finds a counterexample, unknown otherwise."""
        steps = [
            s for n in self.expression().walk() if isinstance(n, Statistic) for s in n.view.steps
        ]
        widths = sorted({len(s.scales) for s in steps if isinstance(s, Scale)})
        found = search(self, self.domain.sample, widths or (1, 2, 3, 4))
        if found is None:
            return Validity("unknown", reason=reason)
        return Validity("indefinite", counterexample=found, reason="these points show it")

    def approximate_map(
        self, n_components: int = 100, method: str = "fourier", random_state: Any = None
    ) -> ApproximateMap:
        """A transformer into ``n_components`` features whose inner products approximate k.

        Parameters
        ----------
        n_components : int
        method : "fourier" (stationary kernels), "nystrom" (any), "sketch" (polynomials)
        random_state : int, RandomState or None
        """
        from mercer.kernels.approximations import approximate_map

        return approximate_map(self, n_components, method, random_state)

    # Algebra.

    def __add__(self, other: Any) -> Kernel:
        return _algebra().add(self, other)

    def __radd__(self, other: Any) -> Kernel:
        return _algebra().add(other, self)

    def __sub__(self, other: Any) -> Kernel:
        return _algebra().subtract(self, other)

    def __rsub__(self, other: Any) -> Kernel:
        return _algebra().subtract(other, self)

    def __mul__(self, other: Any) -> Kernel:
        return _algebra().multiply(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return _algebra().multiply(other, self)

    def __truediv__(self, other: Any) -> Kernel:
        return _algebra().divide(self, other)

    def __neg__(self) -> Kernel:
        return _algebra().multiply(-1.0, self)

    def __pow__(self, exponent: float) -> Kernel:
        from mercer.kernels.power import Power

        return Power(self, exponent)

    def normalize(self) -> Kernel:
        """k(x,z) / sqrt(k(x,x) k(z,z)), zero where k(x,x) or k(z,z) is; see `Normalized`.

        A normalised kernel is returned as it is.
        """
        normalised = _transformations().Normalized
        return self if isinstance(self, normalised) else normalised(self)

    def rescale(self, f: Any) -> Kernel:
        """f(x) k(x,z) f(z), for f a function of an array of points or a formula in `sqnorm`."""
        return _transformations().Rescaled(self, f)

    def compose(self, phi: Callable[[Any], Any]) -> Kernel:
        """k(phi(x), phi(z)), for phi a function of an array of points."""
        return _transformations().Composed(self, phi)

    def on(self, columns: Any) -> Kernel:
        """The kernel on these columns of a table, by name or position."""
        from mercer.kernels.columns import OnColumns

        return OnColumns(self, columns)

    # Writing.

    def __repr__(self) -> str:
        shown = [
            f"{name}={literal(getattr(self, name))}"
            for name, parameter in _signature(type(self)).items()
            if not (getattr(self, name) is None and parameter.default is None)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def key(self) -> tuple:
        """A hashable value, equal for kernels that are the same by structure and parameters."""
        return (type(self).__name__, *(_hashable(v) for v in self.get_params(deep=False).values()))


# Values of parameters that never change.
PLAIN = {bool, float, int, str, type(None), np.float64}


# Widths by name, which are settled on points.
WIDTHS = ("scale", "median")


def has_named_widths(kernel: Kernel) -> bool:
    """Whether some width is to be settled on points."""
    given = kernel.get_params(deep=True).values()
    return any(isinstance(value, str) and value in WIDTHS for value in given)


def refuse_overflow(kernel: Kernel) -> None:
    """Raise where the numbers of a kernel, taken together, are not finite."""
    for node in lower(diagonal(kernel.expression(), 0)).walk():
        if isinstance(node, Number) and not math.isfinite(node.value):
            raise ValueError(
                f"{kernel!r:.200} overflows: its constants together are beyond the range of float64"
            )


def plain_key(values: Mapping[str, Any], owner: type) -> tuple | None:
    """Parameters as a hashable value, with their types; None where one is not a plain value.

    Examples
    --------
    >>> plain_key({"gamma": 1.0}, dict) == plain_key({"gamma": 1}, dict)
    False
    >>> plain_key({"scales": [1.0, 2.0]}, dict) is None
    True
    """
    kinds = tuple(map(type, values.values()))
    return (owner, kinds, *values.items()) if PLAIN.issuperset(kinds) else None


@functools.cache
def _signature(kernel: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kernel).parameters


def _algebra() -> Any:
    from mercer.kernels import algebra

    return algebra


def _transformations() -> Any:
    from mercer.kernels import transformations

    return transformations


def literal(value: Any) -> str:
    """A parameter as text the parser reads back; functions in angle brackets, which it refuses."""
    value = as_numbers(value)
    if sp.issparse(value):
        value = value.toarray()
    if hasattr(value, "to_numpy"):  # a DataFrame or a Series
        value = value.to_numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, bool | str | bytes | Integral | Kernel):
        return repr(value)
    if isinstance(value, Real):
        return repr(float(value))
    return f"<{getattr(value, '__name__', type(value).__name__)}>"


def _hashable(value: Any) -> Any:
    value = as_numbers(value)
    if isinstance(value, Kernel):
        return value.key()
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, list | tuple):
        return tuple(_hashable(v) for v in value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
