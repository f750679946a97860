"""Support vector classification: mercer beside scikit-learn and scikit-learn-intelex, in one run.

    python benchmarks/svm.py --data DIR [--sets pendigits,a9a,...] [--repeats 3]
    python benchmarks/svm.py --data DIR --large-c
    python benchmarks/svm.py --data DIR --full

DIR (or the environment variable MERCER_DATA) holds a9a.svm.gz, a9a.t.svm.gz, mnist.npz,
pendigits.npz and spambase.npz; sets whose file is missing are left out, and those of 1000 and 150
rows come with scikit-learn. Every time is the best of alternating repeats. Violation and gap are
measured from the returned model in float64, in the same way for all three: the largest violation of
the optimality conditions (LIBSVM's measure, which tol bounds), and the duality gap relative to the
objective, the worst over pairs of classes. ``--large-c`` fits 4000 points with C = 10⁴, where pairs
of variables alone hardly get there; ``--full`` fits all 60,000 rows of MNIST once.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import svm as sklearn_svm
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_svmlight_file,
    make_classification,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from mercer.estimators.svm import SVC

try:
    from sklearnex.svm import SVC as OneDAL
except ImportError:
    OneDAL = None

TOL, CACHE = 1e-3, 2000


class Task(NamedTuple):
    name: str
    C: float
    gamma: float
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def tasks(folder: Path | None) -> Iterator[Callable[[], Task]]:
    """Each set as a function that loads it, named after it."""
    for load in (iris, digits_1000, cancer, pendigits, spambase, a9a, mnist):
        needs = FILES.get(load.__name__)
        if needs is None:
            yield load
        elif folder is not None and (folder / needs).exists():
            yield _bound(load, folder)


def _bound(load: Callable[[Path], Task], folder: Path) -> Callable[[], Task]:
    def bound() -> Task:
        return load(folder)

    bound.__name__ = load.__name__
    return bound


FILES = {
    "pendigits": "pendigits.npz",
    "spambase": "spambase.npz",
    "a9a": "a9a.svm.gz",
    "mnist": "mnist.npz",
}


def iris() -> Task:
    X, y = load_iris(return_X_y=True)
    return Task("iris, 150×4", 1.0, 0.25, X, y, X, y)


def digits_1000() -> Task:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    return Task("digits, 1000×64", 10.0, 0.05, X[:1000], y[:1000], X[1000:], y[1000:])


def cancer() -> Task:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return Task("cancer, 569×30", 1.0, 1 / 30, X, y, X, y)


def pendigits(folder: Path) -> Task:
    given = np.load(folder / "pendigits.npz")
    X, y = given["X"].astype(float) / 100, given["y"]
    return Task("pendigits, 7494×16", 10.0, 1.0, X[:7494], y[:7494], X[7494:], y[7494:])


def spambase(folder: Path) -> Task:
    given = np.load(folder / "spambase.npz")
    X, y = StandardScaler().fit_transform(given["X"].astype(float)), given["y"]
    return Task("spambase, 4601×57", 1.0, 1 / 57, X, y, X, y)


def a9a(folder: Path) -> Task:
    X, y = load_svmlight_file(str(folder / "a9a.svm.gz"), n_features=123)
    X_test, y_test = load_svmlight_file(str(folder / "a9a.t.svm.gz"), n_features=123)
    return Task("a9a, 32560×123", 1.0, 1 / 123, X.toarray(), y, X_test.toarray(), y_test)


def mnist(folder: Path, rows: int = 10_000) -> Task:
    given = np.load(folder / "mnist.npz")
    X, X_test = (given[name] / 255 for name in ("X_train", "X_test"))
    name = f"MNIST, {rows}×784"
    return Task(name, 10.0, 0.02, X[:rows], given["y_train"][:rows], X_test, given["y_test"])


def machines(task: Task, cache: float = CACHE) -> dict[str, Any]:
    given = {"C": task.C, "gamma": task.gamma, "tol": TOL, "cache_size": cache}
    found: dict[str, Any] = {"mercer": SVC(**given), "scikit-learn": sklearn_svm.SVC(**given)}
    if OneDAL is not None:
        found["oneDAL"] = OneDAL(**given)
    return found


def certificate(machine: Any, task: Task, X: np.ndarray) -> tuple[float, float]:
    """Largest violation and relative duality gap of a fitted model, in float64."""
    codes = np.searchsorted(machine.classes_, task.y)
    support, layout = machine.support_, np.asarray(machine.dual_coef_, dtype=np.float64)
    k = len(machine.classes_)
    X = np.asarray(X, dtype=np.float64)
    violation, gap = 0.0, 0.0
    for i, j in combinations(range(k), 2):
        of_i, of_j = (np.flatnonzero(codes[support] == c) for c in (i, j))
        rows_i, rows_j = (0, 0) if k == 2 else (j - 1, i)
        own = np.concatenate([of_i, of_j])
        beta = np.concatenate([layout[rows_i, of_i], layout[rows_j, of_j]])
        beta = -beta if k == 2 else beta
        own, beta = own[beta != 0], beta[beta != 0]
        members = np.flatnonzero((codes == i) | (codes == j))
        sign = np.where(codes[members] == i, 1.0, -1.0)
        f = expansion(X[members], X[support[own]], beta, task.gamma)
        place = np.searchsorted(members, support[own])
        a = np.zeros(len(members))
        a[place] = np.clip(beta, -task.C, task.C)
        F = f - sign
        lo, hi = np.minimum(0, task.C * sign), np.maximum(0, task.C * sign)
        near = 1e-6 * task.C  # float32 models miss their bounds by rounding
        top = np.max(F, where=a > lo + near, initial=-np.inf)
        low = np.min(F, where=a < hi - near, initial=np.inf)
        violation = max(violation, top - low)
        b = best_bias(F, lo, hi, a)
        loss = np.maximum(0, 1 - sign * (f + b)).sum() * task.C
        squared = float(f @ a)
        objective = np.abs(a).sum() - 0.5 * squared
        gap = max(gap, (0.5 * squared + loss - objective) / max(1.0, abs(objective)))
    return violation, gap


def best_bias(F: np.ndarray, lo: np.ndarray, hi: np.ndarray, a: np.ndarray) -> float:
    """The bias of the smallest gap."""
    order = np.argsort(F)
    slope = np.cumsum((hi - lo)[order]) - np.sum(a - lo)
    return -float(F[order][min(np.searchsorted(slope, 0.0), len(F) - 1)])


def expansion(X: np.ndarray, S: np.ndarray, beta: np.ndarray, gamma: float) -> np.ndarray:
    step = 2**25 // max(1, len(S))
    parts = [rbf_kernel(X[i : i + step], S, gamma) @ beta for i in range(0, len(X), step)]
    return np.concatenate(parts)


def best_of(functions: dict[str, Callable], repeats: int, limit: float) -> dict[str, float]:
    """Seconds of each function, the best of alternating repeats; few repeats of slow ones."""
    seconds = dict.fromkeys(functions, np.inf)
    spent = dict.fromkeys(functions, 0.0)
    for repeat in range(repeats):
        for name, f in functions.items():
            if repeat and spent[name] > limit:
                continue
            start = time.perf_counter()
            f()
            took = time.perf_counter() - start
            spent[name] += took
            seconds[name] = min(seconds[name], took)
    return seconds


def compare(task: Task, dtype: Any, repeats: int, limit: float, cache: float = CACHE) -> None:
    X, X_test = task.X.astype(dtype), task.X_test.astype(dtype)
    fitted = machines(task, cache)
    many = repeats * (10 if len(X) < 2000 else 1)
    fit = best_of({n: lambda m=m: m.fit(X, task.y) for n, m in fitted.items()}, many, limit)
    predict = best_of({n: lambda m=m: m.predict(X_test) for n, m in fitted.items()}, many, limit)
    answers = {name: machine.predict(X_test) for name, machine in fitted.items()}
    peers = [name for name in fitted if name != "mercer"]
    print(f"\n{task.name}, C={task.C:g}, gamma={task.gamma:.4g}, {np.dtype(dtype)}")
    print(f"{'':14s}{'fit, ms':>12s}{'predict, ms':>13s}{'violation':>11s}{'gap':>10s}"
          f"{'SVs':>7s}{'right':>8s}{'same':>8s}")  # fmt: skip
    for name, machine in fitted.items():
        violation, gap = certificate(machine, task, X)
        same = np.mean(answers[name] == answers["mercer"])
        right = np.mean(answers[name] == task.y_test)
        print(f"{name:14s}{1e3 * fit[name]:12.2f}{1e3 * predict[name]:13.2f}{violation:11.1e}"
              f"{gap:10.1e}{len(machine.support_):7d}{right:8.4f}{same:8.4f}")  # fmt: skip
    own = fitted["mercer"]
    parts = own.result_.value if isinstance(own.result_.value, tuple) else (own.result_.value,)
    print(f"certified by mercer: violation {max(part.violation for part in parts):.1e}, "
          f"gap {own.dual_gap_:.1e}; {own.result_.method}")  # fmt: skip
    for what, seconds in (("fit", fit), ("predict", predict)):
        faster = min(peers, key=seconds.__getitem__)
        ratio = seconds["mercer"] / seconds[faster]
        print(f"{what}: {ratio:.2f} of the time of the faster peer, {faster}")


def large_c(repeats: int) -> None:
    """Four thousand points and C = 10⁴, where working sets alone hardly get there."""
    X, y = make_classification(n_samples=4000, n_features=20, flip_y=0.1, random_state=0)
    compare(Task("large C, 4000×20", 1e4, 0.005, X, y, X, y), np.float64, repeats, 10.0)


def full(folder: Path) -> None:
    """All of MNIST, once, by mercer and oneDAL, each in a process of its own."""
    answers = {}
    for name in ("mercer", "oneDAL") if OneDAL is not None else ("mercer",):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            report, answers[name] = process.submit(full_by, name, folder).result()
        print(report, flush=True)
    if len(answers) == 2:
        print(f"same answers: {np.mean(answers['mercer'] == answers['oneDAL']):.5f}")


def full_by(name: str, folder: Path) -> tuple[str, np.ndarray]:
    """One machine on all of MNIST: what is to be said of it, and its answers."""
    task = mnist(folder, 60_000)
    task = task._replace(X=task.X.astype(np.float32), X_test=task.X_test.astype(np.float32))
    machine = machines(task, cache=1000)[name]
    start = time.perf_counter()
    machine.fit(task.X, task.y)
    fit = time.perf_counter() - start
    answers = machine.predict(task.X_test)
    predict = time.perf_counter() - start - fit
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    total = sum(objectives(machine, task))
    report = (
        f"{name:8s} fit {fit:.1f} s, predict {predict:.2f} s, peak {peak:.2f} GiB, "
        f"right {np.mean(answers == task.y_test):.4f}, {len(machine.support_)} SVs, "
        f"sum of objectives {total:.6f}"
    )
    return report, answers


def objectives(machine: Any, task: Task) -> Iterator[float]:
    """½ ‖w‖² - sum of coefficients of every pair, in float64: what all solvers minimise."""
    codes = np.searchsorted(machine.classes_, task.y)
    support, layout = machine.support_, np.asarray(machine.dual_coef_, dtype=np.float64)
    for i, j in combinations(range(len(machine.classes_)), 2):
        of_i, of_j = (np.flatnonzero(codes[support] == c) for c in (i, j))
        own = np.concatenate([of_i, of_j])
        beta = np.concatenate([layout[j - 1, of_i], layout[i, of_j]])
        own, beta = own[beta != 0], beta[beta != 0]
        S = task.X[support[own]].astype(np.float64)
        yield 0.5 * float(beta @ expansion(S, S, beta, task.gamma)) - np.abs(beta).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--sets", default="", help="names, separated by commas; all if left out")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=5.0, help="seconds after which not to repeat"
    )
    parser.add_argument("--large-c", action="store_true")
    parser.add_argument("--full", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = None if asked.data is None else Path(asked.data)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
          f"{datetime.date.today()}; tol {TOL:g}, cache {CACHE} MB")  # fmt: skip
    if asked.full:
        full(folder or Path())
        return
    if asked.large_c:
        large_c(asked.repeats)
        return
    chosen = {name for name in asked.sets.split(",") if name}
    for load in tasks(folder):
        if chosen and load.__name__ not in chosen:
            continue
        task = load()
        for dtype in asked.dtypes.split(","):
            compare(task, np.dtype(dtype), asked.repeats, asked.limit)


if __name__ == "__main__":
    main()
