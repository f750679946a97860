"""What is said where a kernel's values are beyond the range of floating point numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.arrays import as_numpy, namespace

_ADVICE = (
    "scale the points down, normalise the kernel, or give rescale a formula such as "
    "exp(-0.5 * sqnorm), whose exponent is added to the kernel's"
)


def check_finite(values: Any, what: str = "k(x, z)") -> None:
    """Raise a ValueError where values are not numbers; warn where they are infinite.

    No warning where ``np.errstate(over="ignore")`` says so.

    Parameters
    ----------
    values : (n, m) array or tensor, or (n,) for pairs of a point with itself
    what : str
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(float(values.sum())):  # one pass, and no array of flags
            return
    xp = namespace(values)
    for test, said in ((xp.isnan, "is not a number"), (xp.isinf, "is infinite")):
        bad = test(values)
        if not bool(bad.any()):
            continue
        at = np.argwhere(as_numpy(bad))[0]
        place = " and ".join(f"row {i} of {name}" for i, name in zip(at, "XY", strict=False))
        message = f"{what} {said} for {place}: parts of the kernel overflow"
        if test is xp.isnan:
            raise ValueError(f"{message}, or a function in it returned NaN; {_ADVICE}")
        if np.geterr()["over"] != "ignore":
            warnings.warn(f"{message}; {_ADVICE}", RuntimeWarning, stacklevel=4)
        return
