"""Kernel ridge: mercer beside scikit-learn, in one run; each figure with the error of both.

    python benchmarks/ridge.py exact alphas pcg nystrom
    python benchmarks/ridge.py refits                  # leave-one-out against 2,000 refits
    python benchmarks/ridge.py tables --data DIR       # kin8nm.npz and others: arrays X and y
    python benchmarks/ridge.py stream --rows 5000000   # from a memory map
    python benchmarks/ridge.py cost --plot cost.png    # seconds against n, with the slope

``pcg`` takes kin40k.npz from the data folder, or as many made-up points without one. The folder
is ``--data`` or ``MERCER_DATA``.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import timing
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from timing import in_turns, timed

from mercer import KernelRidge, KernelRidgeCV
from mercer import kernels as K

TABLES = ["concrete", "energy", "airfoil", "kin8nm", "pol", "elevators", "bike"]


def made_up(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.sin(1.5 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * np.tanh(X[:, 2] * X[:, 3])
    return X, f + 0.1 * rng.normal(size=n)


def rmse(model, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def peak() -> float:
    """Gigabytes this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def exact(options: argparse.Namespace) -> None:
    """Where all is float32, scikit-learn leaves float64, and mercer is content with its tol."""
    kinds = ((np.float64, np.float64), (np.float32, np.float64), (np.float32,) * 2)
    truth = None
    for kind, targets in kinds:
        X, y = made_up(8192 + 1000, 8)
        X, y = X.astype(kind), y.astype(targets)
        train, test = (X[:8192], y[:8192]), (X[8192:], y[8192:])
        models = {
            "mercer": KernelRidge(0.1, kernel=K.RBF(0.1)),
            "mercer by cholesky": KernelRidge(0.1, kernel=K.RBF(0.1), solver="cholesky"),
            "scikit-learn": SklearnRidge(alpha=0.1, kernel="rbf", gamma=0.1),
        }
        if targets is np.float64:
            del models["mercer by cholesky"]  # which is what it does
        fits = (lambda m=m, t=train: m.fit(*t) for m in models.values())
        found = dict(zip(models, in_turns(options.repeats, *fits), strict=True))
        theirs = found["scikit-learn"][0]
        print(f"exact fit, n = 8192, d = 8, points {X.dtype}, targets {y.dtype}:")
        for name, (seconds, model) in found.items():
            predicted = model.predict(test[0])
            truth = predicted if truth is None else truth
            words = (
                f"; {model.result_.method}, gap {model.result_.gap:.0e}" if "mercer" in name else ""
            )
            print(
                f"  {name}: {seconds:.2f} s, ratio {theirs / seconds:.2f}, test error "
                f"{rmse(model, *test):.7f}, off float64 by {np.abs(predicted - truth).max():.0e}"
                f"{words}"
            )


def alphas(options: argparse.Namespace) -> None:
    X, y = made_up(4000, 8)
    train, test = (X[:2000], y[:2000]), (X[2000:], y[2000:])
    grid = np.logspace(-4, 2, 50)
    ours, a = timed(lambda: KernelRidgeCV(grid, kernel=K.RBF(0.1)).fit(*train), 3)
    one, _ = timed(lambda: KernelRidge(0.1, kernel=K.RBF(0.1), solver="eigh").fit(*train), 3)
    search = GridSearchCV(SklearnRidge(kernel="rbf", gamma=0.1), {"alpha": grid}, cv=5)
    theirs, b = timed(lambda: search.fit(*train))
    print(
        f"50 alphas, n = 2000: leave-one-out {ours:.2f} s (one fit by eigh {one:.2f} s), "
        f"GridSearchCV with 5 folds {theirs:.2f} s, ratio {theirs / ours:.1f}; alpha {a.alpha_:.3g}"
        f" and {b.best_params_['alpha']:.3g}, test error {rmse(a, *test):.5f} and "
        f"{rmse(b, *test):.5f}"
    )


