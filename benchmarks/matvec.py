"""K(X, Y) V for vector kernels: the fused core beside the best NumPy tiling and KeOps, in one run.

    python benchmarks/matvec.py [--small] [--repeats 5]

Every figure is the best of alternating repeats on both cores. The error is against long-double
arithmetic on some rows, relative to Σ|k||v|. KeOps is measured if it is installed (the ``bench``
extra) and compiles.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from mercer import core, gram
from mercer import kernels as K

PI = 4 * np.arctan(np.longdouble(1))
TILES = (128, 256, 512, 1024, 2048)


def best_of(functions: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Seconds of each function, the best of alternating repeats."""
    seconds = dict.fromkeys(functions, np.inf)
    for _ in range(repeats):
        for name, f in functions.items():
            start = time.perf_counter()
            f()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def sqdist(X, Y):
    D = X @ Y.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", Y, Y)
    return np.maximum(D, 0, out=D)


def over_features(update, start=0.0):
    def statistic(X, Y):
        out = np.full((len(X), len(Y)), start, dtype=X.dtype)
        scratch = np.empty_like(out)
        for x, z in zip(X.T, Y.T, strict=True):
            update(out, scratch, x[:, None], z)
        return out

    return statistic


def add_minimum(out, scratch, x, z):
    out += np.minimum(x, z, out=scratch)


def add_chi2(out, scratch, x, z):
    np.subtract(x, z, out=scratch)
    scratch *= scratch
    scratch /= x + z
    out += scratch


def multiply_conjunct(out, scratch, x, z):
    np.multiply(x, z, out=scratch)
    scratch += 1
    out *= scratch


def l1(X, Y):
    return cdist(X, Y, "cityblock").astype(X.dtype)


def in_place(*steps):
    def apply(D):
        for step in steps:
            D = step(D)
        return D

    return apply


def exp(D):
    return np.exp(D, out=D)


def times(c):
    def step(D):
        D *= c
        return D

    return step


def matern32(D):
    r = np.sqrt(3 * D)
    K = np.exp(-r)
    r += 1
    K *= r
    return K


def rational(D):
    D = D / 3
    D += 1
    D *= np.sqrt(D)
    return 1 / D


def matern52(D):
    r = np.sqrt(5 * D)
    K = np.exp(-r)
    factor = r * r
    factor /= 3
    factor += r
    factor += 1
    K *= factor
    return K


def dot(X, Y):
    return X @ Y.T


def plus(c):
    def step(D):
        D += c
        return D

    return step


def exponents(g):
    """Points extended so that their dot products are -g ‖x - z‖²: GEMM, exp, GEMM and no more."""

    def prepare(X, Y):
        one = np.ones((len(X), 1), X.dtype), np.ones((len(Y), 1), Y.dtype)
        x, y = (-g * np.einsum("ij,ij->i", A, A)[:, None] for A in (X, Y))
        return np.hstack([2 * g * X, x, one[0]]), np.hstack([Y, one[1], y])

    return prepare


def unit(X, Y):
    return tuple(A / np.sqrt(np.einsum("ij,ij->i", A, A))[:, None] for A in (X, Y))


def circle(period):
    def prepare(X, Y):
        turned = [A * A.dtype.type(2 * np.pi / period) for A in (X, Y)]
        return tuple(np.hstack([np.cos(A), np.sin(A)]) for A in turned)

    return prepare


def tanimoto(X, Y):
    D = X @ Y.T
    rest = np.subtract(np.einsum("ij,ij->i", X, X)[:, None], D)
    rest += np.einsum("ij,ij->i", Y, Y)
    D /= rest
    return D


def cubed(D):
    square = D * D
    square *= D
    return square


def as_given(X, Y):
    return X, Y


