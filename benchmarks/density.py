"""Densities and smoothers: mercer beside SciPy, scikit-learn, KDEpy and statsmodels, in one run.

    python benchmarks/density.py                         # all but the last two
    python benchmarks/density.py pairs grid digits       # some
    python benchmarks/density.py large                   # 50,000 points by leave-one-out
    python benchmarks/density.py faithful --data DIR     # faithful.csv: eruptions and waiting

Ratios are the peer's time over mercer's, best of the repeats of each, taken in turns; errors of
both stand beside them. The peers come with ``pip install ".[bench]"``. ``--cpu`` counts the time
of the processor instead, all threads together, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

import numpy as np
import timing
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from sklearn.datasets import load_digits
from sklearn.neighbors import KernelDensity as SklearnDensity

from mercer import KernelDensity, LocalLinearRegressor, NadarayaWatsonRegressor

try:
    from KDEpy import FFTKDE
except ImportError:
    FFTKDE = None
try:
    from statsmodels.nonparametric.kernel_regression import KernelReg
except ImportError:
    KernelReg = None


# Threads of one library wait actively for more work after it, in the way of the next.
in_turns = partial(timing.in_turns, rest=0.2)


def by_hand(X: np.ndarray, Z: np.ndarray, h: float) -> np.ndarray:
    """log p by the formula, a query at a time."""
    d = X.shape[1]
    rows = [logsumexp(-0.5 * (((z - X) / h) ** 2).sum(axis=1)) for z in Z]
    return np.array(rows) - np.log(len(X)) - d / 2 * np.log(2 * np.pi * h**2)


def pairs(repeats: int, n: int = 20_000) -> None:
    """Exact densities of n points at n queries."""
    for d in (2, 8):
        rng = np.random.default_rng(d)
        X, Z = rng.normal(size=(2, n, d))
        h = n ** (-1 / (d + 4))
        ours = KernelDensity(bandwidth=h, method="exact").fit(X)
        scipy_kde = gaussian_kde(X.T)
        scipy_kde.set_bandwidth(h)
        peers = {"scipy": lambda: np.log(scipy_kde(Z.T))}
        if d == 2:
            theirs = SklearnDensity(bandwidth=h, rtol=0).fit(X)
            peers["scikit-learn"] = lambda: theirs.score_samples(Z)
        some = slice(0, 200)
        truth = by_hand(X, Z[some], h)
        mine, *others = in_turns(repeats, lambda: ours.score_samples(Z), *peers.values())
        error = np.abs(mine[1][some] - truth).max()
        print(f"exact, {n:,} at {n:,}, d = {d}: mercer {mine[0]:.3f} s (error {error:.0e} nats)")
        for name, (seconds, value) in zip(peers, others, strict=True):
            note = ""
            if name == "scikit-learn":
                note = f", error {np.abs(value[some] - truth).max():.0e} nats"
            print(f"  {seconds / mine[0]:.1f} x {name} ({seconds:.2f} s{note})")


def tree(repeats: int) -> None:
    """What a tolerance buys, and that it is kept."""
    for d, n in ((2, 100_000), (3, 100_000), (5, 50_000)):
        rng = np.random.default_rng(d)
        X, Z = rng.normal(size=(n, d)), rng.normal(size=(20_000, d))
        h = 0.5 * n ** (-1 / (d + 4))
        exact = KernelDensity(bandwidth=h, method="exact").fit(X)
        routines = {"exact": lambda: exact.pdf(Z)}
        for rtol in (1e-3, 1e-6):
            kde = KernelDensity(bandwidth=h, method="tree", rtol=rtol).fit(X)
            routines[f"tree, rtol {rtol:g}"] = lambda kde=kde: kde.pdf(Z)
        compact = KernelDensity(bandwidth=2 * h, kernel="epanechnikov", method="exact").fit(X)
        by_tree = KernelDensity(bandwidth=2 * h, kernel="epanechnikov", method="tree").fit(X)
        routines["Epanechnikov, all pairs"] = lambda: compact.pdf(Z)
        routines["Epanechnikov, tree"] = lambda: by_tree.pdf(Z)
        found = dict(zip(routines, in_turns(repeats, *routines.values()), strict=True))
        p = found["exact"][1]
        print(f"{n:,} points at {len(Z):,}, d = {d}:")
        for name, (seconds, value) in found.items():
            truth = found["Epanechnikov, all pairs"][1] if "Epan" in name else p
            error = np.max(np.abs(value - truth) / np.where(truth > 0, truth, 1))
            print(f"  {name}: {seconds:.3f} s, largest relative error {error:.1e}")


def grid(repeats: int, n: int = 1_000_000) -> None:
    """A million points on a grid, beside KDEpy."""
    x = np.concatenate(
        [
            np.random.default_rng(0).normal(size=n // 2),
            3 + np.random.default_rng(1).normal(size=n // 2) / 2,
        ]
    )
    h, X = 0.05, x[:, None]
    ours = KernelDensity(bandwidth=h).fit(X)
    for count in (2**10, 2**12, 2**14):
        low, high = x.min() - 6 * h, x.max() + 6 * h
        points = np.linspace(low, high, count)
        some = np.linspace(0, count - 1, 60).astype(int)
        truth = ours.pdf(points[some, None])
        routines = [
            lambda count=count: ours.grid(count, low, high)[1],
            lambda count=count: KernelDensity(bandwidth=h).fit(X).grid(count, low, high)[1],
        ]
        if FFTKDE is not None:
            theirs = FFTKDE(bw=h).fit(x)
            routines.append(lambda points=points, kde=theirs: kde.evaluate(points))
            routines.append(lambda points=points: FFTKDE(bw=h).fit(x).evaluate(points))
        found = in_turns(max(repeats, 5), *routines)
        errors = [np.abs(value[some] - truth).max() / truth.max() for _, value in found]
        seconds = [1e3 * spent for spent, _ in found]
        print(
            f"{n:,} points on a grid of {count:,}: mercer {seconds[0]:.1f} ms, with fit "
            f"{seconds[1]:.1f} ms (error {errors[0]:.1e} of the peak)"
        )
        if FFTKDE is not None:
            print(
                f"  KDEpy {seconds[2]:.1f} ms, with fit {seconds[3]:.1f} ms (error {errors[2]:.1e})"
                f": {seconds[2] / seconds[0]:.2f} x, {seconds[3] / seconds[1]:.2f} x"
            )


def digits(repeats: int) -> None:
    """Raw digits in 64 features."""
    X = load_digits().data
    for h in (1, 3, 4, 5):
        truth = by_hand(X, X, h)
        ours = np.abs(KernelDensity(bandwidth=h).fit(X).score_samples(X) - truth).max()
        theirs = np.abs(SklearnDensity(bandwidth=h).fit(X).score_samples(X) - truth).max()
        print(f"digits, h = {h}: mercer off by {ours:.1e} nats, scikit-learn by {theirs:.3g}")


# Normal mixtures of Marron and Wand: weights, means, standard deviations.
MIXTURES = {
    "normal": ([1.0], [0.0], [1.0]),
    "skewed": ([0.2, 0.2, 0.6], [0.0, 0.5, 13 / 12], [1.0, 2 / 3, 5 / 9]),
    "strongly skewed": (
        [1 / 8] * 8,
        [3 * ((2 / 3) ** k - 1) for k in range(8)],
        [(2 / 3) ** k for k in range(8)],
    ),
    "kurtotic": ([2 / 3, 1 / 3], [0.0, 0.0], [1.0, 0.1]),
    "bimodal": ([0.5, 0.5], [-1.0, 1.0], [2 / 3, 2 / 3]),
    "separated": ([0.5, 0.5], [-1.5, 1.5], [0.5, 0.5]),
    "trimodal": ([0.45, 0.45, 0.1], [-1.2, 1.2, 0.0], [0.6, 0.6, 0.25]),
    "claw": ([0.5] + [0.1] * 5, [0.0, -1.0, -0.5, 0.0, 0.5, 1.0], [1.0] + [0.1] * 5),
}


def mise(h: float, n: int, mixture: tuple) -> float:
    """Mean integrated squared error of a Gaussian kernel on a normal mixture, exactly."""
    w, m, s = map(np.asarray, mixture)
    gaps, variances = m[:, None] - m, s[:, None] ** 2 + s**2

    def total(extra: float) -> float:
        v = variances + extra
        return float(w @ (np.exp(-(gaps**2) / (2 * v)) / np.sqrt(2 * np.pi * v)) @ w)

    roughness = 1 / (2 * n * h * np.sqrt(np.pi))
    return roughness + (1 - 1 / n) * total(2 * h**2) - 2 * total(h**2) + total(0.0)


def bandwidths(repeats: int, n: int = 1000, seeds: int = 20) -> None:
    """Bandwidths of each rule over the one of least error, and the error they cost."""
    rules = ("scott", "silverman", "isj", "plugin", "lscv", "mlcv")
    print(f"median h over the best, and its error over the least; n = {n}, {seeds} samples")
    print("| density | best h | " + " | ".join(rules) + " |")
    print("|---" * (len(rules) + 2) + "|")
    for name, mixture in MIXTURES.items():
        w, m, s = map(np.asarray, mixture)
        found = minimize_scalar(
            lambda t: mise(np.exp(t), n, mixture), bounds=np.log((0.005, 1.0)), method="bounded"
        )
        best, least = np.exp(found.x), found.fun
        row = f"| {name} | {best:.3f} |"
        for rule in rules:
            h = []
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                part = rng.choice(len(w), size=n, p=w)
                x = m[part] + s[part] * rng.normal(size=n)
                h.append(KernelDensity(bandwidth=rule).fit(x[:, None]).bandwidth_)
            middle = np.median(h)
            row += f" {middle / best:.2f}, {mise(middle, n, mixture) / least:.2f} |"
        print(row)
    for scale in (1.0, 1000.0, 1e-6):
        h = [
            KernelDensity(bandwidth="isj")
            .fit(scale * np.random.default_rng(seed).normal(size=(2000, 1)))
            .bandwidth_
            for seed in range(50)
        ]
        print(
            f"isj, N(0, {scale:g}²), n = 2,000: median {np.median(h) / scale:.4f} of the scale; "
            "0.232 is best"
        )


def loo_error(X: np.ndarray, y: np.ndarray, h: np.ndarray) -> float:
    model = NadarayaWatsonRegressor(bandwidth=h).fit(X, y)
    return float(np.mean((y - model.loo_predictions_) ** 2))


def regression(repeats: int, n: int = 500) -> None:
    """Nadaraya-Watson and local lines with leave-one-out, beside statsmodels."""
    for d in (1, 2):
        rng = np.random.default_rng(d)
        X = rng.uniform(-2, 2, size=(n, d))
        y = np.sin(2 * X[:, 0]) + (0.5 * X[:, 1] if d > 1 else 0) + 0.3 * rng.normal(size=n)
        for estimator, kind in ((NadarayaWatsonRegressor, "lc"), (LocalLinearRegressor, "ll")):
            routines = [lambda estimator=estimator: estimator().fit(X, y)]
            if KernelReg is not None:
                routines.append(lambda kind=kind: KernelReg(y, X, "c" * d, kind, "cv_ls"))
            found = in_turns(1 if kind == "ll" else repeats, *routines)
            model = found[0][1]
            error = np.mean((y - model.loo_predictions_) ** 2)
            line = f"{estimator.__name__}, n = {n}, d = {d}: mercer {found[0][0] * 1e3:.0f} ms, "
            line += f"leave-one-out error {error:.8f}"
            if KernelReg is not None:
                peer = estimator(bandwidth=np.abs(found[1][1].bw)).fit(X, y)
                theirs = np.mean((y - peer.loo_predictions_) ** 2)
                line += f"; statsmodels {found[1][0]:.2f} s, {theirs:.8f}"
                line += f": {found[1][0] / found[0][0]:.0f} x"
            print(line)


def large(repeats: int, n: int = 50_000) -> None:
    """Leave-one-out over many points."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    [(seconds, model)] = in_turns(1, lambda: NadarayaWatsonRegressor().fit(X, y))
    error = np.mean((y - model.loo_predictions_) ** 2)
    print(f"NadarayaWatsonRegressor, n = {n:,}, d = 3: {seconds:.0f} s, h = {model.bandwidth_}, ")
    print(f"  leave-one-out error {error:.5f}; noise alone has 0.09")


