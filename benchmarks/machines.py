"""Kernel machines and online learners beside their nearest peers, in one run.

    python benchmarks/machines.py                      # all parts
    python benchmarks/machines.py logistic perceptron

Each line has the time of both, their ratio (above 1, mercer is faster), and what both have
reached: the objective, where they minimise the same one, or the loss on new points.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import timing
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    HuberRegressor,
    LogisticRegression,
    Perceptron,
    QuantileRegressor,
    SGDClassifier,
)
from sklearn.metrics import log_loss, mean_pinball_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC
from timing import in_turns

from mercer import (
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPerceptron,
    KernelSGDClassifier,
)
from mercer import kernels as K
from mercer.estimators.losses import Huber

RBF = K.RBF(0.1)
# Chosen as the peer chooses them.
CENTRES: dict[str, Any] = {"n_centers": 500, "centers": "uniform", "random_state": 0}


def made_up(n: int, classes: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten features, of which three tell about the target, or about the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    t = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_t(4, size=n)
    if not classes:
        return X, t
    return X, np.digitize(t, np.quantile(t, np.arange(1, classes) / classes))


def say(title: str, ours: float, theirs: float, peer: str, what: str, a: float, b: float) -> None:
    print(
        f"{title}: mercer {ours:.3f} s, {peer} {theirs:.3f} s, ratio {theirs / ours:.1f}; "
        f"{what} {a:.6g} and {b:.6g}",
        flush=True,
    )


def norm(model: Any) -> float:
    """The squared norm of a machine's weights, over its scores."""
    coef = model.dual_coef_.reshape(len(model.X_fit_), -1)
    return float(np.sum(coef * (model.kernel_(model.X_fit_) @ coef)))


def logistic(options: argparse.Namespace) -> None:
    """Both minimise the logistic loss plus half the squared norm over 500 centres of their own."""
    for classes in (2, 5):
        X, y = made_up(20_000, classes)
        new, truth = made_up(5_000, classes, seed=1)

        def theirs(X=X, y=y):
            features = Nystroem(gamma=0.1, n_components=500, random_state=0)
            return make_pipeline(features, LogisticRegression(max_iter=10_000)).fit(X, y)

        def ours(X=X, y=y):
            return KernelMachineClassifier(kernel=RBF, **CENTRES).fit(X, y)

        (t, a), (s, b) = in_turns(options.repeats, ours, theirs)
        J = log_loss(y, a.predict_proba(X), normalize=False) + 0.5 * norm(a)
        J_peer = log_loss(y, b.predict_proba(X), normalize=False) + 0.5 * np.sum(b[-1].coef_ ** 2)
        title = f"logistic, {classes} classes, n = 20000, 500 centres"
        say(title, t, s, "Nystroem + LogisticRegression", "objective", J, float(J_peer))
        held = [log_loss(truth, model.predict_proba(new)) for model in (a, b)]
        print(f"    loss on new points {held[0]:.5f} and {held[1]:.5f}; gap {a.result_.gap:.1e}")


def hinge(options: argparse.Namespace) -> None:
    """The same problem, exactly: the support vector machine."""
    X, y = made_up(3_000, 2)
    sign = np.where(y == 1, 1.0, -1.0)
    (t, a), (s, b) = in_turns(
        options.repeats,
        lambda: KernelMachineClassifier("hinge", kernel=RBF).fit(X, y),
        lambda: SVC(gamma=0.1, tol=1e-6, cache_size=1000).fit(X, y),
    )
    dual = b.dual_coef_[0] @ RBF(X[b.support_]) @ b.dual_coef_[0]
    J, J_peer = (
        np.sum(np.maximum(0, 1 - sign * model.decision_function(X))) + 0.5 * square
        for model, square in ((a, norm(a)), (b, dual))
    )
    say("hinge, exact, n = 3000", t, s, "SVC(tol=1e-6)", "objective", J, J_peer)


def quantile(options: argparse.Namespace) -> None:
    """The peer's penalty is of another norm, so new points are the judge."""
    X, y = made_up(2_000)
    new, truth = made_up(5_000, seed=1)

    def theirs():
        features = Nystroem(gamma=0.1, n_components=200, random_state=0)
        return make_pipeline(features, QuantileRegressor(quantile=0.9, alpha=1e-4)).fit(X, y)

    def ours(levels=0.9):
        return KernelMachineRegressor(
            "quantile", quantile=levels, kernel=RBF, alpha=0.1, **CENTRES | {"n_centers": 200}
        ).fit(X, y)

    (t, a), (s, b) = in_turns(options.repeats, ours, theirs)
    losses = [mean_pinball_loss(truth, model.predict(new), alpha=0.9) for model in (a, b)]
    title = "quantile 0.9, n = 2000, 200 centres"
    say(title, t, s, "Nystroem + QuantileRegressor", "pinball loss on new points", *losses)
    [(t, a)] = in_turns(options.repeats, lambda: ours([0.05, 0.25, 0.5, 0.75, 0.95]))
    narrowest = float(np.diff(a.predict(new), axis=1).min())
    print(f"    five quantiles together: {t:.3f} s, least difference {narrowest:.2g}")