def numpy_forms(d):
    """kernel -> (points prepared, its best statistic in NumPy, the rest of its formula).

    All kernels of vectors but Constant, whose product is one sum.
    """
    g = 1 / d
    forms = {
        K.RBF(g): (exponents(g), dot, exp),
        K.Exponential(g): (sqdist, in_place(np.sqrt, times(-g), exp)),
        K.Laplacian(g): (l1, in_place(times(-g), exp)),
        K.Matern(1.5): (sqdist, matern32),
        K.Matern(2.5): (sqdist, matern52),
        K.RationalQuadratic(1.5): (sqdist, rational),
        K.Linear(): (dot, lambda D: D),
        K.Polynomial(3, g): (dot, in_place(times(g), plus(1), cubed)),
        K.Sigmoid(g, 0.5): (dot, in_place(times(g), plus(0.5), lambda D: np.tanh(D, out=D))),
        K.Cosine(): (unit, dot, lambda D: D),
        K.Tanimoto(): (tanimoto, lambda D: D),
        K.Periodic(4.0, d**0.5): (circle(4.0), dot, in_place(plus(-d), times(g), exp)),
        K.exp(g * K.Linear()): (dot, in_place(times(g), exp)),
        K.Conjunction(): (over_features(multiply_conjunct, 1.0), lambda D: D),
        K.Min(): (over_features(add_minimum), lambda D: D),
        K.Chi2(g): (over_features(add_chi2), in_place(times(-g), exp)),
    }
    return {k: form if len(form) == 3 else (as_given, *form) for k, form in forms.items()}


def numpy_product(form, X, Y, V, tile):
    prepare, statistic, formula = form
    X, Y = prepare(X, Y)
    out = np.empty((len(X), V.shape[1]), dtype=X.dtype)
    for i in range(0, len(X), tile):
        out[i : i + tile] = formula(statistic(X[i : i + tile], Y)) @ V
    return out


def best_tile(form, X, Y, V):
    """The tile height that is fastest on a part of the rows."""
    part = X[: max(TILES)]
    trials = {t: (lambda t=t: numpy_product(form, part, Y, V, t)) for t in TILES}
    seconds = best_of(trials, 2)
    return min(seconds, key=seconds.__getitem__)


def fused(kernel, X, Y, V):
    return kernel.over(X, Y).products(V, np.zeros((len(X), 0)))[0]


def relative_error(kernel, X, Y, V, found, rows=24):
    """Against the kernel's own formula in long double, on a few rows."""
    exact = slow_gram(kernel, X[:rows].astype(np.longdouble), Y.astype(np.longdouble))
    scale = np.abs(exact) @ np.abs(V.astype(np.longdouble))
    return float(np.max(np.abs(found[:rows] - exact @ V.astype(np.longdouble)) / scale))


def slow_gram(kernel, X, Y):
    gamma = np.longdouble(getattr(kernel, "gamma", 1))
    if isinstance(kernel, K.Conjunction):
        return np.stack([np.prod(1 + x * Y, axis=1) for x in X])
    if isinstance(kernel, K.Min):
        return np.stack([np.minimum(x, Y).sum(axis=1) for x in X])
    if isinstance(kernel, K.Chi2):
        return np.stack([np.exp(-gamma * ((x - Y) ** 2 / (x + Y)).sum(axis=1)) for x in X])
    if isinstance(kernel, K.Laplacian):
        return np.stack([np.exp(-gamma * np.abs(x - Y).sum(axis=1)) for x in X])
    if isinstance(kernel, K.Linear):
        return X @ Y.T
    if isinstance(kernel, K.Polynomial):
        return (gamma * (X @ Y.T) + 1) ** 3
    if isinstance(kernel, K.Exp):
        return np.exp(X @ Y.T * np.longdouble(kernel.kernel.left.value))
    if isinstance(kernel, K.Cosine):
        return (X @ Y.T) / np.sqrt((X**2).sum(axis=1)[:, None] * (Y**2).sum(axis=1))
    if isinstance(kernel, K.Tanimoto):
        return tanimoto(X, Y)
    if isinstance(kernel, K.Periodic):
        turns = np.stack([((np.sin((x - Y) * PI / kernel.period)) ** 2).sum(axis=1) for x in X])
        return np.exp(-2 * turns / np.longdouble(kernel.length_scale) ** 2)
    if isinstance(kernel, K.Sigmoid):
        return np.tanh(gamma * (X @ Y.T) + kernel.coef0)
    D = np.stack([((x - Y) ** 2).sum(axis=1) for x in X])
    if isinstance(kernel, K.Exponential):
        return np.exp(-gamma * np.sqrt(D))
    if isinstance(kernel, K.Matern):
        return matern32(D) if kernel.nu == 1.5 else matern52(D)
    if isinstance(kernel, K.RationalQuadratic):
        return (1 + D / 3) ** np.longdouble(-1.5)
    return np.exp(-gamma * D)


