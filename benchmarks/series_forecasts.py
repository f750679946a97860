"""Forecasts of the last fifth of a series by `StructureSearch`, a random forest and a naive one.

    python benchmarks/series_forecasts.py [--airline FILE] [--max-time 120] [--series co2,airline]

The monthly means of atmospheric CO2 at Mauna Loa come with statsmodels. The monthly international
airline passengers of 1949 to 1960 (Box and Jenkins, 1976, series G) come with sktime; ``--airline``
names a CSV file whose last column has the 144 numbers instead.

The seasonal-naive forecast repeats the last year. The forest sees the last twelve values and the
month, is trained to predict the next change, and forecasts one month after the other from its own
forecasts. A second one predicts the next value. Nothing is chosen on the last fifth.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from mercer import StructureSearch

LAGS = 12


def co2() -> tuple[pd.DataFrame, np.ndarray]:
    """Months, as years with a fraction, and means of the weekly values; gaps are left out."""
    from statsmodels.datasets import co2 as data

    monthly = data.load_pandas().data["co2"].resample("MS").mean().interpolate()
    years = monthly.index.year + (monthly.index.month - 0.5) / 12
    return pd.DataFrame({"year": np.asarray(years, dtype=float)}), monthly.to_numpy()


def airline(path: str | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Months, as years with a fraction, and thousands of passengers."""
    if path is None:
        found = importlib.util.find_spec("sktime")
        if found is None or found.origin is None:
            raise SystemExit("install sktime, or pass --airline FILE")
        path = str(Path(found.origin).parent / "datasets" / "data" / "Airline" / "Airline.csv")
    y = pd.read_csv(path).iloc[:, -1].to_numpy(dtype=float)
    return pd.DataFrame({"year": 1949 + (np.arange(len(y)) + 0.5) / 12}), y


def naive(y: np.ndarray, steps: int) -> np.ndarray:
    """The last year, again and again."""
    return np.resize(y[-LAGS:], steps)


def forest(y: np.ndarray, steps: int, of_changes: bool) -> np.ndarray:
    """By a random forest on the last twelve values and the month."""
    base = y[LAGS - 1 : -1] if of_changes else np.zeros(len(y) - LAGS)
    windows = np.lib.stride_tricks.sliding_window_view(y, LAGS)[:-1]
    level = windows[:, -1:] if of_changes else 0.0
    months = np.arange(LAGS, len(y))[:, None] % 12
    model = RandomForestRegressor(300, random_state=0, n_jobs=1)
    model.fit(np.hstack([windows - level, months]), y[LAGS:] - base)
    known = list(y)
    for _ in range(steps):
        last = np.array(known[-LAGS:])
        start = last[-1] if of_changes else 0.0
        row = np.append(last - start, len(known) % 12)
        known.append(start + model.predict(row[None])[0])
    return np.array(known[-steps:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--airline")
    parser.add_argument("--max-time", type=float, default=120.0)
    parser.add_argument("--series", default="co2,airline")
    options = parser.parse_args()
    for name in options.series.split(","):
        X, y = co2() if name == "co2" else airline(options.airline)
        n = len(y) - len(y) // 5
        steps = len(y) - n
        begun = time.perf_counter()
        search = StructureSearch(max_time=options.max_time).fit(X[:n], y[:n])
        seconds = time.perf_counter() - begun
        mean, std = search.predict(X[n:], return_std=True)
        inside = np.mean(np.abs(mean - y[n:]) < 1.96 * std)
        forecasts = {
            "structure search": mean,
            "forest of changes": forest(y[:n], steps, True),
            "forest of values": forest(y[:n], steps, False),
            "seasonal naive": naive(y[:n], steps),
        }
        print(f"{name}: {n} months to learn from, {steps} to forecast")
        print(search.describe())
        for label, forecast in forecasts.items():
            error = np.sqrt(np.mean((forecast - y[n:]) ** 2))
            print(f"  {label:<18} RMSE {error:8.3f}")
        tried = len(search.report_["tried"])
        print(f"  95 % band holds {inside:.0%}; {seconds:.1f} s, {tried} kernels", flush=True)


if __name__ == "__main__":
    main()
