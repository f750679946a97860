"""Ordinary uses of every estimator at sizes from 50 to 20,000: mercer and scikit-learn in one run.

    python benchmarks/sweep.py [--only WORD] [--sizes 50,200,2000] [--repeats 5] [--cpu]

Each line is one use: seconds of both to fit and to predict, and how many times as fast mercer is.
The two libraries take turns, and the best of the repeats counts. --cpu counts CPU seconds, all
threads together, for a machine that others use; set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1
with it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import decomposition, kernel_ridge, neighbors, svm
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from timing import count_processor_time, in_turns, machine

import mercer

# Fits that take longer than this are not repeated.
LONG_SECONDS = 5.0


class Data(NamedTuple):
    X: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    queries: np.ndarray


class Use(NamedTuple):
    """An estimator of both libraries and what it is given."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    given: Callable[[Data], tuple[tuple, dict, Any]]  # arguments of fit, and queries
    method: str = "predict"
    largest: int = 20_000


def data(n: int, d: int = 10, n_classes: int = 2) -> Data:
    rng = np.random.default_rng(0)
    X, labels = make_classification(
        n + min(n, 2000), d, n_informative=max(4, d // 2), n_classes=n_classes,
        n_clusters_per_class=1, class_sep=0.8, random_state=0,
    )  # fmt: skip
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    targets = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(len(X))
    weight = rng.uniform(0.5, 2.0, n)
    return Data(X[:n], labels[:n], targets[:n], weight, X[n:])


def gram_of(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return rbf_kernel(A, B, gamma=0.1)


def row_pair(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.exp(-0.1 * np.sum((a - b) ** 2)))


def labelled(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X, D.labels), {}, D.queries


def targeted(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X, D.targets), {}, D.queries


def alone(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X,), {}, D.queries


def single(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X.astype(np.float32), D.labels), {}, D.queries.astype(np.float32)


def single_targets(D: Data) -> tuple[tuple, dict, Any]:
    X, q = D.X.astype(np.float32), D.queries.astype(np.float32)
    return (X, D.targets.astype(np.float32)), {}, q


def sparse(D: Data) -> tuple[tuple, dict, Any]:
    dense = (np.where(np.abs(A) < 0.7, 0.0, A) for A in (D.X, D.queries))
    X, q = map(sp.csr_matrix, dense)
    return (X, D.labels), {}, q


def weighted(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X, D.labels), {"sample_weight": D.weight}, D.queries


def weighted_targets(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X, D.targets), {"sample_weight": D.weight}, D.queries


def given_gram(D: Data) -> tuple[tuple, dict, Any]:
    return (gram_of(D.X, D.X), D.labels), {}, gram_of(D.queries, D.X)


def given_gram_targets(D: Data) -> tuple[tuple, dict, Any]:
    return (gram_of(D.X, D.X), D.targets), {}, gram_of(D.queries, D.X)


def given_gram_alone(D: Data) -> tuple[tuple, dict, Any]:
    return (gram_of(D.X, D.X),), {}, gram_of(D.queries, D.X)


def one_query(D: Data) -> tuple[tuple, dict, Any]:
    return (D.X, D.labels), {}, D.queries[:1]


def same(name: str, library: Any, given: Callable, method: str = "predict", largest: int = 20_000,
         label: str = "", **parameters: Any) -> Use:  # fmt: skip
    """The class of one name in both libraries, with the same parameters."""
    ours, theirs = getattr(mercer, name), getattr(library, name)
    words = ", ".join(
        [*filter(None, [label]), *(f"{k}={_shown(v)}" for k, v in parameters.items())]
    )
    return Use(
        f"{name}({words})",
        lambda: ours(**parameters),
        lambda: theirs(**parameters),
        given,
        method,
        largest,
    )


def _shown(value: Any) -> str:
    return getattr(value, "__name__", repr(value))


RIDGE: dict = {"kernel": "rbf", "gamma": 0.1, "alpha": 0.1}


def uses() -> Iterator[Use]:
    svc = [
        {},
        {"C": 100.0},
        {"kernel": "linear"},
        {"kernel": "poly"},
        {"kernel": "sigmoid", "gamma": 0.01},
    ]
    for parameters in svc:
        if parameters.get("kernel") == "sigmoid":
            yield Use(
                "SVC(kernel='sigmoid')",
                lambda: mercer.SVC(kernel="sigmoid", gamma=0.01, indefinite="clip"),
                lambda: svm.SVC(kernel="sigmoid", gamma=0.01),
                labelled,
                largest=2000,
            )
            continue
        yield same("SVC", svm, labelled, **parameters)
    yield same("SVC", svm, single, label="float32")
    yield same("SVC", svm, sparse, label="sparse")
    yield same("SVC", svm, weighted, label="weights")
    yield same("SVC", svm, one_query, label="one query")
    yield same("SVC", svm, given_gram, kernel="precomputed", largest=5000)
    yield same("SVC", svm, labelled, kernel=gram_of, largest=5000)
    yield same("NuSVC", svm, labelled, nu=0.3, largest=5000)
    yield same("OneClassSVM", svm, alone, nu=0.1)
    yield same("SVR", svm, targeted)
    yield same("SVR", svm, targeted, C=100.0, largest=5000)
    yield same("SVR", svm, single_targets, label="float32")
    yield same("SVR", svm, weighted_targets, label="weights")
    yield same("SVR", svm, given_gram_targets, kernel="precomputed", largest=5000)
    yield same("NuSVR", svm, targeted, nu=0.3, largest=5000)
    yield same("KernelRidge", kernel_ridge, targeted, largest=5000, **RIDGE)
    yield same("KernelRidge", kernel_ridge, single_targets, label="float32", largest=5000, **RIDGE)
    yield same(
        "KernelRidge", kernel_ridge, weighted_targets, label="weights", largest=5000, **RIDGE
    )
    yield same(
        "KernelRidge",
        kernel_ridge,
        given_gram_targets,
        largest=5000,
        kernel="precomputed",
        alpha=0.1,
    )
    yield same("KernelRidge", kernel_ridge, targeted, largest=200, kernel=row_pair, alpha=0.1)
    yield same("KernelRidge", kernel_ridge, targeted, largest=20_000, kernel="linear")
    for k in (None, 2, 20):
        yield same(
            "KernelPCA", decomposition, alone, "transform", 5000 if k else 2000,
            n_components=k, kernel="rbf", gamma=0.1,
        )  # fmt: skip
    yield same(
        "KernelPCA",
        decomposition,
        given_gram_alone,
        "transform",
        2000,
        n_components=5,
        kernel="precomputed",
    )
    yield same("KernelDensity", neighbors, alone, "score_samples", bandwidth=0.5)
    yield same(
        "KernelDensity", neighbors, alone, "score_samples", bandwidth=0.5, kernel="epanechnikov"
    )


def measured(use: Use, n: int, repeats: int) -> tuple[float, float, float, float]:
    """Seconds to fit and to predict, ours and theirs."""
    arguments, named, queries = use.given(data(n))
    fits = [lambda make=make: make().fit(*arguments, **named) for make in (use.ours, use.theirs)]
    first = in_turns(1, *fits)
    left = repeats if max(t for t, _ in first) < LONG_SECONDS else 1
    left *= 4 if n <= 200 else 1
    (fit_ours, ours), (fit_theirs, theirs) = in_turns(left, *fits)
    predictions = [
        lambda model=model: getattr(model, use.method)(queries) for model in (ours, theirs)
    ]
    (predict_ours, _), (predict_theirs, _) = in_turns(left + 1, *predictions)
    return fit_ours, fit_theirs, predict_ours, predict_theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="50,200,2000,5000,20000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds")
    given = parser.parse_args()
    if given.cpu:
        count_processor_time()
    warnings.simplefilter("ignore")
    print(machine())
    for use in uses():
        if given.only not in use.name:
            continue
        for n in map(int, given.sizes.split(",")):
            if n > use.largest:
                continue
            fo, ft, po, pt = measured(use, n, given.repeats)
            print(
                f"{use.name:<44} n = {n:>6,}  fit {1e3 * fo:9.2f} / {1e3 * ft:9.2f} ms "
                f"{ft / fo:6.2f}x  predict {1e3 * po:8.2f} / {1e3 * pt:8.2f} ms {pt / po:6.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