def modes_of(p: np.ndarray) -> np.ndarray:
    """Places (k, d) of a grid that are higher than all around them and not next to nothing."""
    inner = p[(slice(1, -1),) * p.ndim]
    higher = inner > 0.01 * p.max()
    for step in np.ndindex((3,) * p.ndim):
        if set(step) != {1}:
            around = (slice(a, a + n) for a, n in zip(step, inner.shape, strict=True))
            higher &= inner > p[tuple(around)]
    return np.argwhere(higher) + 1


def faithful(repeats: int, data: Path | None, plot: Path | None = None) -> None:
    """The eruptions of Old Faithful have two modes."""
    if data is None:
        print("faithful: needs --data, a folder with faithful.csv")
        return
    path = data / "faithful.csv"
    path = path if path.exists() else data / "tabular" / path.name
    table = np.genfromtxt(path, delimiter=",", names=True)
    X = np.column_stack([table["eruptions"], table["waiting"]])
    found = {}
    for rule in ("silverman", "isj", "plugin", "mlcv"):
        kde = KernelDensity(bandwidth=rule).fit(X[:, :1])
        (t,), p = kde.grid(2048)
        found[rule] = kde, t[modes_of(p)[:, 0]]
        print(
            f"Old Faithful, {rule}: h = {kde.bandwidth_:.3f}, modes at "
            f"{found[rule][1].round(2)} minutes"
        )
    plane = KernelDensity(bandwidth="plugin").fit(X)
    axes, p = plane.grid(256)
    peaks = np.array([[axes[k][i] for k, i in enumerate(place)] for place in modes_of(p)])
    for lasts, waits in peaks:
        print(f"  mode in the plane: {lasts:.2f} minutes long, {waits:.0f} minutes to the next")
    if plot is not None:
        import matplotlib.pyplot as plt

        from mercer.plots import DensityDisplay

        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        kde, modes = found["isj"]
        DensityDisplay.from_estimator(kde, n_points=512, ax=left)
        for mode, height in zip(modes, kde.pdf(modes[:, None]), strict=True):
            left.annotate(
                f"{mode:.2f}", (mode, height), (0, 4), textcoords="offset points", ha="center"
            )
        left.set(xlabel="eruption, minutes", title="one feature, bandwidth='isj'")
        left.margins(y=0.1)
        DensityDisplay.from_estimator(plane, ax=right)
        right.plot(*peaks.T, "+", color="black", markersize=10)
        right.set(xlabel="eruption, minutes", ylabel="time to the next, minutes")
        right.set_title("two features, bandwidth='plugin'")
        figure.savefig(plot, dpi=110)


PARTS = {
    "pairs": pairs,
    "tree": tree,
    "grid": grid,
    "digits": digits,
    "bandwidths": bandwidths,
    "regression": regression,
    "large": large,
    "faithful": faithful,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--cpu", action="store_true")
    chosen = parser.parse_args()
    if chosen.cpu:
        timing.count_processor_time()
    print(f"{timing.machine()}{', processor time' if chosen.cpu else ''}")
    for part in chosen.parts or [name for name in PARTS if name not in ("large", "faithful")]:
        print(f"\n{part}: {PARTS[part].__doc__}", flush=True)
        if part == "faithful":
            faithful(chosen.repeats, chosen.data and Path(chosen.data), chosen.plot)
        else:
            PARTS[part](chosen.repeats)


if __name__ == "__main__":
    main()
