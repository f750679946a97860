"""Support vector machines on a GPU, beside scikit-learn's and mercer's own on the host.

    python benchmarks/gpu_svm.py --data DIR            # a9a and MNIST, all rows
    python benchmarks/gpu_svm.py --data DIR --peers    # scikit-learn too, which takes minutes
    python benchmarks/gpu_svm.py path million          # made-up points

DIR has a9a.svm.gz, a9a.t.svm.gz and mnist.npz. Each is fitted twice, the second time with its
kernels compiled. Objectives and violations are measured in float64. The peers run in processes of
their own, side by side; mercer on the host only where its native core has been built.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("MERCER_ISA", "python")
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np

HOST = {"sklearn", "mercer"}
PRICES = np.logspace(-3, 3, 49)


def report(what: str, **more) -> None:
    print(json.dumps({"what": what, **more}), flush=True)


def load(name: str, folder: Path) -> tuple[np.ndarray, ...]:
    """Training points and labels, and those to predict."""
    if name == "mnist":
        with np.load(folder / "mnist.npz") as file:
            return (
                file["X_train"].reshape(-1, 784).astype(np.float32) / 255,
                file["y_train"],
                file["X_test"].reshape(-1, 784).astype(np.float32) / 255,
                file["y_test"],
            )
    from sklearn.datasets import load_svmlight_files

    X, y, T, t = load_svmlight_files([folder / "a9a.svm.gz", folder / "a9a.t.svm.gz"])
    return X.toarray().astype(np.float32), y, T.toarray().astype(np.float32), t


def on_host(library: str, name: str, folder: Path) -> None:
    """One fit on the processors; mercer's quick one twice, as on the device."""
    if library == "sklearn":
        from sklearn.svm import SVC
    else:
        os.environ.pop("MERCER_ISA")
        from mercer import SVC, core

        library = f"mercer on the host ({core.level()}, {os.cpu_count()} cores)"
    X, y, T, t = load(name, folder)
    if library != "sklearn":
        SVC(cache_size=2000).fit(X, y)
    begun = time.perf_counter()
    model = SVC(cache_size=2000).fit(X, y)
    fitted = time.perf_counter()
    share = float((model.predict(T) == t).mean())
    report(f"{name}, {library}", fit_s=round(fitted - begun, 2),
         predict_s=round(time.perf_counter() - fitted, 2), right=round(share, 4),
         support=len(model.support_))  # fmt: skip


def solutions(model) -> list:
    value = model.result_.value
    return list(value) if isinstance(value, tuple) else [value]


def seconds(f):
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = f()
    torch.cuda.synchronize()
    return round(time.perf_counter() - begun, 3), found


def on_device(name: str, folder: Path) -> None:
    import torch

    from mercer import SVC

    X, y, T, t = load(name, folder)
    X, T = (torch.as_tensor(A, device="cuda") for A in (X, T))
    for which in ("first", "second"):
        fit, model = seconds(lambda: SVC().fit(X, y))
        predict, found = seconds(lambda: model.predict(T))
        report(f"{name}, GPU, {which}", fit_s=fit, predict_s=predict,
             right=round(float((found == t).mean()), 4), support=len(model.support_),
             violation=max(s.violation for s in solutions(model)),
             objective=sum(s.objective for s in solutions(model)), gap=model.dual_gap_,
             status=model.result_.status.name)  # fmt: skip


def path() -> None:
    """49 values of C with 5 folds, 10,000 points of two classes that overlap."""
    import torch

    from mercer import SVC

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 10_000)
    X = rng.normal(size=(2, 10, 10))[y, rng.integers(0, 10, len(y))]
    X = torch.as_tensor(X + rng.normal(size=X.shape), device="cuda", dtype=torch.float32)
    for which in ("first", "second"):
        took, found = seconds(lambda: SVC().path(X, y, PRICES, cv=5))
        report(f"path, {which}", seconds=took, best=found.best.C, score=float(found.scores.max()),
             gap=float(found.dual_gaps.max()),
             violation=max(m.result_.value.violation for m in found.machines),
             converged=all(m.result_.status.ok for m in found.machines))  # fmt: skip


def million() -> None:
    """A million points in 100 features, whose Gram matrix is never stored."""
    import torch

    from mercer import SVC

    generator = torch.Generator(device="cuda").manual_seed(0)
    X = torch.randn((1_000_000, 100), generator=generator, device="cuda")
    noise = torch.randn(len(X), generator=generator, device="cuda")
    y = ((X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * noise) > 0).int()
    fit, model = seconds(lambda: SVC().fit(X, y))
    report("million", fit_s=fit, support=len(model.support_), gap=model.dual_gap_,
         violation=model.result_.value.violation, steps=model.result_.n_iter)  # fmt: skip


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[1] in HOST:
        return on_host(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["a9a", "mnist", "path", "million", []])
    parser.add_argument("--data", type=Path, default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    parts = options.parts or ["a9a", "mnist"]
    for name in parts:
        if name in ("a9a", "mnist"):
            on_device(name, options.data)
        else:
            {"path": path, "million": million}[name]()
    if not options.peers:
        return None
    sets = [name for name in parts if name in ("a9a", "mnist")]
    for name in sets:
        subprocess.run([sys.executable, __file__, "mercer", name, str(options.data)], check=False)
    # scikit-learn takes one core for each.
    running = [
        subprocess.Popen([sys.executable, __file__, "sklearn", name, str(options.data)])
        for name in sets
    ]
    for process in running:
        process.wait()
    return None


if __name__ == "__main__":
    main()
