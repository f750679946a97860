"""Kernel PCA and CCA: mercer beside scikit-learn and cca-zoo, in one run, with the error of both.

    python benchmarks/spectral.py                         # all but the last
    python benchmarks/spectral.py pca denoising           # some
    python benchmarks/spectral.py large --data DIR        # mnist.npz: X_train of shape (60000, 784)
    python benchmarks/spectral.py large --data DIR --rows 15000

Ratios are the peer's time over mercer's, best of the repeats of each, taken in turns. cca-zoo comes
with ``pip install cca-zoo``. ``--cpu`` counts the time of the processor instead, all threads
together, which other work on the machine disturbs less. Peak memory is that of a process of its
own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.linalg
import timing
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from timing import in_turns

from mercer import KernelCCA, KernelPCA
from mercer import kernels as K

try:
    from cca_zoo.nonparametric import KCCA
except ImportError:
    KCCA = None


def pca(repeats: int, n: int = 4000, d: int = 8, k: int = 10) -> None:
    """Few components of stored Gram matrices."""
    X = np.random.default_rng(0).normal(size=(n, d))
    exact = SklearnPCA(k, kernel="rbf", eigen_solver="dense")
    sketch = SklearnPCA(k, kernel="rbf", eigen_solver="randomized", random_state=0)
    ours = KernelPCA(k, kernel="rbf", random_state=0)
    mine, fast = in_turns(max(repeats, 5), lambda: ours.fit(X), lambda: sketch.fit(X))
    [dense] = in_turns(1, lambda: exact.fit(X))
    G = K.RBF(1 / d)(X)
    G -= G.mean(axis=0)
    G -= G.mean(axis=1)[:, None]
    truth = scipy.linalg.eigh(G, subset_by_index=(n - k, n - 1), eigvals_only=True)[::-1]

    def error(model: object) -> float:
        return float(np.max(np.abs(model.eigenvalues_ / truth - 1)))

    print(
        f"KernelPCA, {k} components of {n} x {d}: mercer {mine[0]:.3f} s, eigenvalues right to "
        f"{error(mine[1]):.1e}, largest residual {mine[1].residuals_.max():.1e} "
        f"({mine[1].result_.method}, {mine[1].result_.n_iter} products)"
    )
    for name, (seconds, model) in {"randomized": fast, "dense": dense}.items():
        print(f"  {seconds / mine[0]:.1f} x {name} ({seconds:.2f} s, {error(model):.1e})")


LARGE = """
import resource, sys, time
import numpy as np
from mercer import KernelPCA, kernels
path, n, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = np.load(path)["X_train"][:n].reshape(n, -1).astype(np.float32) / 255
start = time.perf_counter(), time.process_time()
pca = KernelPCA(k, kernel=kernels.RBF(0.02), copy_X=False, random_state=0).fit(X)
wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
values, residuals = pca.result_.value.values, pca.residuals_
print(f"KernelPCA, {k} components of {n} x {X.shape[1]} (MNIST, float32): {wall:.0f} s, "
      f"{cpu:.0f} s of processors, {peak:.2f} GB at most (K alone: {8 * n**2 / 1e9:.0f} GB)")
print(f"  {pca.result_.n_iter} products in float32 and one in float64, {pca.result_.status.name}; "
      f"shares of the variance {pca.explained_variance_ratio_[:3].round(4)} ...")
