"""Gaussian processes compared with scikit-learn and GPyTorch in one run: accuracy and time.

    python benchmarks/gaussian_process.py fit                 # scikit-learn: whole fits
    python benchmarks/gaussian_process.py evidence            # GPyTorch: evidence and gradient
    python benchmarks/gaussian_process.py memory
    python benchmarks/gaussian_process.py iterative --data DIR   # kin40k.npz: arrays X and y
    python benchmarks/gaussian_process.py exact --data DIR       # the exact evidence of the same
    python benchmarks/gaussian_process.py inducing --data DIR    # GPyTorch's SGPR on the same rows
    python benchmarks/gaussian_process.py classes

``evidence`` and ``inducing`` need GPyTorch. ``--sizes`` sets the numbers of points. ``--cpu``
counts CPU seconds, for a machine that others use; set OMP_NUM_THREADS=1 with it.
"""

from __future__ import annotations

import argparse
import os
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from timing import count_processor_time, in_turns, machine, timed

from mercer import GaussianProcessClassifier, GaussianProcessRegressor, core
from mercer import kernels as K
from mercer.kernels.hyperparameters import learnable
from mercer.solvers.evidence.covariance import of_kernel
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.iterative import IterativeEngine
from mercer.solvers.evidence.problem import EvidenceProblem
from mercer.solvers.evidence.some_rows import of_some_rows

N_TRAIN = 30_000


