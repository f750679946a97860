"""One row at a time, as a served model predicts: times of both libraries, and rows a second.

    python benchmarks/serving.py [--rows 1000] [--cpu]

First mercer and scikit-learn take turns on the rows of a plain array (breast cancer, and diabetes
for regressions): the median and the 99th percentile of one call. AutoKernel's models are compared
with a pipeline of StandardScaler and SVC or SVR. Then a model loaded from a file in a fresh process
predicts rows of scikit-learn's diabetes, 442 rows and ten numbers, as an array, as a DataFrame, and
as a DataFrame with a column of words. --cpu counts CPU seconds, for a machine that others use.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import kernel_ridge, svm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from timing import machine

import mercer

WARM_UP = 50


def tables() -> tuple[dict[str, Any], np.ndarray]:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    words = np.array(["low", "middle", "high"])[np.arange(len(y)) % 3]
    whole = {"array": X.to_numpy(), "frame": X, "frame with words": X.assign(group=words)}
    return whole, y.to_numpy()


def pairs() -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    """Name of a use, the method of both libraries, and the rows to predict."""
    X, y = load_breast_cancer(return_X_y=True)
    D, t = load_diabetes(return_X_y=True)
    raw, raw_targets = X, D
    X, D = (StandardScaler().fit_transform(A) for A in (X, D))
    ours, theirs = mercer.SVC().fit(X, y), svm.SVC().fit(X, y)
    for method in ("predict", "decision_function"):
        yield f"SVC.{method}", getattr(ours, method), getattr(theirs, method), X
    C = 100.0
    yield "SVR.predict", mercer.SVR(C=C).fit(D, t).predict, svm.SVR(C=C).fit(D, t).predict, D
    ridge: dict = {"kernel": "rbf", "gamma": 0.02, "alpha": 0.1}
    both = (m.KernelRidge(**ridge).fit(D, t).predict for m in (mercer, kernel_ridge))
    yield "KernelRidge.predict", *both, D
    pipeline = make_pipeline(StandardScaler(), svm.SVC()).fit(raw, y)
    model = mercer.AutoKernelClassifier().fit(raw, y)
    for method in ("predict", "decision_function"):
        name = f"AutoKernelClassifier.{method}"
        yield name, getattr(model, method), getattr(pipeline, method), raw
    regression = make_pipeline(StandardScaler(), svm.SVR(C=C)).fit(raw_targets, t)
    model = mercer.AutoKernelRegressor().fit(raw_targets, t)
    yield "AutoKernelRegressor.predict", model.predict, regression.predict, raw_targets


def seconds(
    methods: tuple[Callable, ...], X: np.ndarray, rows: int, now: Callable[[], float]
) -> np.ndarray:
    """Seconds of each call, (number of methods, rows); the methods take turns."""
    found = np.empty((len(methods), rows))
    wanted = [X[i : i + 1].copy() for i in np.arange(rows + WARM_UP) % len(X)]
    for i, row in enumerate(wanted, -WARM_UP):
        for k, method in enumerate(methods):
            start = now()
            method(row)
            taken = now() - start
            if i >= 0:
                found[k, i] = taken
    return found


def in_turns(rows: int, now: Callable[[], float]) -> None:
    print(f"{'one row':34s} {'mercer':>15s} {'scikit-learn':>17s}   ratio of medians")
    print(f"{'':34s} {'median  p99 us':>15s} {'median  p99 us':>17s}")
    for name, ours, theirs, X in pairs():
        found = 1e6 * seconds((ours, theirs), X, rows, now)
        (a, b), (p, q) = np.median(found, axis=1), np.percentile(found, 99, axis=1)
        print(f"{name:34s} {a:8.0f} {p:6.0f} {b:10.0f} {q:6.0f} {b / a:10.2f}x", flush=True)


def serve(path: str, name: str, rows: int, now: Any) -> float:
    model, X = mercer.load(path), tables()[0][name]
    wanted = [X[i : i + 1] for i in np.arange(rows) % len(X)]
    for row in wanted[:WARM_UP]:
        model.predict(row)
    start = now()
    for row in wanted:
        model.predict(row)
    return rows / (now() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "TABLE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    now = time.process_time if asked.cpu else time.perf_counter
    if asked.serve is not None:
        print(f"{asked.serve[1]:18s} {serve(*asked.serve, asked.rows, now):7.0f} a second")
        return
    print(machine())
    in_turns(asked.rows, now)
    whole, y = tables()
    with tempfile.TemporaryDirectory() as folder:
        for name, X in whole.items():
            path = str(Path(folder) / "model.mercer")
            mercer.save(mercer.AutoKernelRegressor().fit(X, y), path)
            command = [sys.executable, __file__, "--rows", str(asked.rows), "--serve", path, name]
            subprocess.run([*command, *(["--cpu"] if asked.cpu else [])], check=True)


if __name__ == "__main__":
    main()
