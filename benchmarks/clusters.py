"""Fits on Dask: workers against workers, a table larger than their memory, kills, and overheads.

    python benchmarks/clusters.py workers --rows 1000000    # two workers beside one
    python benchmarks/clusters.py parquet --rows 20000000   # from files, memory of each worker
    python benchmarks/clusters.py kills --rows 400000       # a worker lost in every phase
    python benchmarks/clusters.py machines --rows 400000    # Newton's method: seconds and tasks
    python benchmarks/clusters.py overhead                  # per task, and what follows from it

``--data DIR`` keeps the Parquet files of ``parquet``; without it they go when it is done.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil

from distributed import Client, LocalCluster, SchedulerPlugin, wait
from mercer import KernelMachineClassifier, KernelRidge
from mercer.distributed.reduction import reduced
from mercer.distributed.sizing import rows_per_block
from mercer.solvers.nystrom.sums import Totals

clock = time.perf_counter
D, TARGET = 10, "y"
FEATURES = [f"x{j}" for j in range(D)]


def made_up(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    f = np.sin(1.5 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * np.tanh(X[:, 2] * X[:, 3])
    return X, f + 0.1 * rng.normal(size=n)


def write_parts(folder: Path, rows: int, part: int) -> None:
    for i, start in enumerate(range(0, rows, part)):
        path = folder / f"part-{i:05d}.parquet"
        if not path.exists():
            X, y = made_up(min(part, rows - start), seed=i)
            pd.DataFrame({**dict(zip(FEATURES, X.T, strict=True)), TARGET: y}).to_parquet(path)


def model(centres: int, **settings: Any) -> KernelRidge:
    return KernelRidge(
        kernel="rbf", gamma=0.05, alpha=1.0, solver="nystrom", n_centers=centres, **settings
    )


@contextmanager
def cluster(workers: int = 2, memory: str = "2GB") -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=None,
        ) as local,
        Client(local) as client,
    ):
        yield client


def timed(routine: Callable) -> tuple[float, Any]:
    start = clock()
    value = routine()
    return clock() - start, value


def worker_pids(client: Client) -> list[int]:
    return list(client.run(os.getpid).values())


@contextmanager
def peak_memory(client: Client) -> Iterator[list[float]]:
    """The most that any worker has of resident memory, in MB, looked at ten times a second."""
    found, over = [0.0], threading.Event()
    pids = worker_pids(client)

    def watch() -> None:
        while not over.wait(0.1):
            for pid in pids:
                if psutil.pid_exists(pid):
                    found[0] = max(found[0], psutil.Process(pid).memory_info().rss / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def workers(options: argparse.Namespace) -> None:
    """Two workers beside one, on points that each makes up as it reads them."""
    part = max(options.rows // 16, 1)
    X = da.random.default_rng(0).normal(size=(options.rows, D), chunks=(part, D))
    y = np.sin(1.5 * X[:, 0]) * np.cos(X[:, 1])
    seconds, coefficients = {}, {}
    for count in (1, 2):
        with cluster(count) as client:
            client.run(lambda: __import__("mercer"))
            points, targets = X.persist(), y.persist()
            estimator = model(options.centres)
            seconds[count], fitted = timed(lambda: estimator.fit(points, targets))
            coefficients[count] = fitted.dual_coef_
            predicting, _ = timed(lambda: fitted.predict(points).sum().compute())
            print(
                f"{count} worker(s), {options.rows:,} x {D}, {options.centres} centres: fit "
                f"{seconds[count]:.1f} s, predict {predicting:.1f} s; {fitted.result_.method}"
            )
    same = np.array_equal(coefficients[1], coefficients[2])
    print(f"two workers are {seconds[1] / seconds[2]:.2f} x one; the same bits: {same}")


def parquet(options: argparse.Namespace) -> None:
    """A fit from files, with the memory of the workers."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.data or temporary)
        writing, _ = timed(lambda: write_parts(folder, options.rows, options.part))
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        print(f"{options.rows:,} rows x {D} in {size / 1e9:.2f} GB of Parquet ({writing:.0f} s)")
        table = dd.read_parquet(folder)
        with cluster(2) as client, peak_memory(client) as peak:
            fitting, fitted = timed(
                lambda: model(options.centres).fit(table[FEATURES], table[TARGET])
            )
            print(f"fit {fitting:.0f} s, at most {peak[0]:,.0f} MB in a worker")
            print(f"  {fitted.result_.message}")
            predicted = fitted.predict(table[FEATURES])
            predicting, error = timed(lambda: ((predicted - table[TARGET]) ** 2).mean().compute())
            print(
                f"predict {predicting:.0f} s, mean squared error {error:.4f} (noise 0.01), at most "
                f"{peak[0]:,.0f} MB in a worker"
            )


@contextmanager
def kill_during(client: Client, phase: str) -> Iterator[list[int]]:
    """Kill the first worker that a task of this name is sent to; who was killed is listed."""
    scheduler, pids = client.cluster.scheduler, client.run(os.getpid)
    killed, over = [], threading.Event()

    def watch() -> None:
        while not over.is_set():
            for address, state in list(scheduler.workers.items()):
                keys = [str(task.key) for task in list(state.processing)]
                if address in pids and any(f"mercer-{phase}-" in key for key in keys):
                    os.kill(pids[address], signal.SIGKILL)
                    killed.append(pids[address])
                    return
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()


