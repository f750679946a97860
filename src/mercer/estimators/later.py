"""Options that have their name already and their method in a later release, listed once."""

from __future__ import annotations

from typing import NamedTuple


class Later(NamedTuple):
    """An option of an estimator that is refused for now, and what to use instead."""

    estimator: str
    parameter: str
    value: str
    instead: str


LATER: list[Later] = [
    Later("KernelDensity", "bandwidth", "isj", '"silverman", "scott" or a number'),
    Later("KernelDensity", "bandwidth", "lscv", '"silverman", "scott" or a number'),
    Later("KernelDensity", "bandwidth", "mlcv", '"silverman", "scott" or a number'),
    Later("KernelDensity", "bandwidth", "plugin", '"silverman", "scott" or a number'),
]


class NotYet(NotImplementedError, ValueError):
    """The option exists by name only; a ValueError too, since another value would do."""


def not_yet(parameter: str, value: str, instead: str) -> NotImplementedError:
    """The error that refuses ``parameter=value`` and says what to use instead.

    Examples
    --------
    >>> print(not_yet("bandwidth", "isj", '"silverman"'))
    bandwidth='isj' is not available yet; use "silverman" instead
    """
    return NotYet(f"{parameter}={value!r} is not available yet; use {instead} instead")