def made_up(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points in a cube and a smooth function of four of their features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    f = np.sin(1.5 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * np.tanh(X[:, 2] * X[:, 3])
    return X, f + 0.1 * rng.normal(size=n)


def kin40k(folder: str) -> tuple[np.ndarray, ...]:
    """Training and test rows, standardised by those of training."""
    path = Path(folder) / "kin40k.npz"
    file = np.load(path if path.exists() else Path(folder) / "tabular" / "kin40k.npz")
    X, y = file["X"].astype(float), file["y"].astype(float).ravel()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    X = (X - X[:N_TRAIN].mean(0)) / X[:N_TRAIN].std(0)
    y = (y - y[:N_TRAIN].mean()) / y[:N_TRAIN].std()
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def peak() -> float:
    """Most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def errors(mean: np.ndarray, std: np.ndarray, y: np.ndarray) -> str:
    """Root mean squared error and negative log density of targets."""
    density = 0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)
    return f"RMSE {np.sqrt(np.mean((y - mean) ** 2)):.4f}, NLPD {density.mean():.4f}"


def fit(options: argparse.Namespace) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor as Theirs
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.ones(8)) + WhiteKernel(0.1)
    own = 1.0 * K.RBF(gamma=0.5, scales=np.ones(8))
    for n in options.sizes or [1000, 2000]:
        X, y = made_up(n + 2000)
        train, test = (X[:n], y[:n]), (X[n:], y[n:])
        models = {
            "mercer, scikit-learn's kernel": GaussianProcessRegressor(kernel),
            "mercer, own kernel": GaussianProcessRegressor(own),
            "scikit-learn": Theirs(kernel),
        }
        found = [timed(lambda m=m, t=train: m.fit(*t), 1) for m in models.values()]
        slow = found[-1][0]
        for name, (seconds, model) in zip(models, found, strict=True):
            print(
                f"fit, n = {n}, {name}: {seconds:.2f} s, ratio {slow / seconds:.1f}, evidence "
                f"{model.log_marginal_likelihood_value_:.3f}, "
                f"{errors(*model.predict(test[0], return_std=True), test[1])}",
                flush=True,
            )


def problem_of(X: np.ndarray, y: np.ndarray, kernel: Any, noise: float) -> EvidenceProblem:
    """The evidence with amplitude, one scale per feature and noise to learn."""
    covariance = of_kernel(kernel, learnable(kernel), noise=noise)
    return EvidenceProblem(covariance, X, y[:, None], np.zeros(len(y)))


def evidence(options: argparse.Namespace) -> None:
    """One value with its gradient at the same hyperparameters; two matrices of numbers differ."""
    import torch

    torch.set_num_threads(core.threads(2**40, 1))
    kernel = 1.0 * K.Matern(2.5, scales=np.full(8, 1.5))
    for n in options.sizes or [2000, 5000]:
        X, y = made_up(n)
        problem = problem_of(X, y, kernel, 0.05)
        theta, engine = problem.covariance.theta, ExactEngine(problem)
        routines = [lambda e=engine, t=theta: e.evidence(t)]
        names = ["mercer, float64"]
        for dtype in (torch.float64, torch.float32):
            routines.append(gpytorch_evidence(X, y, dtype))
            names.append(f"GPyTorch, {str(dtype).removeprefix('torch.')}")
        found = in_turns(options.repeats, *routines)
        values = [(each.value, each.gradient) for _, each in found[:1]]
        values += [each for _, each in found[1:]]
        slow, truth = found[1][0], values[1]
        for name, (seconds, _), (value, slope) in zip(names, found, values, strict=True):
            off = np.abs(slope - truth[1]).max()
            print(
                f"evidence and gradient, n = {n}, {name}: {seconds:.3f} s, ratio "
                f"{slow / seconds:.2f}, evidence {value:.4f}, gradient off float64 by "
                f"{off / np.abs(truth[1]).max():.0e}",
                flush=True,
            )


def gpytorch_evidence(X: Any, y: Any, dtype: Any) -> Any:
    """A routine for log p(y) and its gradient by logarithms of the same numbers, by Cholesky."""
    import gpytorch
    import torch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(X), self.covar_module(X)
            )

    X, y = torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(X, y, likelihood).to(dtype)
    likelihood.noise = 0.05
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = 1.5
    model.train()
    likelihood.train()
    target = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    scale, base = model.covar_module, model.covar_module.base_kernel
    raw = [
        (scale.raw_outputscale, scale.raw_outputscale_constraint),
        (base.raw_lengthscale, base.raw_lengthscale_constraint),
        (likelihood.noise_covar.raw_noise, likelihood.noise_covar.raw_noise_constraint),
    ]

    def run() -> tuple[float, np.ndarray]:
        model.zero_grad()
        settings: Any = gpytorch.settings
        exact = settings.max_cholesky_size(10**6)
        products = settings.fast_computations(False, False, False)
        with exact, products, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = target(model(X), y) * len(y)
            value.backward()
        slopes = []
        for number, constraint in raw:
            real = number.detach().clone().requires_grad_()
            (rate,) = torch.autograd.grad(constraint.transform(real).log().sum(), real)
            slopes.append((number.grad / rate).double().ravel().numpy())
        return float(value.detach()), np.concatenate(slopes)

    return run


def memory(options: argparse.Namespace) -> None:
    (n,) = options.sizes or [5000]
    X, y = made_up(n)
    own = 1.0 * K.Matern(2.5, scales=np.ones(8))
    GaussianProcessRegressor(own).fit(X[:50], y[:50]).predict(X[:50], return_std=True)
    before = peak()
    seconds, model = timed(lambda: GaussianProcessRegressor(own, max_time=100.0).fit(X, y))
    print(
        f"memory, n = {n}, {len(model.hyperparameters_)} hyperparameters: "
        f"{(peak() - before) / (8 * n**2):.2f} matrices of n x n, {seconds:.0f} s, "
        f"{model.result_.method}"
    )


def iterative_problem(options: argparse.Namespace) -> EvidenceProblem:
    """kin40k at the hyperparameters of the highest exact evidence of 1,000 rows."""
    X, y, *_ = kin40k(options.data)
    kernel = 1.0 * K.Matern(2.5, scales=np.ones(8))
    return of_some_rows(problem_of(X, y, kernel, 0.1))


def iterative(options: argparse.Namespace) -> None:
    problem = iterative_problem(options)
    theta = problem.covariance.theta
    for gradient in (False, True):
        engine = IterativeEngine(problem)
        seconds, found = timed(lambda g=gradient, e=engine: e.evidence(theta, gradient=g))
        words = "evidence and gradient" if gradient else "evidence"
        print(
            f"iterative, {len(problem.Y)} rows: {words} {seconds:.1f} s, {found.value:.1f} with a "
            f"standard error of {found.standard_error:.1f}, between {found.lower:.0f} and "
            f"{found.upper:.0f}, {peak() / 2**30:.2f} GB at most",
            flush=True,
        )


def exact(options: argparse.Namespace) -> None:
    problem = iterative_problem(options)
    engine = ExactEngine(problem)
    seconds, found = timed(lambda: engine.evidence(problem.covariance.theta, gradient=False))
    print(f"exact, {len(problem.Y)} rows: evidence {found.value:.1f}, {seconds:.0f} s")


def inducing(options: argparse.Namespace) -> None:
    X, y, X_test, y_test = kin40k(options.data)
    kernel = 1.0 * K.RBF(gamma=0.5, scales=np.ones(8))
    model = GaussianProcessRegressor(kernel, n_inducing=512, random_state=0)
    seconds, model = timed(lambda: model.fit(X, y))
    predicted: Any = model.predict(X_test, return_std=True)
    print(
        f"inducing, {len(X)} rows, mercer: {seconds:.1f} s, "
        f"{errors(*predicted, y_test)}, evidence between "
        f"{model.evidence_.lower:.0f} and {model.evidence_.upper:.0f}; {model.result_.method}",
        flush=True,
    )
    if options.peers:
        sgpr(X, y, X_test, y_test, options.steps)


def sgpr(X: Any, y: Any, X_test: Any, y_test: np.ndarray, steps: int) -> None:
    """GPyTorch's regression with 512 inducing points, as in its documentation, in float32."""
    import gpytorch
    import torch

    torch.set_num_threads(core.threads(2**40, 1))
    torch.manual_seed(0)
    X, y, X_test = (torch.tensor(a, dtype=torch.float32) for a in (X, y, X_test))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                gpytorch.kernels.ScaleKernel(base),
                inducing_points=X[torch.randperm(len(X))[:512]].clone(),
                likelihood=likelihood,
            )

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(X), self.covar_module(X)
            )

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(X, y, likelihood)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    target = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def run() -> None:
        model.train()
        likelihood.train()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = -target(model(X), y)
            loss.backward()
            optimizer.step()

    seconds, _ = timed(run)
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(X_test))
        words = errors(found.mean.double().numpy(), found.stddev.double().numpy(), y_test)
    print(f"inducing, {len(X)} rows, GPyTorch, {steps} steps: {seconds:.1f} s, {words}")