print("  eigenvalue, and how far one is at most:")
print("  " + ", ".join(f"{v:.4f} ({r:.0e})" for v, r in zip(values, residuals)))
"""


def large(repeats: int, data: Path | None, rows: list[int], k: int = 20) -> None:
    """Components of MNIST without its Gram matrix; the memory is that of the process."""
    if data is None:
        print("large: needs --data, a folder with mnist.npz")
        return
    for n in rows:
        command = [sys.executable, "-c", LARGE, str(data / "mnist.npz"), str(n), str(k)]
        subprocess.run(command, check=True)


def nystrom(repeats: int, n: int = 200_000, d: int = 10, m: int = 500, k: int = 10) -> None:
    """Components on centres: eigenvalues are no larger than the exact ones, so more is nearer."""
    X = np.random.default_rng(0).normal(size=(n, d))
    ours = KernelPCA(k, kernel=K.RBF(1 / d), eigen_solver="nystrom", n_centers=m, random_state=0)
    features = Nystroem(gamma=1 / d, n_components=m, random_state=0)
    theirs = make_pipeline(features, PCA(k, svd_solver="covariance_eigh"))
    mine, other = in_turns(1, lambda: ours.fit(X), lambda: theirs.fit(X))
    found = mine[1].eigenvalues_, other[1][-1].explained_variance_ * (n - 1)
    print(
        f"KernelPCA, {k} components of {n} x {d} on {m} centres: mercer {mine[0]:.1f} s, "
        f"Nystroem + PCA {other[0]:.1f} s, {other[0] / mine[0]:.1f} x; eigenvalues add up to "
        f"{found[0].sum():.0f} and {found[1].sum():.0f}; the bound: none of mercer's is "
        f"{mine[1].residuals_[0]:.0f} low"
    )


def two_views(n: int, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A hidden coordinate, squared in one view and plain in the other, among noise."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, size=(n, 1))
    X = np.hstack([t**2 + 0.3 * rng.normal(size=(n, 1)), rng.normal(size=(n, d - 1))])
    Y = np.hstack([t + 0.3 * rng.normal(size=(n, 1)), rng.normal(size=(n, d - 1))])
    return X, Y


def correlations(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(A.T, B.T, strict=True)])


def cca(repeats: int, n: int = 2000, rho: float = 0.01, k: int = 3) -> None:
    """Canonical correlations beside cca-zoo at the same regularisation."""
    for d, gamma in ((3, 0.2), (8, 1 / 8)):
        X, Y = two_views(n, d)
        routines = [
            lambda X=X, Y=Y, gamma=gamma: KernelCCA(k, gamma=gamma, regularization=rho).fit(X, Y)
        ]
        if KCCA is not None:
            # (1 - c) K² / (n - 1) + c K, c chosen so that it is proportional to K² + rho tr(K) K.
            shrinkage = []
            for view in (X, Y):
                G = K.RBF(gamma)(view)
                ratio = rho * (np.trace(G) - n * G.mean()) / (n - 1)
                shrinkage.append(float(ratio / (1 + ratio)))
            peer = KCCA(k, kernel="rbf", gamma=gamma, shrinkage=shrinkage)
            routines.append(lambda X=X, Y=Y, peer=peer: peer.fit([X, Y]))
        found = in_turns(repeats, *routines)
        model = found[0][1]
        line = f"KernelCCA, n = {n}, d = {d}: mercer {found[0][0]:.2f} s ({model.result_.method}"
        bound = model.result_.bound
        line += ")" if bound is None else f", correlations within {bound:.0e} of the whole Gram's)"
        if KCCA is not None:
            mine = correlations(*model.transform(X, Y))
            theirs = correlations(*found[1][1].transform([X, Y]))
            line += f", cca-zoo {found[1][0]:.2f} s: {found[1][0] / found[0][0]:.1f} x; "
            line += f"correlations {mine.round(6)}, differing by {np.abs(mine - theirs).max():.0e}"
        print(line, flush=True)


def many(repeats: int, n: int = 20_000) -> None:
    """Canonical correlations of many points, with their permutation test."""
    X, Y = two_views(n + 5000)
    new = X[n:], Y[n:]
    X, Y = X[:n], Y[:n]
    [(seconds, model)] = in_turns(1, lambda: KernelCCA(2, gamma=0.2, regularization=0.01).fit(X, Y))
    [(testing, test)] = in_turns(1, lambda: model.permutation_test(99, random_state=0))
    print(
        f"KernelCCA, n = {len(X)}: {seconds:.1f} s ({model.result_.method}), correlations "
        f"{model.canonical_correlations_.round(4)}, bound {model.result_.bound:.0e}; on new points "
        f"{model.score(*new):.4f}; 99 permutations {testing:.1f} s, p = {test.pvalue:.2f}"
    )


def denoising(repeats: int) -> None:
    """Digits from noisy ones: squared errors of pre-images, on digits not seen before."""
    X = load_digits().data / 16
    noisy = X + 0.25 * np.random.default_rng(0).normal(size=X.shape)
    train, test = slice(0, 1000), slice(1000, None)
    print(f"mean squared error of the noisy digits: {np.mean((noisy - X)[test] ** 2):.5f}")
    for alpha in (5e-3, 1e-2, 0.1):
        settings = {"kernel": "rbf", "gamma": 0.03, "fit_inverse_transform": True, "alpha": alpha}
        models = {
            "scikit-learn": SklearnPCA(32, **settings),
            "mercer, ridge": KernelPCA(32, **settings),
            "mercer, fixed point": KernelPCA(32, pre_image="fixed_point", **settings),
        }
        line = f"alpha = {alpha:g}:"
        for name, model in models.items():
            model.fit(noisy[train])
            cleaned = model.inverse_transform(model.transform(noisy[test]))
            line += f"  {name} {np.mean((cleaned - X[test]) ** 2):.5f}"
        print(line)


PARTS = {
    "pca": pca,
    "nystrom": nystrom,
    "cca": cca,
    "many": many,
    "denoising": denoising,
    "large": large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--rows", type=int, nargs="*", default=[30_000, 60_000])
    parser.add_argument("--cpu", action="store_true")
    chosen = parser.parse_args()
    if chosen.cpu:
        timing.count_processor_time()
    print(f"{timing.machine()}{', processor time' if chosen.cpu else ''}")
    for part in chosen.parts or [name for name in PARTS if name != "large"]:
        print(f"\n{part}: {PARTS[part].__doc__}", flush=True)
        if part == "large":
            large(chosen.repeats, chosen.data and Path(chosen.data), chosen.rows)
        else:
            PARTS[part](chosen.repeats)


if __name__ == "__main__":
    main()
