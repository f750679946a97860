"""Estimators on a GPU: kernel ridge by factorisation and by products, and exact densities.

    python benchmarks/gpu_estimators.py [--small]

Each is fitted twice, the second time with its kernels compiled. Needs torch with a CUDA device,
Triton and scikit-learn; not the native core.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("MERCER_ISA", "python")
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch

from mercer import KernelDensity, KernelRidge
from mercer import kernels as K


def told(what: str, **more) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def seconds(f) -> tuple[float, object]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = f()
    torch.cuda.synchronize()
    return round(time.perf_counter() - start, 3), found


def data(n: int, d: int, dtype=torch.float32):
    generator = torch.Generator(device="cuda").manual_seed(0)
    X = torch.randn((n, d), generator=generator, device="cuda", dtype=dtype)
    noise = torch.randn(n, generator=generator, device="cuda", dtype=dtype)
    return X, torch.sin(X[:, 0]) * X[:, 1] + torch.cos(X[:, 2]) + 0.1 * noise


def ridge(n: int, d: int, dtype, **parameters) -> None:
    X, y = data(n, d, dtype)
    train, test = slice(0, n - n // 10), slice(n - n // 10, n)
    for time_of in ("first", "second"):
        model = KernelRidge(1.0, kernel=K.RBF(1 / d), **parameters)
        fit, _ = seconds(lambda: model.fit(X[train], y[train]))
        predict, found = seconds(lambda: model.predict(X[test]))
        error = float(((found - y[test]) ** 2).mean())
        told(f"KernelRidge, {time_of}", n=len(X[train]), d=d, dtype=str(dtype), fit_s=fit,
             predict_s=predict, mse=round(error, 5), gap=model.result_.gap,
             bound=model.result_.bound, n_iter=model.n_iter_, status=model.result_.status.name,
             method=model.result_.method,
             free_gib=round(torch.cuda.mem_get_info()[0] / 2**30, 1))  # fmt: skip
        torch.cuda.empty_cache()


def density(n: int, d: int, bandwidth: float) -> None:
    X, _ = data(n, d)
    model = KernelDensity(bandwidth=bandwidth).fit(X)
    first, _ = seconds(lambda: model.score_samples(X))
    evaluate, found = seconds(lambda: model.score_samples(X))
    exact = KernelDensity(bandwidth=bandwidth).fit(X.double()).score_samples(X[:256].double())
    error = float((found[:256].double() - exact).abs().max())
    told("KernelDensity", n=n, d=d, bandwidth=bandwidth, first_s=first, seconds=evaluate,
         error=error)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--profile", action="store_true", help="where the last fit's time goes")
    options = parser.parse_args()
    small = options.small
    print(torch.cuda.get_device_name(), torch.__version__)
    parts = [
        lambda: ridge(12_000 if small else 11_112, 10, torch.float64, solver="cholesky"),
        lambda: ridge(12_000 if small else 44_445, 10, torch.float32, solver="cholesky"),
        lambda: ridge(12_000 if small else 111_112, 10, torch.float32, solver="pcg", tol=1e-6),
        lambda: density(20_000 if small else 1_000_000, 3, 0.1),
        lambda: density(20_000 if small else 200_000, 3, 1.0),
        lambda: ridge(12_000 if small else 1_111_112, 10, torch.float32, solver="pcg", tol=1e-4,
                      max_time=90),
    ]  # fmt: skip
    if options.profile:
        cProfile.runctx("parts[-1]()", {"parts": parts}, {}, sort="cumtime")
        return
    for part in parts:
        try:
            part()
        except Exception as problem:
            told(f"{type(problem).__name__}: {str(problem)[:400]}")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