def classes(options: argparse.Namespace) -> None:
    from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    for n in options.sizes or [500, 1000]:
        X, y = made_up(n + 2000)
        labels, kernel = y > 0, ConstantKernel(1.0) * RBF(np.ones(8))
        models = GaussianProcessClassifier(kernel), Theirs(kernel)
        found = [timed(lambda m=m, n=n: m.fit(X[:n], labels[:n])) for m in models]
        for name, (seconds, model) in zip(("mercer", "scikit-learn"), found, strict=True):
            print(
                f"classes, n = {n}, {name}: {seconds:.2f} s, ratio {found[1][0] / seconds:.1f}, "
                f"evidence {model.log_marginal_likelihood_value_:.3f}, accuracy "
                f"{model.score(X[n:], labels[n:]):.4f}",
                flush=True,
            )


PARTS = {f.__name__: f for f in (fit, evidence, memory, iterative, exact, inducing, classes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=sorted(PARTS))
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"))
    parser.add_argument("--sizes", type=int, nargs="*")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="of GPyTorch's optimiser")
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds, on a shared machine")
    options = parser.parse_args()
    if options.cpu:
        count_processor_time()
    print(machine())
    warnings.filterwarnings("ignore", module="sklearn")
    for name in options.parts:
        PARTS[name](options)


if __name__ == "__main__":
    main()
