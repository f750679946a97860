"""Automatic models on real tables beside gradient-boosted trees, forests and linear models.

    python benchmarks/tables.py DIR [--rows 4000] [--splits 1] [--models mercer,catboost,...]

DIR holds one Parquet file per table, with the target in the last column. Every model sees the same
rows at its default settings: CatBoost, LightGBM and XGBoost with their own treatment of categories
(those that are not installed are left out), random forests and linear models on one-hot columns.
Errors are on other rows: 1 - R², for two classes 1 - AUC, for more the log loss. Seconds are CPU
time, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer import AutoKernelClassifier, AutoKernelRegressor
from mercer.tables.kinds import task_of

MOST_TESTED = 5000


def mercer_model(is_classes: bool) -> Any:
    return AutoKernelClassifier() if is_classes else AutoKernelRegressor()


def one_hot(model: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False)
    return make_pipeline(
        make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (words, make_column_selector(dtype_exclude="number")),
        ),
        model,
    )


def forest(is_classes: bool) -> Any:
    kind = RandomForestClassifier if is_classes else RandomForestRegressor
    return one_hot(kind(n_estimators=300, min_samples_leaf=2 if is_classes else 1, random_state=0))


def linear(is_classes: bool) -> Any:
    if is_classes:
        return one_hot(LogisticRegressionCV(Cs=5, cv=3, max_iter=2000))
    return one_hot(RidgeCV(np.logspace(-3, 4, 15)))


def catboost(is_classes: bool) -> Any:
    import catboost as library

    kind = library.CatBoostClassifier if is_classes else library.CatBoostRegressor
    return kind(verbose=0, allow_writing_files=False)


def lightgbm(is_classes: bool) -> Any:
    import lightgbm as library

    return (library.LGBMClassifier if is_classes else library.LGBMRegressor)(verbose=-1)


def xgboost(is_classes: bool) -> Any:
    import xgboost as library

    kind = library.XGBClassifier if is_classes else library.XGBRegressor
    return kind(enable_categorical=True)


MODELS: dict[str, Callable[[bool], Any]] = {
    "mercer": mercer_model,
    "catboost": catboost,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "forest": forest,
    "linear": linear,
}


def prepared(name: str, tables: list[pd.DataFrame]) -> tuple[list[pd.DataFrame], dict[str, Any]]:
    """The tables of training and testing as a model takes them, and arguments of its fit."""
    words = [c for c in tables[0] if not pd.api.types.is_numeric_dtype(tables[0][c])]
    if name == "mercer":
        return tables, {}
    tables = [table.copy() for table in tables]
    for c in words:
        filled = [table[c].astype(object).where(table[c].notna(), "missing") for table in tables]
        levels = sorted(set(map(str, filled[0])))
        for table, column in zip(tables, filled, strict=True):
            table[c] = column.astype(str)
            if name in ("lightgbm", "xgboost"):
                table[c] = pd.Categorical(table[c], categories=levels)
    return tables, {"cat_features": words} if name == "catboost" else {}


def error(model: Any, X: pd.DataFrame, y: np.ndarray, is_classes: bool) -> float:
    if not is_classes:
        return 1 - r2_score(y, model.predict(X))
    chances = np.asarray(model.predict_proba(X), dtype=float)
    if chances.shape[1] == 2:
        return float(1 - roc_auc_score(y, chances[:, 1]))
    return log_loss(y, np.clip(chances, 1e-7, 1), labels=np.arange(chances.shape[1]))


def race(path: Path, models: list[str], rows: int, split: int) -> dict[str, tuple[float, float]]:
    """The error and the CPU seconds of every model on one split of a table."""
    table = pd.read_parquet(path)
    y = table.pop(table.columns[-1])
    is_classes = task_of(y, text=False) == "classification"
    targets = np.unique(y, return_inverse=True)[1] if is_classes else y.to_numpy(dtype=float)
    n = min(rows, 3 * len(table) // 4)
    X, Z, y_train, y_test = train_test_split(
        table,
        targets,
        train_size=n,
        test_size=min(MOST_TESTED, len(table) - n),
        random_state=split,
        stratify=targets if is_classes else None,
    )
    found = {}
    for name in models:
        (train, test), more = prepared(name, [X, Z])
        begun = time.process_time()
        model = MODELS[name](is_classes).fit(train, y_train, **more)
        found[name] = error(model, test, y_test, is_classes), time.process_time() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    ours = ("mercer", "forest", "linear")
    models = [
        name
        for name in options.models.split(",")
        if name in ours or importlib.util.find_spec(name) is not None
    ]
    warnings.simplefilter("ignore")
    ranks: list[np.ndarray] = []
    seconds: list[list[float]] = []
    print(f"{'table':<16}" + "".join(f"{name:>10}" for name in models))
    for path in sorted(options.folder.glob("*.parquet")):
        runs = [race(path, models, options.rows, split) for split in range(options.splits)]
        errors = np.array([np.mean([run[name][0] for run in runs]) for name in models])
        seconds += [[run[name][1] for name in models] for run in runs]
        ranks.append(np.argsort(np.argsort(errors)) + 1)
        print(f"{path.stem:<16}" + "".join(f"{value:10.4f}" for value in errors), flush=True)
    print(f"{'mean rank':<16}" + "".join(f"{value:10.2f}" for value in np.mean(ranks, axis=0)))
    print(f"{'CPU s, median':<16}" + "".join(f"{v:10.1f}" for v in np.median(seconds, axis=0)))


if __name__ == "__main__":
    main()