def huber(options: argparse.Namespace) -> None:
    """The peer also estimates a scale; at the scale it finds, both minimise the same."""
    X, y = made_up(20_000)
    y = np.where(np.arange(len(y)) % 50 == 0, y + 50, y)
    new, truth = made_up(5_000, seed=1)

    def theirs():
        features = Nystroem(gamma=0.1, n_components=500, random_state=0)
        return make_pipeline(features, HuberRegressor(alpha=0.5, max_iter=1000)).fit(X, y)

    scale = float(theirs()[-1].scale_)
    delta, alpha = 1.35 * scale, 0.5 * scale

    def ours():
        return KernelMachineRegressor("huber", delta=delta, alpha=alpha, kernel=RBF, **CENTRES).fit(
            X, y
        )

    (t, a), (s, b) = in_turns(options.repeats, ours, theirs)
    J, J_peer = (
        Huber(delta).value(y, model.predict(X)) + 0.5 * alpha * square
        for model, square in ((a, norm(a)), (b, float(np.sum(b[-1].coef_ ** 2))))
    )
    title = "huber, n = 20000, 500 centres"
    say(title, t, s, "Nystroem + HuberRegressor", "objective", J, J_peer)
    errors = [float(np.mean(np.abs(model.predict(new) - truth))) for model in (a, b)]
    print(f"    absolute error on new points {errors[0]:.5f} and {errors[1]:.5f}")


def perceptron(options: argparse.Namespace) -> None:
    """The same algorithm: the peer in the 286 features of the cubic kernel."""
    X, y = made_up(10_000, 2)
    new, truth = made_up(5_000, 2, seed=1)

    def theirs():
        features = PolynomialFeatures(3)
        return make_pipeline(features, Perceptron(max_iter=10, tol=None, random_state=0)).fit(X, y)

    (t, a), (s, b) = in_turns(
        options.repeats,
        lambda: KernelPerceptron(K.Polynomial(3), n_epochs=10, random_state=0).fit(X, y),
        theirs,
    )
    title, peer = (
        "perceptron, cubic kernel, n = 10000, 10 epochs",
        "PolynomialFeatures + Perceptron",
    )
    say(title, t, s, peer, "right on new points", a.score(new, truth), b.score(new, truth))
    rows = {"": {}, " averaged": {"average": True}, " of budget 500": {"budget": 500}}
    for name, settings in rows.items():
        [(t, a)] = in_turns(
            options.repeats,
            lambda s=settings: KernelPerceptron(RBF, n_epochs=5, random_state=0, **s).fit(X, y),
        )
        right = a.score(new, truth)
        print(f"    Gaussian perceptron{name}, 5 epochs: {t:.3f} s, right {right:.3f}")


def sgd(options: argparse.Namespace) -> None:
    """The same objective without bias; the peer walks in 500 features, both 10 times over n."""
    X, y = made_up(5_000, 2)
    sign, n = np.where(y == 1, 1.0, -1.0), 5_000

    def theirs():
        features = Nystroem(gamma=0.1, n_components=500, random_state=0)
        walk = SGDClassifier(
            alpha=1e-3, average=True, fit_intercept=False, max_iter=10, tol=None, random_state=0
        )
        return make_pipeline(features, walk).fit(X, y)

    (t, a), (s, b) = in_turns(
        options.repeats,
        lambda: KernelSGDClassifier(RBF, alpha=1e-3, n_iter=10 * n, random_state=0).fit(X, y),
        theirs,
    )
    J, J_peer = (
        np.mean(np.maximum(0, 1 - sign * model.decision_function(X))) + 5e-4 * square
        for model, square in ((a, norm(a)), (b, float(np.sum(b[-1].coef_ ** 2))))
    )
    say("sgd, n = 5000, T = 50000", t, s, "Nystroem + SGDClassifier", "objective", J, J_peer)
    print(f"    gap {a.result_.gap:.4f}: the objective is so near the minimum")


PARTS = {f.__name__: f for f in (logistic, hinge, quantile, huber, perceptron, sgd)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--repeats", type=int, default=2, help="the best of so many")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a busy machine")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cpu:
        timing.count_processor_time()
    print(timing.machine())
    for part in options.parts or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