def kills(options: argparse.Namespace) -> None:
    """A worker lost in each phase: the same bits, and what it cost."""
    part = max(options.rows // 40, 1)
    with tempfile.TemporaryDirectory() as folder:
        write_parts(Path(folder), options.rows, part)
        table = dd.read_parquet(folder)
        X, y = table[FEATURES], table[TARGET]
        centres = min(options.centres, 500)
        cases = [
            (model(centres), y, ["survey", "rows", "FeatureSums", "ProductSums"]),
            (
                KernelMachineClassifier(
                    kernel="rbf", gamma=0.05, solver="nystrom", n_centers=50, random_state=0
                ),
                y > 0,
                ["CurvatureSums", "GatherSums", "sums"],
            ),
        ]
        for estimator, target, phases in cases:
            name = type(estimator).__name__
            with cluster(2) as client:
                seconds, fitted = timed(lambda: estimator.fit(X, target))
                expected = fitted.dual_coef_
                print(f"{name}: {seconds:.1f} s with no worker lost")
            for phase in phases:
                with cluster(2) as client, kill_during(client, phase) as killed:
                    seconds, fitted = timed(lambda: estimator.fit(X, target))
                same = np.array_equal(fitted.dual_coef_, expected)
                print(f"  {len(killed)} killed in {phase}: {seconds:.1f} s, the same bits: {same}")
        with cluster(2) as client:
            fitted = model(centres).fit(X, y)
            expected = fitted.predict(X).compute()
            with kill_during(client, "predict") as killed:
                seconds, found = timed(lambda: fitted.predict(X).compute())
        same = np.array_equal(found, expected)
        print(f"  {len(killed)} killed in predict: {seconds:.1f} s, the same bits: {same}")


class Finished(SchedulerPlugin):
    """Counts tasks."""

    name = "finished"

    def __init__(self):
        self.count = 0

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        self.count += (start, finish) == ("processing", "memory")


def machines(options: argparse.Namespace) -> None:
    """Logistic and hinge machines on two workers."""
    X, y = made_up(options.rows, seed=0)
    part = max(options.rows // 64, 1)
    for loss in ("logistic", "hinge"):
        with cluster(2) as client:
            points = da.from_array(X, chunks=(part, D)).persist()
            labels = da.from_array(y > 0, chunks=part).persist()
            wait([points, labels])
            client.run(lambda: __import__("mercer"))
            client.register_plugin(Finished())
            estimator = KernelMachineClassifier(
                loss,
                kernel="rbf",
                gamma=0.05,
                solver="nystrom",
                n_centers=min(options.centres, 300),
                random_state=0,
            )
            seconds, fitted = timed(lambda: estimator.fit(points, labels))
            count = client.cluster.scheduler.plugins[Finished.name].count
        steps = fitted.n_iter_
        print(
            f"{loss}, {options.rows:,} x {D}, {estimator.n_centers} centres: {seconds:.1f} s, "
            f"{steps} steps, {count:,} tasks, gap {fitted.result_.gap:.1e}"
        )


class Counted(Totals):
    """Nothing but a number, to see what a task costs by itself."""

    def __init__(self, size: int, block: int):
        self.n, self.sums = 1, np.zeros((size, 1))


def overhead(options: argparse.Namespace) -> None:
    """Seconds per task and per row, and the time that 10^9 rows would take from them."""
    centres, passes = options.centres, options.passes
    with cluster(2):
        reduced("warm", Counted, 1, [(i,) for i in range(50)])
        costs = {}
        for count in (500, 2000):
            costs[count], _ = timed(
                lambda: reduced("count", Counted, centres, [(i,) for i in range(count)])
            )
        per_task = (costs[2000] - costs[500]) / 1500
        start = max(costs[500] - 500 * per_task, 0.0)
        print(f"a pass costs {1e3 * start:.0f} ms, and {1e3 * per_task:.2f} ms per block")
        part = 100_000
        X = da.random.default_rng(0).normal(size=(8 * part, D), chunks=(part, D)).persist()
        y = X[:, 0].persist()
        estimator = model(centres, tol=1e-6)
        seconds, fitted = timed(lambda: estimator.fit(X, y))
        per_row = 2 * seconds / (8 * part)
        took = fitted.result_.n_iter
        print(f"{centres} centres: {1e6 * per_row:.2f} worker-µs per row for {took} passes and all")
    rows = 1e9
    part = rows_per_block(int(rows), centres, D, 1, squares=False)
    blocks = rows / part
    print(f"10^9 rows in {blocks:,.0f} blocks of {part:,}, {passes} passes:")
    print("| workers | computing s | scheduling s | total | limited by |")
    print("|---|---|---|---|---|")
    for count in (10, 100, 1000):
        computing = rows * per_row / count * passes / max(took, 1)
        scheduling = passes * (start + blocks * per_task)
        by = "computing" if computing > scheduling else "the scheduler"
        total = max(computing, scheduling)
        print(f"| {count} | {computing:,.0f} | {scheduling:,.0f} | {total:,.0f} s | {by} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = {part.__name__: part for part in (workers, parquet, kills, machines, overhead)}
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=list(parts))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", type=int, default=500_000, help="rows of a Parquet file")
    parser.add_argument("--centres", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    for name in options.parts:
        parts[name](options)


if __name__ == "__main__":
    main()