def refits(options: argparse.Namespace) -> None:
    n = options.rows or 2000
    X, y = made_up(n, 8)
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=n)
    common = {"kernel": K.RBF(0.1), "fit_intercept": True}
    fast, model = timed(lambda: KernelRidgeCV(np.logspace(-4, 2, 50), **common).fit(X, y, weight))
    once = KernelRidge(model.alpha_, **common)

    def refit() -> float:
        worst = 0.0
        for i in range(n):
            others = np.arange(n) != i
            once.fit(X[others], y[others], weight[others])
            worst = max(worst, abs(once.predict(X[[i]])[0] - model.loo_predictions_[i]))
        return worst

    slow, worst = timed(refit)
    print(
        f"leave-one-out, n = {n}, weights and intercept: {fast:.2f} s for 50 alphas, {slow:.1f} s "
        f"for {n} refits with one; the predictions differ by at most {worst:.1e}"
    )


def pcg(options: argparse.Namespace) -> None:
    X, y = table(options.data, "kin40k") if options.data else made_up(40_000, 8)
    cut = len(X) - 4000
    model = KernelRidge(0.01, kernel=K.RBF(0.15), solver="pcg", fit_intercept=True)
    seconds, model = timed(lambda: model.fit(X[:cut], y[:cut]))
    print(
        f"pcg, {cut} x {X.shape[1]}: {seconds:.1f} s, {peak():.2f} GB at most (K alone: "
        f"{8 * cut**2 / 2**30:.1f} GB), residual {model.result_.gap:.1e} after {model.n_iter_} "
        f"products, bound {model.error_bound_:.1e}, test error {rmse(model, X[cut:], y[cut:]):.4f}"
    )


def nystrom(options: argparse.Namespace) -> None:
    n = options.rows or 200_000
    X, y = made_up(n + 5000, 10)
    train, test = (X[:n], y[:n]), (X[n:], y[n:])
    common = {"kernel": K.RBF(0.1), "solver": "nystrom", "n_centers": options.centers}
    approximation = Nystroem(gamma=0.1, n_components=options.centers, random_state=0)
    names = "centres pivoted", "centres uniform", "Nystroem + Ridge"
    models = (
        KernelRidge(1.0, **common),
        KernelRidge(1.0, centers="uniform", **common),
        make_pipeline(approximation, Ridge(1.0, fit_intercept=False)),
    )
    found = in_turns(options.repeats, *(lambda m=m: m.fit(*train) for m in models))
    theirs = found[-1][0]
    for name, (seconds, model) in zip(names, found, strict=True):
        print(
            f"nystrom, {n} x 10, {options.centers} of {name}: {seconds:.2f} s, ratio "
            f"{theirs / seconds:.2f}, test error {rmse(model, *test):.5f}"
            + (f", {model.result_.message}" if hasattr(model, "result_") else "")
        )


def stream(options: argparse.Namespace) -> None:
    n, d = options.rows or 5_000_000, 10
    with tempfile.TemporaryDirectory() as folder:
        mapped = np.lib.format.open_memmap(
            Path(folder) / "X.npy", mode="w+", dtype=np.float32, shape=(n, d)
        )
        y = np.empty(n)
        for i in range(0, n, 500_000):
            stop = min(i + 500_000, n)
            mapped[i:stop], y[i:stop] = made_up(stop - i, d, seed=i)
        before = peak()
        model = KernelRidge(1.0, kernel=K.RBF(0.1), solver="nystrom", n_centers=options.centers)
        seconds, model = timed(lambda: model.fit(mapped, y))
        X, y = made_up(50_000, d, seed=1)
        print(
            f"memory map, {n} x {d}, {options.centers} centres: {seconds:.1f} s, {peak():.2f} GB at"
            f" most, pages of the map included ({before:.2f} GB before), gap "
            f"{model.result_.gap:.0e}, test error {rmse(model, X, y):.5f}"
        )


