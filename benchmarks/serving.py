"""Predictions a second, one row at a time, by a model loaded from a file in a fresh process.

    python benchmarks/serving.py [--rows 1000] [--cpu]

The tables are scikit-learn's diabetes: 442 rows and ten numbers, as an array, as a DataFrame, and
as a DataFrame with a column of words. --cpu counts CPU seconds, for a machine that others use.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

import mercer


def tables() -> tuple[dict[str, Any], np.ndarray]:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    words = np.array(["low", "middle", "high"])[np.arange(len(y)) % 3]
    whole = {"array": X.to_numpy(), "frame": X, "frame with words": X.assign(group=words)}
    return whole, y.to_numpy()


def serve(path: str, name: str, rows: int, now: Any) -> float:
    model, X = mercer.load(path), tables()[0][name]
    wanted = [X[i : i + 1] for i in np.arange(rows) % len(X)]
    for row in wanted[:50]:
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
    if asked.serve is not None:
        now = time.process_time if asked.cpu else time.perf_counter
        print(f"{asked.serve[1]:18s} {serve(*asked.serve, asked.rows, now):7.0f} a second")
        return
    whole, y = tables()
    with tempfile.TemporaryDirectory() as folder:
        for name, X in whole.items():
            path = str(Path(folder) / "model.mercer")
            mercer.save(mercer.AutoKernelRegressor().fit(X, y), path)
            command = [sys.executable, __file__, "--rows", str(asked.rows), "--serve", path, name]
            subprocess.run([*command, *(["--cpu"] if asked.cpu else [])], check=True)


if __name__ == "__main__":
    main()
