"""Kernel k-means and spectral clustering compared with tslearn and scikit-learn.

    python benchmarks/clustering.py [--n 5000] [--repeats 3] [--large 100000]

Both libraries take turns. Next to the best times stand the inertia of both partitions, computed
from the Gram matrix, and their agreement (adjusted Rand index). The last line is a size that the
others cannot store. tslearn is compared where it is installed (pip install tslearn).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score
from timing import in_turns, machine, timed

import mercer
from mercer import kernels as K

KERNEL = K.RBF(0.02)


def inertia(gram: np.ndarray, labels: np.ndarray) -> float:
    found = float(np.trace(gram))
    for label in np.unique(labels):
        own = labels == label
        found -= gram[np.ix_(own, own)].sum() / own.sum()
    return found


def compared(name: str, fits: dict[str, Callable], repeats: int, gram: np.ndarray | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dict(zip(fits, in_turns(repeats, *fits.values()), strict=True))
    first = found["mercer"][1]
    for library, (seconds, labels) in found.items():
        cost = "" if gram is None else f", inertia {inertia(gram, labels):.3f}"
        same = adjusted_rand_score(first, labels)
        print(f"{name}, {library}: {seconds:.3f} s{cost}, agreement {same:.3f}", flush=True)


def k_means(n: int, repeats: int) -> None:
    X, _ = make_blobs(n, 8, centers=10, cluster_std=2.0, random_state=0)
    fits = {"mercer": lambda: mercer.KernelKMeans(10, kernel=KERNEL).fit(X).labels_}
    try:
        from tslearn.clustering import KernelKMeans as Theirs
    except ImportError:
        print("tslearn is not installed")
    else:
        theirs = Theirs(10, kernel="rbf", kernel_params={"gamma": KERNEL.gamma}, random_state=0)
        fits["tslearn"] = lambda: theirs.fit(X[:, :, None]).labels_
    compared(f"k-means, {n:,} points, 10 clusters", fits, repeats, KERNEL(X))


def spectral(n: int, repeats: int) -> None:
    X, _ = make_circles(n, factor=0.4, noise=0.05, random_state=0)
    fits = {
        "mercer": lambda: mercer.KernelSpectralClustering(2, gamma=20.0).fit(X).labels_,
        "scikit-learn": lambda: SpectralClustering(2, gamma=20.0, random_state=0).fit(X).labels_,
    }
    compared(f"spectral, {n:,} points, 2 clusters", fits, repeats, None)


def large(n: int) -> None:
    X, y = make_blobs(n, 8, centers=10, random_state=0)
    model = mercer.KernelKMeans(10, kernel=KERNEL, n_centers=200)
    seconds, fitted = timed(lambda: model.fit(X))
    same = adjusted_rand_score(y, fitted.labels_)
    print(f"k-means on 200 centres, {n:,} points: {seconds:.1f} s, agreement with truth {same:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", type=int, default=100_000)
    options = parser.parse_args()
    print(machine())
    k_means(options.n, options.repeats)
    spectral(options.n, options.repeats)
    large(options.large)