def table(folder: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    path = Path(folder) / f"{name}.npz"
    file = np.load(path if path.exists() else Path(folder) / "tabular" / f"{name}.npz")
    X, y = file["X"].astype(float), file["y"].astype(float).ravel()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def tables(options: argparse.Namespace) -> None:
    """Squared errors on points left out: five folds, or all beyond 4,000 where there are more."""
    grid, most = np.logspace(-4, 1, 11), options.rows or 4000
    print("| table | train | test | mercer | scikit-learn | standard error | s | s | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.tables:
        X, y = table(options.data, name)
        places = np.arange(len(X))
        few = len(X) <= 1.25 * most
        splits = list(KFold(5).split(X)) if few else [(places[:most], places[most:])]
        kernel = {"kernel": "rbf", "gamma": 1 / X.shape[1]}
        losses, seconds = [], [0.0, 0.0]
        for train, test in splits:
            search = GridSearchCV(SklearnRidge(**kernel), {"alpha": grid}, cv=5)
            for i, model in enumerate((KernelRidgeCV(grid, **kernel), search)):
                spent, fitted = timed(lambda m=model, t=train: m.fit(X[t], y[t]))
                seconds[i] += spent
                losses.append((fitted.predict(X[test]) - y[test]) ** 2)
        ours, theirs = np.concatenate(losses[::2]), np.concatenate(losses[1::2])
        error = (ours - theirs).std() / np.sqrt(len(ours))
        print(
            f"| {name} | {len(splits[0][0])} | {len(ours)} | {ours.mean():.5f} | "
            f"{theirs.mean():.5f} | {error:.5f} | {seconds[0]:.1f} | {seconds[1]:.1f} "
            f"| {seconds[1] / seconds[0]:.0f} |",
            flush=True,
        )


def cost(options: argparse.Namespace) -> None:
    sizes = {
        "cholesky": [1000, 2000, 4000, 8000],
        "eigh": [500, 1000, 2000, 4000],
        "pcg": [4000, 8000, 16000, 32000],
        "nystrom": [20_000, 40_000, 80_000, 160_000, 320_000],
        "primal": [20_000, 40_000, 80_000, 160_000, 320_000],
        "gd": [1000, 2000, 4000, 8000],
    }
    curves = {}
    for solver, ns in sizes.items():
        spent = []
        for n in ns:
            X, y = made_up(n, 8)
            model = KernelRidge(0.1, kernel=K.RBF(0.1), solver=solver)
            model.set_params(n_centers=500 if solver == "nystrom" else None)
            if solver == "primal":
                model.set_params(kernel=K.Polynomial(2))
            if solver == "gd":
                model.set_params(max_iter=50, tol=0.0, step_size=1e-6)
            spent.append(quietly(lambda m=model, X=X, y=y: timed(lambda: m.fit(X, y), 2)[0]))
        slope = np.polyfit(np.log(ns), np.log(spent), 1)[0]
        last = np.log(spent[-1] / spent[-2]) / np.log(ns[-1] / ns[-2])
        curves[f"{solver}: slope {slope:.2f}"] = ns, spent
        print(
            f"{solver}: slope {slope:.2f}, {last:.2f} at the end;",
            ", ".join(f"{n}: {s:.2f} s" for n, s in zip(ns, spent, strict=True)),
            flush=True,
        )
    if options.plot:
        import matplotlib.pyplot as plt

        for label, (ns, spent) in curves.items():
            plt.loglog(ns, spent, "o-", label=label)
        plt.xlabel("points")
        plt.ylabel("seconds of a fit")
        plt.legend()
        plt.savefig(options.plot, dpi=150)


def quietly(routine: Callable) -> float:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return routine()


PARTS = {f.__name__: f for f in (exact, alphas, refits, pcg, nystrom, stream, tables, cost)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of .npz")
    parser.add_argument("--rows", type=int, help="points, where the part has no fixed number")
    parser.add_argument("--centers", type=int, default=1000, help="centres of nystrom and stream")
    parser.add_argument("--repeats", type=int, default=2, help="the best of so many")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--plot", help="file for the plot of cost")
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="CPU seconds, for a busy machine: set OMP_NUM_THREADS=1, for threads that wait count",
    )
    options = parser.parse_args()
    if options.cpu:
        timing.count_processor_time()
    print(f"{timing.machine()}  {'CPU' if options.cpu else 'wall-clock'} seconds")
    for part in options.parts or ["exact", "alphas", "pcg", "nystrom"]:
        PARTS[part](options)


if __name__ == "__main__":
    main()
