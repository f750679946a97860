"""AutoKernel* beside a scikit-learn pipeline tuned by grid search, in one run.

    python benchmarks/auto.py --data DIR [--rows 4000] [--sets concrete,spambase,...] [--cpu]

DIR (or the environment variable MERCER_DATA) holds the npz files and a9a.svm.gz; sets whose file is
missing are left out. The peer is StandardScaler with SVC or SVR (the target scaled too), 25 points
of C and gamma, five folds. Errors are on rows held out: the share of wrong answers, or the squared
error in units of the target's variance. --cpu counts CPU seconds, for a machine that others use;
both then should have one thread (OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1). "se" is the standard
error of the difference, row by row.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer import core
from mercer.auto import AutoKernelClassifier, AutoKernelRegressor

CLASSES = ("spambase", "pendigits", "a9a", "mnist")
NUMBERS = (
    *("yacht", "energy", "concrete", "airfoil", "wine"),
    *("kin8nm", "cpu_act", "pol", "elevators", "bike", "kin40k"),
)
MOST_TESTED = 4000


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "a9a":
        X, y = load_svmlight_file(str(folder / "a9a.svm.gz"))
        return X.toarray(), y
    with np.load(folder / f"{name}.npz") as file:
        of_train = "X_train" in file
        X, y = (file[f"{key}_train" if of_train else key] for key in "Xy")
    return X.astype(np.float64), y if name in CLASSES else y.astype(np.float64)


def tuned(is_classes: bool) -> Any:
    """The peer: 25 points of C and gamma about scikit-learn's defaults."""
    machine = make_pipeline(StandardScaler(), SVC() if is_classes else SVR(epsilon=0.05))
    name = "svc" if is_classes else "svr"
    grid = {f"{name}__C": [0.1, 1.0, 10.0, 100.0, 1000.0]}
    if is_classes:
        grid[f"{name}__gamma"] = [0.0001, 0.001, 0.01, 0.1, 1.0]
        return GridSearchCV(machine, grid, cv=5)
    grid[f"{name}__gamma"] = [0.001, 0.01, 0.1, 1.0, 10.0]
    return TransformedTargetRegressor(
        GridSearchCV(machine, grid, cv=5), transformer=StandardScaler()
    )


def losses(model: Any, X: np.ndarray, y: np.ndarray, is_classes: bool) -> np.ndarray:
    found = model.predict(X)
    return (found != y).astype(float) if is_classes else (found - y) ** 2 / np.var(y)


def compare(
    name: str, folder: Path, rows: int, seed: int, now: Callable[[], float]
) -> tuple[bool, float]:
    """Whether ours is as good within a standard error, and our share of the peer's time."""
    is_classes = name in CLASSES
    X, y = load(folder, name)
    order = np.random.default_rng(seed).permutation(len(y))
    n_train = min(rows, 4 * len(y) // 5)
    train, test = order[:n_train], order[n_train : n_train + MOST_TESTED]
    ours = AutoKernelClassifier() if is_classes else AutoKernelRegressor()
    found, seconds = {}, {}
    for who, model in (("mercer", ours), ("grid", tuned(is_classes))):
        start = now()
        model.fit(X[train], y[train])
        seconds[who] = now() - start
        found[who] = losses(model, X[test], y[test], is_classes)
    difference = found["mercer"] - found["grid"]
    error = float(difference.std(ddof=1) / len(test) ** 0.5)
    good = difference.mean() <= error
    share = seconds["mercer"] / seconds["grid"]
    print(
        f"{name:10s} {n_train:5d}×{X.shape[1]:<4d} {found['mercer'].mean():8.4f} "
        f"{found['grid'].mean():8.4f} ±{error:.4f} {'as good' if good else 'WORSE':8s} "
        f"{seconds['mercer']:7.2f} {seconds['grid']:8.2f} s {share:6.3f}  "
        f"{ours.report_['kernel'][:40]}",
        flush=True,
    )
    return good, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), required=False)
    parser.add_argument("--rows", type=int, default=4000, help="for training, at most")
    parser.add_argument("--sets", default=",".join((*CLASSES, *NUMBERS)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    asked = parser.parse_args()
    now = time.process_time if asked.cpu else time.perf_counter
    if asked.data is None:
        parser.error("--data or MERCER_DATA is needed")
    core.level()  # loads it, as importing scikit-learn loads its own
    today = datetime.date.today().isoformat()
    print(f"{today}  {platform.machine()}  {os.cpu_count()} cores")
    print(f"{'set':10s} {'trained':>10s} {'mercer':>8s} {'grid':>8s} {'se':>7s}")
    folder = Path(asked.data)
    results = []
    for name in asked.sets.split(","):
        if any(folder.glob(f"{name}.*")):
            results.append(compare(name, folder, asked.rows, asked.seed, now))
    good, shares = zip(*results, strict=True)
    print(
        f"as good on {sum(good)} of {len(good)}; share of the time: "
        f"median {np.median(shares):.3f}, largest {max(shares):.3f}"
    )


if __name__ == "__main__":
    main()
