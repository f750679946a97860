"""Support vector machines of middle size, 2 to 100 classes: fits compared with two libraries.

    python benchmarks/svm_classes.py [--classes 2,3,10,26,100] [--repeats 3] [--cpu]

3000 standardised rows, 15 values of (C, gamma). Every library runs in a process of its own, since
threads that wait for work get in the way of others, and the best of the repeats counts. Ratios are
the best time of the others over mercer's: of the sums over all values, and of the worst single one.
oneDAL takes part where scikit-learn-intelex is installed. --cpu counts CPU seconds, all threads
together, for a machine that others use; set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 with it.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_friedman1
from timing import count_processor_time, machine, timed

LIBRARIES = {"mercer": "mercer", "scikit-learn": "sklearn.svm", "oneDAL": "sklearnex.svm"}
VALUES = list(itertools.product((0.1, 1.0, 10.0, 100.0, 1000.0), (0.01, 1 / 16, 0.3)))


def classes(k: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(
        3000, 16, n_informative=12, n_classes=k, n_clusters_per_class=1, class_sep=1.5,
        random_state=0,
    )  # fmt: skip
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def regression(noise: float) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_friedman1(3000, 16, noise=noise, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def seconds(library: str, name: str, data: tuple, repeats: int, cpu: bool) -> list[float]:
    """The best time to fit for each of the values, in this process."""
    warnings.simplefilter("ignore")
    if cpu:
        count_processor_time()
    made: Any = getattr(importlib.import_module(LIBRARIES[library]), name)
    made(C=1.0, gamma=0.1).fit(*data)
    return [timed(lambda: made(C=C, gamma=g).fit(*data), repeats)[0] for C, g in VALUES]


def alone(*arguments: Any) -> list[float]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(seconds, *arguments).result()


def compare(title: str, name: str, data: tuple, repeats: int, cpu: bool) -> None:
    peers = ["scikit-learn", "oneDAL"]
    ours = np.array(alone("mercer", name, data, repeats, cpu))
    theirs = {}
    for peer in peers:
        try:
            theirs[peer] = np.array(alone(peer, name, data, repeats, cpu))
        except ImportError:
            continue
    best = np.min(list(theirs.values()), axis=0)
    worst = int(np.argmin(best / ours))
    totals = ", ".join(f"{peer} {times.sum():.3f} s" for peer, times in theirs.items())
    print(
        f"{title}: mercer {ours.sum():.3f} s, {totals}, ratio {best.sum() / ours.sum():.2f}; worst "
        f"{best[worst] / ours[worst]:.2f} at C = {VALUES[worst][0]:g}, gamma = "
        f"{VALUES[worst][1]:.3g} ({1e3 * ours[worst]:.1f} ms)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", default="2,3,10,26,100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    given = parser.parse_args()
    print(machine())
    for k in map(int, filter(None, given.classes.split(","))):
        compare(f"{k} classes", "SVC", classes(k), given.repeats, given.cpu)
    for noise in (0.1, 1.0):
        compare(f"regression, noise {noise}", "SVR", regression(noise), given.repeats, given.cpu)


if __name__ == "__main__":
    main()
