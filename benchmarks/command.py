"""`mercer fit` on every table of a folder, with nothing set but the target: scores and times.

    python benchmarks/command.py --data DIR [--max-time 60] [--cpu]

The folder has npz files with X and y, LIBSVM files, and CSV files, whose last column is the target.
Each table is fitted by the command itself in a process of its own, so that the times are what a
person waits; with ``--cpu`` they are seconds of processors, for a machine that others use too.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


def target_of(path: Path) -> list[str]:
    """The option that names the target, of tables that need one."""
    if path.suffix != ".csv":
        return []
    with open(path, newline="") as file:
        return ["--target", next(csv.reader(file))[-1]]


def processor_seconds() -> float:
    """Of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fitted(path: Path, max_time: float, clock: Callable[[], float]) -> str:
    """One row of the table."""
    options = [*target_of(path), "--json", "--max-time", str(max_time)]
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.mercer")
        command = [sys.executable, "-m", "mercer", "fit", str(path), "-o", model, *options]
        start = clock()
        run = subprocess.run(command, capture_output=True, text=True)
        seconds = clock() - start
        if run.returncode:
            return f"| {path.name} | | | failed: {run.stderr.strip()} | | |"
        found, size = json.loads(run.stdout), os.path.getsize(model) / 1e6
    score = found["score"]
    shown = f"{score['name']} {score['value']:.3f} ± {score['error']:.3f}"
    rows = f"{found['trained on']:,} + {found['tested on']:,}"
    baseline = round(score["baseline"], 3) + 0.0
    return (
        f"| {path.name} | {found['task']} | {rows} | {shown} | {baseline:.3f} "
        f"| {seconds:.1f} | {size:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="a folder of tables")
    parser.add_argument("--max-time", type=float, default=60.0, help="seconds for each table")
    parser.add_argument("--cpu", action="store_true", help="count seconds of processors")
    chosen = parser.parse_args()
    clock = processor_seconds if chosen.cpu else time.perf_counter
    if not chosen.data:
        parser.error("--data DIR, or the variable MERCER_DATA, says where the tables are")
    print("| table | task | rows trained + held out | score | baseline | seconds | MB |")
    print("|---|---|---|---|---|---|---|")
    for path in sorted(Path(chosen.data).iterdir()):
        if path.is_file():
            print(fitted(path, chosen.max_time, clock), flush=True)


if __name__ == "__main__":
    main()
