"""Losses for kernel machines; to write one, derive from `Loss` or `PointwiseLoss`."""

from mercer.solvers.losses import (
    Absolute,
    BoxLoss,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    PointwiseLoss,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)

__all__ = [
    "Absolute",
    "BoxLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "PointwiseLoss",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
]
