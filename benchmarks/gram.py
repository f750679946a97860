"""Gram matrices: mercer beside scikit-learn's ``pairwise_kernels``, in one run.

Each line is one kernel on n points of d features: the best time of several repeats, in which the
two take turns, their ratio (above 1: mercer is faster), and the error of both against extended
precision, measured on some of the entries and relative to the largest.

    python benchmarks/gram.py --n 2000 --repeats 7
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import scipy
import sklearn
from sklearn.metrics.pairwise import pairwise_kernels

from mercer import kernels as K

Array = np.ndarray


def squared_distances(X: Array, Z: Array) -> Array:
    return np.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=2)


def city_block(X: Array, Z: Array) -> Array:
    return np.sum(np.abs(X[:, None, :] - Z[None, :, :]), axis=2)


def dot(X: Array, Z: Array) -> Array:
    return np.sum(X[:, None, :] * Z[None, :, :], axis=2)


def chi_square(X: Array, Z: Array) -> Array:
    difference, total = X[:, None, :] - Z[None, :, :], X[:, None, :] + Z[None, :, :]
    return np.sum(difference**2 / np.where(total == 0, 1, total), axis=2)


def cosine(X: Array, Z: Array) -> Array:
    norms = np.sqrt(np.sum(X**2, axis=1)[:, None] * np.sum(Z**2, axis=1))
    return dot(X, Z) / norms


# scikit-learn's name and arguments, mercer's kernel, and the formula for extended precision, for
# d features.
CASES: dict[str, Callable[[int], tuple[dict, K.Kernel, Callable[[Array, Array], Array]]]] = {
    "linear": lambda d: ({}, K.Linear(), dot),
    "polynomial": lambda d: (
        {"degree": 3, "gamma": 1 / d, "coef0": 1.0},
        K.Polynomial(3, 1 / d, 1.0),
        lambda X, Z: (dot(X, Z) / d + 1) ** 3,
    ),
    "cosine": lambda d: ({}, K.Cosine(), cosine),
    "rbf": lambda d: (
        {"gamma": 1 / d},
        K.RBF(1 / d),
        lambda X, Z: np.exp(-squared_distances(X, Z) / d),
    ),
    "laplacian": lambda d: (
        {"gamma": 1 / d},
        K.Laplacian(1 / d),
        lambda X, Z: np.exp(-city_block(X, Z) / d),
    ),
    "chi2": lambda d: (
        {"gamma": 1 / d},
        K.Chi2(1 / d),
        lambda X, Z: np.exp(-chi_square(X, Z) / d),
    ),
}


def data(kind: str, n: int, d: int, dtype: str) -> Array:
    """Points around the origin, far from it, or non-negative (for chi2)."""
    X = np.random.default_rng(0).normal(size=(n, d))
    if kind == "offset":
        X += 1000.0
    if kind == "non-negative":
        X = np.abs(X)
    return X.astype(dtype)


def best_times(routines: list[Callable[[], Array]], repeats: int) -> list[float]:
    """Seconds of each routine at its best; they take turns, so that both meet the same machine."""
    best = [np.inf] * len(routines)
    for _ in range(repeats):
        for i, routine in enumerate(routines):
            start = time.perf_counter()
            routine()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def errors(grams: list[Array], X: Array, formula: Callable, sample: int = 150) -> list[float]:
    """Largest error on a block of entries, diagonal included, relative to the largest entry."""
    rows = np.random.default_rng(1).choice(len(X), size=min(sample, len(X)), replace=False)
    wide = X[rows].astype(np.longdouble)
    reference = formula(wide, wide)
    largest = np.max(np.abs(reference))
    return [float(np.max(np.abs(G[np.ix_(rows, rows)] - reference)) / largest) for G in grams]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000, help="number of points")
    parser.add_argument("--repeats", type=int, default=5, help="how often each is timed")
    parser.add_argument("--features", type=int, nargs="+", default=[3, 30, 300])
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    options = parser.parse_args()

    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}; n = {options.n}, {options.dtype}, "
        f"best of {options.repeats}\n"
    )
    print("| kernel | data | d | mercer ms | sklearn ms | ratio | mercer error | sklearn error |")
    print("|---|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        kinds = ["non-negative"] if name == "chi2" else ["centred"]
        kinds += ["offset"] if name in ("rbf", "laplacian") else []
        for kind in kinds:
            for d in options.features:
                arguments, kernel, formula = case(d)
                X = data(kind, options.n, d, options.dtype)
                routines = [
                    lambda X=X, kernel=kernel: kernel(X),
                    lambda X=X, name=name, arguments=arguments: pairwise_kernels(
                        X, metric=name, **arguments
                    ),
                ]
                ours, theirs = errors([routine() for routine in routines], X, formula)
                t, s = best_times(routines, options.repeats)
                print(
                    f"| {name} | {kind} | {d} | {1e3 * t:.1f} | {1e3 * s:.1f} | {s / t:.2f} "
                    f"| {ours:.0e} | {theirs:.0e} |"
                )


if __name__ == "__main__":
    main()
