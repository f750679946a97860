"""Densities that users bring as functions: smoothing kernels k(u) and joint densities f(u, s).

A kernel is checked when it arrives (k >= 0 and ∫ k = 1) and can be drawn from, both by importance
sampling from one heavy-tailed radial law, which works for kernels of any reasonable width in any
dimension.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_random_state

from mercer.kernels.kernel import Kernel
from mercer.kernels.smoothing.window import SmoothingKernel, log_sphere_surface
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS, draw_accepted

# The integral of a user's kernel is the mean over this many batches of this many points.
BATCHES, POINTS = 8, 2**14
# How far from one it may be, beyond four standard errors, and the effective number of points below
# which it is not trusted.
INTEGRAL_TOLERANCE, FEWEST_POINTS = 0.02, 100
# Proposals per wanted draw after which rejection sampling gives up.
PATIENCE = 2_000


def smoothing_kernel(kernel: str | Callable | SmoothingKernel, d: int) -> SmoothingKernel:
    """The smoothing kernel that a name, an object or a user's function stands for, in R^d.

    Parameters
    ----------
    kernel : str, SmoothingKernel or callable
        A key of `SMOOTHING_KERNELS`, or a function k of differences, ``(..., d) -> (...)``, which
        is integrated numerically and refused unless k >= 0 and ∫ k = 1.
    d : int
        Number of features.

    Examples
    --------
    >>> smoothing_kernel("epanechnikov", 3)
    Epanechnikov()
    """
    if isinstance(kernel, SmoothingKernel):
        return kernel
    names = ", ".join(SMOOTHING_KERNELS)
    if isinstance(kernel, str):
        if kernel not in SMOOTHING_KERNELS:
            raise ValueError(
                f"kernel={kernel!r} is not a smoothing kernel; expected one of {names}, "
                "or a function k(u) of differences"
            )
        return SMOOTHING_KERNELS[kernel]
    if isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel={kernel!r} is a Mercer kernel, which need not integrate to one; expected a "
            f"smoothing kernel: one of {names}, or a function k(u) of differences"
        )
    if callable(kernel):
        return FunctionKernel(kernel, d)
    raise TypeError(
        f"kernel={kernel!r} is a {type(kernel).__name__}; expected one of {names}, "
        "or a function k(u) of differences"
    )


class FunctionKernel(SmoothingKernel):
    """k(u) given by a function on R^d, checked to be a density.

    Parameters
    ----------
    function : callable
        Maps differences ``(..., d)`` to values ``(...)``, with k >= 0 and ∫ k(u) du = 1.
    d : int
        The dimension in which it is used and integrated.

    Notes
    -----
    The check and the draws propose u = r v with v uniform on the sphere and r log-logistic,
    P(r > x) = √d / (√d + x): kernels whose width is within two orders of magnitude of one are
    integrated to a few percent; one that is far from radial in many dimensions cannot be, and a
    warning says so. Draws are by rejection, the bound being the largest ratio
    k(u)/q(u) ever seen; when a proposal exceeds it, all draws start again.

    Examples
    --------
    >>> import numpy as np
    >>> laplace = FunctionKernel(lambda u: 0.5 * np.exp(-np.abs(u[..., 0])), 1)
    >>> laplace.log_pairs(np.array([[2.0]]), np.array([[2.0]])).round(3)
    array([[-0.693]])

    References
    ----------
    B. S. Caffo, J. G. Booth and A. C. Davis, Empirical supremum rejection sampling,
    Biometrika 89 (2002).
    """

    radial = False

    def __init__(self, function: Callable[[np.ndarray], np.ndarray], d: int):
        self.function = function
        self.d = d
        self.log_bound = self._checked_log_bound()

    def __repr__(self) -> str:
        return f"FunctionKernel({self.function!r}, d={self.d})"

    def values(self, u: np.ndarray) -> np.ndarray:
        """k(u) for differences ``u: (..., d)``."""
        return checked_values(self.function(u), u.shape[:-1], "kernel")

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        return quiet_log(self.values(U[:, None, :] - V[None, :, :]))

    def bytes_per_pair(self, d: int) -> int:
        return 32 * (d + 1)

    def variance(self, d: int) -> float:
        """Taken to be one: a user's function has the width the user gave it."""
        return 1.0

    def sample(self, n: int, d: int, random_state: Any = None) -> np.ndarray:
        rng = check_random_state(random_state)
        log_bound = self.log_bound
        while True:
            try:
                return draw_accepted(self._rejection(rng, n, log_bound), n)
            except _BoundExceeded as exceeded:
                log_bound = exceeded.log_ratio + np.log(1.5)

    def _rejection(
        self, rng: np.random.RandomState, n: int, log_bound: float
    ) -> Callable[[int], np.ndarray]:
        allowance = PATIENCE * (n + 500)

        def propose(size: int) -> np.ndarray:
            nonlocal allowance
            size = max(size, 1024)
            allowance -= size
            if allowance < 0:
                raise ValueError(
                    f"kernel: drawing from the function took over {PATIENCE} proposals a draw; "
                    "scale it to a width of about one and use bandwidth= for the width, or use "
                    "one of the named kernels"
                )
            u, log_q = self._propose(rng.uniform(size=(size, self.d + 1)))
            log_ratio = quiet_log(self.values(u)) - log_q
            if log_ratio.max() > log_bound:
                raise _BoundExceeded(log_ratio.max())
            return u[np.log(rng.uniform(size=size)) < log_ratio - log_bound]

        return propose

    def _propose(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points u with their log density log q(u), from ``uniforms: (n, d + 1)``."""
        tiny = 2.0**-40
        uniforms = np.clip(uniforms, tiny, 1 - tiny)
        width = np.sqrt(self.d)
        r = width * uniforms[:, 0] / (1 - uniforms[:, 0])
        v = ndtri(uniforms[:, 1:])
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        log_q = -np.log(width) - 2 * np.log1p(r / width)
        log_q -= log_sphere_surface(self.d) + (self.d - 1) * np.log(r)
        return r[:, None] * v, log_q

    def _checked_log_bound(self) -> float:
        """A bound on log k/q, once the integral is found to be one."""
        rng = np.random.default_rng(0)
        ratios = []
        for _ in range(BATCHES):
            u, log_q = self._propose(rng.uniform(size=(POINTS, self.d + 1)))
            ratios.append(quiet_log(self.values(u)) - log_q)
        weights = np.exp(np.concatenate(ratios))
        integral, error = weights.mean(), weights.std() / np.sqrt(len(weights))
        reliable = weights.sum() ** 2 > FEWEST_POINTS * (weights**2).sum()
        if reliable and abs(integral - 1) > INTEGRAL_TOLERANCE + 4 * error:
            raise ValueError(
                f"kernel: the function integrates to {integral:.4g} over R^{self.d}; a smoothing "
                "kernel must integrate to 1 in the dimension of the data: divide it by its integral"
            )
        if not reliable:
            # In many dimensions a few points may carry the estimate; in few, or where it is absurd,
            # the function is to blame.
            if self.d <= 3 or not 0 < integral < 1000:
                raise ValueError(
                    f"kernel: the function has no finite integral over R^{self.d}, or is very "
                    "narrow or wide; scale it to a width of about one and use bandwidth= for the "
                    "width"
                )
            warnings.warn(
                f"kernel: that the function integrates to 1 over R^{self.d} could not be checked",
                UserWarning,
                stacklevel=2,
            )
        return float(np.log(1.5 * weights.max()))


class _BoundExceeded(Exception):
    def __init__(self, log_ratio: float):
        self.log_ratio = log_ratio


class JointDensity(SmoothingKernel):
    """g(u) = ∫ f(u, s) ds, the marginal of a component density f of a difference in x and in t.

    Parameters
    ----------
    function : callable
        ``f(u, s)`` for ``u: (..., d)`` and ``s: (...)``, non-negative, with mean zero in s for
        every u. It need not be normalised: constants cancel in p(t | x).

    Notes
    -----
    Integrals over s are by the trapezoidal rule in z, s = c sinh(z), with c the median of |s|
    under f(0, s): exponentially accurate for smooth f, to a few percent where f jumps (an error
    that cancels when the jump does not move with u).

    Examples
    --------
    >>> import numpy as np
    >>> f = JointDensity(lambda u, s: np.exp(-0.5 * (u[..., 0] ** 2 + s**2)))
    >>> np.exp(f.log_pairs(np.array([[0.0]]), np.array([[0.0]]))) ** 2 / np.pi
    array([[2.]])
    """

    radial = False

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        self.function = function

    def __repr__(self) -> str:
        return f"JointDensity({self.function!r})"

    def values(self, u: np.ndarray, s: np.ndarray) -> np.ndarray:
        """f(u, s) for ``u: (..., d)`` and ``s: (...)``."""
        return checked_values(self.function(u, s), u.shape[:-1], "joint")

    def moment(self, u: np.ndarray, power: int, absolute: bool = False) -> np.ndarray:
        """∫ s^power f(u, s) ds for ``u: (..., d)``; of |s|^power where ``absolute``."""
        total = np.zeros(u.shape[:-1])
        for s, weight in self._nodes(u.shape[-1]):
            factor = (abs(s) if absolute else s) ** power
            total += weight * factor * self.values(u, np.full(u.shape[:-1], s))
        return total

    def log_pairs(self, U: np.ndarray, V: np.ndarray) -> np.ndarray:
        return quiet_log(self.moment(U[:, None, :] - V[None, :, :], 0))

    def bytes_per_pair(self, d: int) -> int:
        return 32 * (d + 2)

    def variance(self, d: int) -> float:
        """Taken to be one: a user's function has the width the user gave it."""
        return 1.0

    def sample(self, n: int, d: int, random_state: Any = None) -> np.ndarray:
        raise NotImplementedError("a joint density is only integrated; draw from KernelDensity")

    def check_centred(self, u: np.ndarray) -> None:
        """Raise a ValueError unless ∫ s f(u, s) ds = 0 at each of the differences ``u: (n, d)``."""
        mean, spread = self.moment(u, 1), self.moment(u, 1, absolute=True)
        bad = np.flatnonzero(np.abs(mean) > 1e-3 * spread)
        if len(bad):
            raise ValueError(
                f"joint: the function has a mean in t that is not zero at the difference "
                f"{u[bad[0]]} in x ({mean[bad[0]] / spread[bad[0]]:.2g} of its mean |t|); "
                "Nadaraya-Watson needs zero mean in t everywhere: shift the function in t"
            )

    def _nodes(self, d: int) -> Iterator[tuple[float, float]]:
        """Nodes s and weights ds of the quadrature."""
        centre = self._median(d)
        step = 0.1
        for z in step * np.arange(-200, 201):
            yield centre * np.sinh(z), step * centre * np.cosh(z)

    def _median(self, d: int) -> float:
        """The median of |s| under f(0, s), found on a logarithmic scale."""
        grid = np.exp(0.05 * np.arange(-600, 601))
        origin = np.zeros((len(grid), d))
        mass = grid * (self.values(origin, grid) + self.values(origin, -grid))
        total = mass.sum()
        if not (np.isfinite(total) and total > 0):
            raise ValueError(
                f"joint: the function f(0, t) integrates to {total} over t; expected a finite "
                "positive number"
            )
        return float(grid[np.searchsorted(np.cumsum(mass), total / 2)])


def checked_values(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """What a user's density returned, if it is non-negative, finite and of the right shape."""
    values = np.asarray(values, dtype=float)
    if values.shape != shape:
        raise ValueError(
            f"{name}: the function returned shape {values.shape} for differences of shape "
            f"{shape} + (d,); expected one value for each difference vector, shape {shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: the function returned NaN or infinity; expected finite values")
    if values.size and values.min() < 0:
        raise ValueError(
            f"{name}: the function returned {values.min():.4g}; a density is never negative"
        )
    return values


def quiet_log(values: np.ndarray) -> np.ndarray:
    """log with log 0 = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)
