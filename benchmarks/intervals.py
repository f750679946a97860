"""Prediction intervals at 90 % on real tables: coverage and width, compared with split-conformal.

    python benchmarks/intervals.py --data DIR [--rows 1500] [--splits 3] [--models ridge,svr,...]

DIR holds one Parquet file per table, with the target in the last column; tables with classes are
left out. Each model fits the same rows, and the intervals are tested on other rows. Split-conformal
fits the same model to three quarters of the rows and takes one distance for all points from the
residuals of the rest. Widths are means over test rows, as a ratio to split-conformal's.

With weights, rows whose target is above the median are in the training data with probability 0.4
only, and have the weight 2.5; the test rows are as in the table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer import SVR, AutoKernelRegressor, KernelMachineRegressor, KernelRidge, KernelRidgeCV
from mercer import kernels as K
from mercer.tables.kinds import task_of

COVERAGE, MOST_TESTED, CALIBRATION = 0.9, 4000, 0.25
RARE, WEIGHT = 0.4, 2.5
WIDTH = K.Matern(1.5, "median")

MODELS: dict[str, Callable[[float], Any]] = {
    "ridge": lambda spread: KernelRidge(0.3, kernel=WIDTH),
    "ridge_cv": lambda spread: KernelRidgeCV(np.logspace(-3, 2, 11), kernel=WIDTH),
    "svr": lambda spread: SVR(kernel=WIDTH, C=3 * spread, epsilon=0.1 * spread),
    "machine": lambda spread: KernelMachineRegressor("huber", kernel=WIDTH, alpha=0.3),
    "auto": lambda spread: AutoKernelRegressor(max_time=20, random_state=0),
}


class Found(NamedTuple):
    """Coverage and mean width on the test rows, and the seconds of fit and intervals."""

    coverage: float
    width: float
    seconds: float


def coded(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Both as standardised numbers, categories as zeros and ones."""
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", min_frequency=20, sparse_output=False),
    )
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    coder = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (words, make_column_selector(dtype_exclude="number")),
    )
    for table in (train, test):
        for name in table.select_dtypes(exclude="number"):
            column = table[name].astype(object)
            table[name] = column.where(column.notna(), "missing").astype(str)
    return coder.fit_transform(train), coder.transform(test)


def measured(
    make: Callable[[], Any],
    train: Any,
    y: np.ndarray,
    test: Any,
    t: np.ndarray,
    weight: np.ndarray | None,
) -> Found:
    """The intervals of the model's own."""
    begun = time.process_time()
    given = {} if weight is None else {"sample_weight": weight}
    lower, upper = make().fit(train, y, **given).predict_interval(test, coverage=COVERAGE)
    seconds = time.process_time() - begun
    return Found(np.mean((lower <= t) & (t <= upper)), np.mean(upper - lower), seconds)


def split_conformal(
    make: Callable[[], Any],
    train: Any,
    y: np.ndarray,
    test: Any,
    t: np.ndarray,
    weight: np.ndarray | None,
) -> Found:
    """The same model by split-conformal prediction, with the weights of the calibration rows."""
    begun = time.process_time()
    held = np.zeros(len(y), dtype=bool)
    held[np.random.default_rng(0).permutation(len(y))[: int(CALIBRATION * len(y))]] = True
    rows = (lambda some: train.iloc[some]) if hasattr(train, "iloc") else (lambda some: train[some])
    given = {} if weight is None else {"sample_weight": weight[~held]}
    model = make().fit(rows(~held), y[~held], **given)
    residuals = np.abs(y[held] - model.predict(rows(held)))
    counts = np.ones(held.sum()) if weight is None else weight[held]
    order = np.argsort(residuals)
    share = np.cumsum(counts[order]) / (counts.sum() + counts.mean())
    distance = residuals[order][np.searchsorted(share, COVERAGE)]
    seconds = time.process_time() - begun
    return Found(np.mean(np.abs(t - model.predict(test)) <= distance), 2 * distance, seconds)


def race(path: Path, models: list[str], rows: int, split: int, weighted: bool) -> dict[str, list]:
    """For each model its own intervals and split-conformal's."""
    table = pd.read_parquet(path)
    y = table.pop(table.columns[-1]).to_numpy(dtype=float)
    known = np.isfinite(y)
    rng = np.random.default_rng(split)
    if weighted:
        rare = y > np.median(y[known])
    train, test = train_test_split(np.flatnonzero(known), test_size=0.4, random_state=split)
    if weighted:
        train = train[~rare[train] | (rng.random(len(train)) < RARE)]
    train, test = train[:rows], test[:MOST_TESTED]
    weight = np.where(rare[train], WEIGHT, 1.0) if weighted else None
    tables = table.iloc[train].copy(), table.iloc[test].copy()
    numbers = coded(*(part.copy() for part in tables))
    found = {}
    for name in models:
        X, Z = tables if name == "auto" else numbers
        make = lambda name=name: MODELS[name](float(np.std(y[train])))  # noqa: E731
        data = make, X, y[train], Z, y[test], weight
        found[name] = [measured(*data), split_conformal(*data)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tables", default="")
    parser.add_argument("--weights", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    models, only = options.models.split(","), [n for n in options.tables.split(",") if n]
    print(
        f"{'table':<10}{'model':<10}{'coverage':>9}{'split':>7}{'width':>8}{'seconds':>9}{'split':>7}"
    )
    for path in sorted(options.data.glob("*.parquet")):
        target = pd.read_parquet(path).iloc[:, -1]
        if (only and path.stem not in only) or task_of(target, text=False) == "classification":
            continue
        runs = [
            race(path, models, options.rows, split, options.weights)
            for split in range(options.splits)
        ]
        for name in models:
            own, other = (np.mean([run[name][k] for run in runs], axis=0) for k in (0, 1))
            ratio = np.mean([run[name][0].width / run[name][1].width for run in runs])
            print(
                f"{path.stem:<10}{name:<10}{own[0]:>9.3f}{other[0]:>7.3f}{ratio:>8.2f}"
                f"{own[2]:>9.1f}{other[2]:>7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
