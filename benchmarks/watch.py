"""What became slower: ratios to other libraries now, compared with those stored before.

    python benchmarks/watch.py                      # against benchmarks/ratios.json
    python benchmarks/watch.py --against FILE
    python benchmarks/watch.py --store [FILE]

A ratio is the peer's best time over mercer's, both measured in turns in one process, so that what
slows the machine slows both. One that is more than a tenth below the stored one is measured again
before it counts as slower. The exit status is 1 where anything is. Ratios depend on the processor
and on the versions of the peers: a run on another machine than the stored one's is only a hint, and
a workflow stores those of the old code first, on the machine that measures the new.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gram
import numpy as np
import scipy
import sklearn
import sweep
from sklearn.metrics.pairwise import pairwise_kernels
from timing import in_turns

from mercer import core

STORED = Path(__file__).with_name("ratios.json")
TOLERATED = 0.1  # share of a ratio that may be lost
AGAIN = 4  # measurements of a ratio that seems to have fallen, before it is believed

# Uses of sweep.py and their numbers of points: each estimator, small and large.
USES = {
    "SVC()": (200, 2000),
    "SVC(C=100.0)": (2000,),
    "SVC(kernel='linear')": (2000,),
    "SVC(sparse)": (2000,),
    "NuSVC(nu=0.3)": (2000,),
    "OneClassSVM(nu=0.1)": (2000,),
    "SVR()": (200, 2000),
    "KernelRidge(kernel='rbf', gamma=0.1, alpha=0.1)": (200, 2000),
    "KernelRidge(kernel='linear')": (2000,),
    "KernelPCA(n_components=2, kernel='rbf', gamma=0.1)": (200, 2000),
    "KernelDensity(bandwidth=0.5)": (2000,),
}
# Kernels of gram.py and their numbers of features, for a Gram matrix of 1500 points.
GRAMS = {"rbf": (3, 30, 300), "laplacian": (30,), "chi2": (30,), "polynomial": (30,)}
GRAM_POINTS = 1500
REPEATS = 7

Ratios = dict[str, float]


class Change(NamedTuple):
    """A ratio that was stored, and the same now."""

    task: str
    before: float
    now: float

    @property
    def lost(self) -> float:
        return 1 - self.now / self.before


def ratios_of_use(name: str, n: int) -> Ratios:
    use = next(use for use in sweep.uses() if use.name == name)
    fit, fit_of_peer, predict, predict_of_peer = sweep.measured(use, n, REPEATS)
    task = f"{name}, n = {n}"
    return {f"fit {task}": fit_of_peer / fit, f"predict {task}": predict_of_peer / predict}


def ratios_of_gram(name: str, d: int) -> Ratios:
    arguments, kernel, _ = gram.CASES[name](d)
    kind = "non-negative" if name == "chi2" else "centred"
    X = gram.data(kind, GRAM_POINTS, d, "float64")
    (ours, _), (theirs, _) = in_turns(
        REPEATS, lambda: kernel(X), lambda: pairwise_kernels(X, metric=name, **arguments)
    )
    return {f"Gram matrix {name}, d = {d}": theirs / ours}


def suite() -> Iterator[Callable[[], Ratios]]:
    """Each measures one or two ratios."""
    for name, sizes in USES.items():
        for n in sizes:
            yield lambda name=name, n=n: ratios_of_use(name, n)
    for name, features in GRAMS.items():
        for d in features:
            yield lambda name=name, d=d: ratios_of_gram(name, d)


def measured(measure: Callable[[], Ratios], before: Ratios) -> Ratios:
    """The ratios; the best of several measurements where the first seems slower than before."""
    found = measure()
    for _ in range(AGAIN - 1):
        if not slower(compared(found, before)):
            break
        again = measure()
        found = {task: max(value, again[task]) for task, value in found.items()}
    return found


def compared(found: Ratios, before: Ratios) -> list[Change]:
    """Those that are in both, in the order of the first."""
    return [Change(task, before[task], now) for task, now in found.items() if task in before]


def slower(changes: list[Change]) -> list[Change]:
    """Those that lost more than is tolerated, the worst first."""
    return sorted((c for c in changes if c.lost > TOLERATED), key=lambda c: -c.lost)


def here() -> dict[str, Any]:
    """What the ratios depend on besides the code."""
    return {
        "processor": _processor(),
        "cores": core.threads(10**9, 10),
        "level": core.level(),
        "versions": {p.__name__: _minor(p.__version__) for p in (np, scipy, sklearn)},
    }


def _minor(version: str) -> str:
    """A version without its patch level."""
    return ".".join(version.split(".")[:2])


def _processor() -> str:
    """Its name, where the system says so."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def store(path: Path, rounds: int) -> None:
    """Write the median of some rounds, since one best time can be luck."""
    found: dict[str, list[float]] = {}
    for k in range(rounds):
        for measure in suite():
            for task, value in measure().items():
                found.setdefault(task, []).append(value)
        print(f"round {k + 1} of {rounds}", flush=True)
    ratios = {task: round(median(values), 3) for task, values in found.items()}
    text = json.dumps({"here": here(), "ratios": ratios}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{len(ratios)} ratios are in {path}")


def compare(path: Path) -> int:
    stored = json.loads(path.read_text(encoding="utf-8"))
    if stored["here"] != here():
        print(f"The ratios were stored on another machine or with other versions:\n"
              f"  {stored['here']}\nand are now measured on\n  {here()}")  # fmt: skip
    changes: list[Change] = []
    for measure in suite():
        for change in compared(measured(measure, stored["ratios"]), stored["ratios"]):
            changes.append(change)
            print(
                f"{change.task:<70} {change.before:8.2f}x  now {change.now:8.2f}x "
                f"{-100 * change.lost:+6.0f} %",
                flush=True,
            )
    worse = slower(changes)
    if not worse:
        print(f"\nNone of {len(changes)} ratios fell by more than {TOLERATED:.0%}.")
        return 0
    print(f"\n{len(worse)} of {len(changes)} ratios fell by more than {TOLERATED:.0%}:")
    for change in worse:
        print(f"  {change.task}: {change.before:.2f}x before, {change.now:.2f}x now")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, default=STORED, metavar="FILE")
    parser.add_argument("--store", type=Path, nargs="?", const=STORED, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is stored")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.store:
        store(given.store, given.rounds)
        return 0
    return compare(given.against)


if __name__ == "__main__":
    sys.exit(main())