def keops_product(X, Y, V):
    """The same Gaussian product by KeOps, or None where it is not there."""
    try:
        from pykeops.numpy import LazyTensor
    except ImportError:
        return None
    gamma = 1 / X.shape[1]
    x, y = LazyTensor(X[:, None, :]), LazyTensor(Y[None, :, :])

    def product():
        return (-gamma * ((x - y) ** 2).sum(-1)).exp() @ V

    product()  # compiles
    return product


def row(name, pairs, seconds, error, peers, errors):
    rates = "  ".join(f"{p} {s / seconds:6.1f}x ({errors[p]:.0e})" for p, s in peers.items())
    print(f"{name:<44} {pairs / seconds / 1e9:7.2f}  {error:8.1e}  {rates}", flush=True)


def gaussian_rows(n, repeats):
    for d, dtype, size in (
        (3, np.float32, n),
        (10, np.float32, n),
        (30, np.float32, n),
        (100, np.float32, n),
        (784, np.float32, n * 2 // 5),
        (10, np.float64, n),
        (100, np.float64, n // 2),
    ):
        rng = np.random.default_rng(0)
        X, Y = (rng.normal(size=(size, d)).astype(dtype) for _ in range(2))
        V = rng.normal(size=(size, 1)).astype(dtype)
        kernel = K.RBF(1 / d)
        form = exponents(1 / d), dot, exp
        tile = best_tile(form, X, Y, V)
        run = {
            "mercer": lambda: fused(kernel, X, Y, V),
            "numpy": lambda: numpy_product(form, X, Y, V, tile),
        }
        keops = keops_product(X, Y, V) if dtype is np.float32 and d in (10, 100) else None
        if keops is not None:
            run["keops"] = keops
        seconds = best_of(run, repeats)
        mine = seconds.pop("mercer")
        error = relative_error(kernel, X, Y, V, fused(kernel, X, Y, V))
        errors = {name: relative_error(kernel, X, Y, V, run[name]()) for name in seconds}
        row(f"RBF {np.dtype(dtype).name} d={d} n={size}", size**2, mine, error, seconds, errors)


def kernel_rows(n, repeats):
    d = 10
    rng = np.random.default_rng(1)
    for kernel, form in numpy_forms(d).items():
        X, Y = (rng.normal(size=(n, d)).astype(np.float32) for _ in range(2))
        if not kernel.domain.name.startswith("all"):
            X, Y = np.abs(X), np.abs(Y)
        V = rng.normal(size=(n, 1)).astype(np.float32)
        tile = best_tile(form, X, Y, V)
        ways = {"": fused}
        if isinstance(kernel, K.Linear | K.Cosine):  # the operator multiplies by the features
            ways = {" by its features": lambda k, X, Y, V: gram(k, X, Y) @ V, " by tiles": fused}
        run = {name: partial(way, kernel, X, Y, V) for name, way in ways.items()}
        seconds = best_of(
            {**run, "numpy": lambda: numpy_product(form, X, Y, V, tile)},
            repeats,
        )
        peer = {"numpy": seconds.pop("numpy")}
        errors = {"numpy": relative_error(kernel, X, Y, V, numpy_product(form, X, Y, V, tile))}
        for name, product in run.items():
            error = relative_error(kernel, X, Y, V, product())
            label = f"{kernel!r}{name} float32 d=10"[:44]
            row(label, n * n, seconds[name], error, peer, errors)


def bit_rows(n, repeats, d=2048, share=0.05):
    """Points of zeros and ones, such as fingerprints of molecules."""
    rng = np.random.default_rng(5)
    X, Y = ((rng.random((n, d)) < share).astype(np.float32) for _ in range(2))
    V = rng.normal(size=(n, 1)).astype(np.float32)
    for kernel, form in numpy_forms(d).items():
        if not isinstance(kernel, K.Tanimoto | K.RBF):
            continue
        tile = best_tile(form, X, Y, V)
        run = {
            "mercer": lambda: fused(kernel, X, Y, V),
            "numpy": lambda: numpy_product(form, X, Y, V, tile),
        }
        seconds = best_of(run, repeats)
        mine = seconds.pop("mercer")
        error = relative_error(kernel, X, Y, V, run["mercer"]())
        errors = {"numpy": relative_error(kernel, X, Y, V, run["numpy"]())}
        row(f"{kernel!r} of bits float32 d={d} n={n}"[:44], n * n, mine, error, seconds, errors)


def composite_rows(n, repeats, seed, draws):
    """Three leaves drawn from all kernels: each composite compared with the sum of its leaves."""
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(n, 10))).astype(np.float32)
    V, nothing = rng.normal(size=(n, 1)).astype(np.float32), np.zeros((n, 0))
    leaves, ratios, sums = list(numpy_forms(10)), [], []
    for _ in range(draws):
        a, b, c = (leaves[i] for i in rng.choice(len(leaves), 3, replace=False))
        composite = a * b + c if rng.random() < 0.5 else (a + b) * c
        kernels = {"mercer": composite, "a": a, "b": b, "c": c}
        seconds = best_of(
            {name: (lambda k=k: k.over(X).products(V, nothing)) for name, k in kernels.items()},
            repeats,
        )
        parts = [seconds[name] for name in "abc"]
        ratios.append(seconds["mercer"] / max(parts))
        sums.append(seconds["mercer"] / sum(parts))
        print(
            f"{composite!r:<80.80} {sums[-1]:5.2f}x the sum of its leaves, {ratios[-1]:5.2f}x the "
            "slowest",
            flush=True,
        )
    for what, found in (("the sum of the leaves", sums), ("the slowest leaf", ratios)):
        print(
            f"{draws} composites over {what}: worst {max(found):.2f}, median {np.median(found):.2f}"
        )


