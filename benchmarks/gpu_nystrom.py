"""Ridge over centres on a GPU, the points in the host's memory.

    python benchmarks/gpu_nystrom.py [--rows 10000000] [--centers 10000] [--map FILE] [--machines]

Centres are drawn uniformly and, second, chosen by pivots on the device among five times as many
points. Every fit is made twice, the second time with its kernels compiled. Printed are seconds, the
relative gradient in float64, the mean squared error on points held out beside that of the noise,
and the most memory of the device in use. ``--machines`` also fits other losses. Needs torch with a
CUDA device, Triton and scikit-learn; not the native core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("MERCER_ISA", "python")
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
import torch

from mercer import KernelMachineClassifier, KernelMachineRegressor, KernelRidge
from mercer import kernels as K

NOISE = 0.1


def report(what: str, **more) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def seconds(f: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = f()
    torch.cuda.synchronize()
    return round(time.perf_counter() - start, 3), found


def data(n: int, d: int, path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """float32 points of the host, in a file if there is a path, and their targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = np.sin(X[:, 0]) * X[:, 1] + np.cos(X[:, 2])
    y += NOISE * rng.standard_normal(n, dtype=np.float32)
    if path is not None:
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
    return X, y


def uniform(X: np.ndarray, y: np.ndarray, M: int, kernel: Any) -> Any:
    drawn = np.sort(np.random.default_rng(1).choice(len(X), M, replace=False))
    return torch.as_tensor(X[drawn], device="cuda")


def pivoted(X: np.ndarray, y: np.ndarray, M: int, kernel: Any) -> Any:
    drawn = np.sort(np.random.default_rng(1).choice(len(X), min(5 * M, len(X)), replace=False))
    some, targets = (torch.as_tensor(A[drawn], device="cuda") for A in (X, y))
    model = KernelRidge(1.0, kernel=kernel, solver="nystrom", n_centers=M, tol=0.5)
    return model.fit(some, targets).X_fit_


def ridge(X: np.ndarray, y: np.ndarray, M: int, alpha: float, held_out: int) -> None:
    for choose in (uniform, pivoted):
        for time_of in ("first", "second"):
            found = one_fit(X, y, M, alpha, held_out, choose)
            report(f"KernelRidge, {choose.__name__} centres, {time_of}", **found)
            torch.cuda.empty_cache()


def one_fit(
    X: np.ndarray, y: np.ndarray, M: int, alpha: float, held_out: int, choose: Callable
) -> dict[str, Any]:
    kernel, n = K.RBF(1 / X.shape[1]), len(X) - held_out
    new, truth = torch.as_tensor(X[n:], device="cuda"), torch.as_tensor(y[n:], device="cuda")
    torch.cuda.reset_peak_memory_stats()
    choice, centres = seconds(lambda: choose(X[:n], y[:n], M, kernel))
    model = KernelRidge(alpha, kernel=kernel, solver="nystrom", centers=centres)
    fit, _ = seconds(lambda: model.fit(X[:n], y[:n]))
    predict, found = seconds(lambda: model.predict(new))
    result = model.result_
    return {
        "n": n, "d": X.shape[1], "M": M, "kept": len(model.X_fit_), "alpha": alpha,
        "choose_s": choice, "fit_s": fit, "predict_s": predict,
        "gap": result.gap, "n_iter": result.n_iter, "status": result.status.name,
        "mse": round(float(((found - truth) ** 2).mean()), 6), "noise": NOISE**2,
        "method": result.method,
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }  # fmt: skip


def machines(X: np.ndarray, y: np.ndarray, held_out: int) -> None:
    """Other losses over a thousand centres, with points of the host and points of the device."""
    n = min(len(X) - held_out, 1_000_000)
    kernel, new = K.RBF(1 / X.shape[1]), torch.as_tensor(X[-held_out:], device="cuda")
    there = torch.as_tensor(X[:n], device="cuda")
    centres = uniform(X[:n], y[:n], 1000, kernel)
    for name, model in (
        ("logistic", KernelMachineClassifier("logistic", kernel=kernel)),
        ("huber", KernelMachineRegressor("huber", kernel=kernel)),
        ("absolute", KernelMachineRegressor("absolute", kernel=kernel)),
    ):
        model.set_params(solver="nystrom", centers=centres)
        targets = y > 0.5 if name == "logistic" else y
        for place, points in (("host", X[:n]), ("device", there)):
            torch.cuda.reset_peak_memory_stats()
            fit, _ = seconds(lambda p=points, m=model, t=targets: m.fit(p, t[:n]))
            report(f"machine, {name}, points of the {place}", n=n, M=1000, fit_s=fit,
                 score=round(float(model.score(new, targets[-held_out:])), 4),
                 gap=model.result_.gap, n_iter=model.n_iter_, status=model.result_.status.name,
                 peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--centers", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--map", metavar="FILE", help="keep the points in this .npy file")
    parser.add_argument("--machines", action="store_true")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    held_out = min(100_000, options.rows // 10)
    X, y = data(options.rows + held_out, options.features, options.map)
    ridge(X, y, options.centers, options.alpha, held_out)
    if options.machines:
        machines(X, y, held_out)


if __name__ == "__main__":
    main()
