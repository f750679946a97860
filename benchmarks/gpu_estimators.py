"""Estimators on a GPU: kernel ridge, its cross-validation, local lines, correlations, densities.

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

from mercer import KernelCCA, KernelDensity, KernelRidge, KernelRidgeCV, LocalLinearRegressor, gram
from mercer import kernels as K


def report(what: str, **more) -> None:
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
        report(f"KernelRidge, {time_of}", n=len(X[train]), d=d, dtype=str(dtype), fit_s=fit,
             predict_s=predict, mse=round(error, 5), gap=model.result_.gap,
             bound=model.result_.bound, n_iter=model.n_iter_, status=model.result_.status.name,
             method=model.result_.method,
             free_gib=round(torch.cuda.mem_get_info()[0] / 2**30, 1))  # fmt: skip
        torch.cuda.empty_cache()


def cross_validated(n: int, d: int) -> None:
    X, y = data(n, d, torch.float64)
    for time_of in ("first", "second"):
        model = KernelRidgeCV([10.0**k for k in range(-4, 5)], kernel=K.RBF(1 / d))
        fit, _ = seconds(lambda: model.fit(X, y))
        report(f"KernelRidgeCV of 9 alphas, {time_of}", n=n, d=d, fit_s=fit, alpha=model.alpha_,
             left_out_mse=-model.best_score_, gap=model.result_.gap)  # fmt: skip
        torch.cuda.empty_cache()


def lines(n: int, d: int, bandwidth: float) -> None:
    X, y = data(n, d)
    for time_of in ("first", "second"):
        model = LocalLinearRegressor(bandwidth=bandwidth)
        fit, _ = seconds(lambda: model.fit(X, y))
        left_out = float(((model.loo_predictions_ - y) ** 2).mean())
        report(f"LocalLinearRegressor, {time_of}", n=n, d=d, fit_s=fit, left_out_mse=left_out)


def correlations(n: int) -> None:
    X, y = data(n, 4)
    Y = torch.stack([y, X[:, 3].cos()], dim=1)
    for time_of in ("first", "second"):
        model = KernelCCA(2, kernel=K.RBF(0.1), regularization=1e-3)
        fit, _ = seconds(lambda: model.fit(X, Y))
        test, found = seconds(lambda: model.permutation_test(19, random_state=0))
        report(f"KernelCCA, {time_of}", n=n, fit_s=fit, test_s=test, pvalue=found.pvalue,
             correlations=model.canonical_correlations_.tolist(), gap=model.result_.gap,
             bound=model.result_.bound, method=model.result_.method)  # fmt: skip
        torch.cuda.empty_cache()


def slopes(n: int, d: int) -> None:
    X, y = data(n, d)
    operator = gram(K.RBF(1 / d, scales=[1.0] * d), X, store=False)
    for time_of in ("first", "second"):
        took, found = seconds(lambda: operator.gradient(y, y))
        report(f"gradient by {d + 1} hyperparameters, {time_of}", n=n, seconds=took,
             gamma=found["gamma"])  # fmt: skip


def density(n: int, d: int, bandwidth: float) -> None:
    X, _ = data(n, d)
    model = KernelDensity(bandwidth=bandwidth).fit(X)
    first, _ = seconds(lambda: model.score_samples(X))
    evaluate, found = seconds(lambda: model.score_samples(X))
    exact = KernelDensity(bandwidth=bandwidth).fit(X.double()).score_samples(X[:256].double())
    error = float((found[:256].double() - exact).abs().max())
    report("KernelDensity", n=n, d=d, bandwidth=bandwidth, first_s=first, seconds=evaluate,
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
        lambda: cross_validated(4_001 if small else 10_001, 10),
        lambda: slopes(10_001 if small else 100_001, 10),
        lambda: lines(10_001 if small else 100_001, 3, 0.3),
        lambda: correlations(10_001 if small else 100_001),
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
            report(f"{type(problem).__name__}: {str(problem)[:400]}")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
