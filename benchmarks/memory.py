"""Memory that a fit and a prediction take, for every estimator at growing n.

    python benchmarks/memory.py [--n 500 1000 2000 4000] [--only SVC KernelRidge ...]

Each fit has a process of its own; the figure is the largest memory of the process (MiB), less
what it had when the points were there. Of n points with 10 float64 features, a Gram matrix takes
8 n² bytes: 122 MiB for 4000.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

SETTINGS = {
    "AutoKernelClassifier": "",
    "AutoKernelRegressor": "",
    "KernelCCA": "regularization=0.1",
    "KernelCentroidClassifier": "kernel='rbf'",
    "KernelDensity": "bandwidth='scott'",
    "KernelMachineClassifier": "kernel='rbf', alpha=0.1",
    "KernelMachineRegressor": "kernel='rbf', alpha=0.1, loss='huber'",
    "KernelPCA": "kernel='rbf', n_components=10",
    "KernelPerceptron": "kernel='rbf', random_state=0",
    "KernelRidge": "kernel='rbf', alpha=0.1",
    "KernelRidgeCV": "kernel='rbf'",
    "KernelRidgeClassifier": "kernel='rbf', alpha=0.1",
    "KernelSGDClassifier": "kernel='rbf', alpha=0.01, random_state=0",
    "LocalLinearRegressor": "bandwidth=1.0",
    "NadarayaWatsonClassifier": "bandwidth=1.0",
    "NadarayaWatsonRegressor": "bandwidth=1.0",
    "NuSVC": "nu=0.3",
    "NuSVR": "",
    "OneClassSVM": "nu=0.2",
    "SVC": "",
    "SVR": "",
}
SCRIPT = """
import resource, sys, warnings
import numpy as np
from sklearn.base import is_classifier
import mercer
warnings.simplefilter("ignore")

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def fit(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    model = mercer.{name}({settings})
    if "{name}" == "KernelCCA":
        given = X, X[:, :3] ** 2
    elif "{name}" in ("KernelPCA", "KernelDensity", "OneClassSVM"):
        given = (X,)
    else:
        given = X, (y > 0).astype(int) if is_classifier(model) else y
    before = most()
    model.fit(*given)
    for method in ("predict", "transform", "score_samples"):
        if hasattr(model, method):
            getattr(model, method)(X[:100])
            break
    return most() - before

fit(50)  # what is imported late is not the fit's
print(fit({n}))
"""


def measured(name: str, n: int) -> float:
    script = SCRIPT.format(name=name, settings=SETTINGS[name], n=n)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return float(ended.stdout) if ended.returncode == 0 else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    parser.add_argument("--only", nargs="+", default=sorted(SETTINGS), choices=sorted(SETTINGS))
    asked = parser.parse_args()
    print("| MiB at n = | " + " | ".join(f"{n:,}" for n in asked.n) + " |")
    print("|---|" + "---|" * len(asked.n))
    for name in asked.only:
        found = [f"{measured(name, n):.0f}" for n in asked.n]
        print(f"| {name} | " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