def column_row(n, repeats):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 10)).astype(np.float32)
    nothing = np.zeros((n, 0))
    kernel = K.RBF(0.1)
    many = rng.normal(size=(n, 16)).astype(np.float32)
    seconds = best_of(
        {c: (lambda c=c: kernel.over(X).products(many[:, :c], nothing)) for c in (1, 16)}, repeats
    )
    print(f"16 columns take {seconds[16] / seconds[1]:.2f}x the time of one")


def gram_row(n, repeats):
    X = np.random.default_rng(4).normal(size=(n, 50))
    kernel = K.RBF(0.02)
    seconds = best_of(
        {"mercer": lambda: kernel(X), "sklearn": lambda: rbf_kernel(X, gamma=0.02)}, repeats
    )
    ratio = seconds["sklearn"] / seconds["mercer"]
    print(f"RBF Gram float64 n={n} d=50: {ratio:.2f}x scikit-learn's rbf_kernel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a quarter of the points")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=2, help="of the composites")
    parser.add_argument("--draws", type=int, default=20, help="composites to draw")
    arguments = parser.parse_args()
    n = 5_000 if arguments.small else 20_000
    today = datetime.date.today().isoformat()
    print(f"{today}  {platform.machine()}  {os.cpu_count()} cores  core: {core.level()}")
    print(f"{'':<44} {'Gpair/s':>7}  {'error':>8}  speed of mercer over (its error)")
    gaussian_rows(n, arguments.repeats)
    kernel_rows(n, arguments.repeats)
    bit_rows(n // 4, arguments.repeats)
    composite_rows(n // 2, arguments.repeats, arguments.seed, arguments.draws)
    column_row(n, arguments.repeats)
    gram_row(n * 2 // 5, arguments.repeats)


if __name__ == "__main__":
    main()
