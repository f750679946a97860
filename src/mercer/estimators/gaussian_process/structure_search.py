"""The greedy search for a sum of kernels: steps tried, followed up and compared by evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.covariances import make_covariance
from mercer.estimators.gaussian_process.mean import mean_basis
from mercer.estimators.gaussian_process.structure_evidence import Pairs, SumEvidence, slots
from mercer.estimators.gaussian_process.structure_moves import (
    Feature,
    bounds,
    likely_periods,
    steps,
)
from mercer.kernels import Kernel
from mercer.solvers.evidence.covariance import NOISE
from mercer.solvers.evidence.exact import ExactEngine
from mercer.solvers.evidence.maximisation import maximise
from mercer.solvers.evidence.problem import EvidenceProblem

# L-BFGS steps of a candidate at first, and of the best few that are followed up.
FIRST_STEPS, MORE_STEPS, FOLLOWED = 8, 60, 3


# The score has to improve by this much, in units of log evidence.
WORTH = 1.0


@dataclass
class Found:
    """A kernel at its best hyperparameters; None is a constant function."""

    kernel: Kernel | None
    noise: float
    evidence: float
    score: float
    words: str = ""


@dataclass
class GreedySearch:
    """The greedy search on some points.

    Attributes
    ----------
    X : (n, d) array in [0, 1]
    y : (n,) array, standardised
    features : list of Feature
    deadline : float or None
        Of `time.perf_counter`.
    """

    X: np.ndarray
    y: np.ndarray
    features: list[Feature]
    deadline: float | None
    n_all: int = 0
    listener: Callable[[dict[str, Any]], Any] | None = None
    tried: list[dict[str, Any]] = field(default_factory=list)
    stopped: str = ""

    def __post_init__(self) -> None:
        self.began, self.pairs = time.perf_counter(), Pairs(self.X)
        n = len(self.y)
        variance = max(float(np.sum((self.y - self.y.mean()) ** 2)) / max(n - 1, 1), 1e-12)
        # With a flat prior on the mean, of which one number is integrated out.
        evidence = -0.5 * ((n - 1) * (np.log(2 * np.pi * variance) + 1) + np.log(n))
        self.best = Found(None, variance, evidence, evidence - 0.5 * np.log(n))

    def run(self, components: tuple[str, ...], max_steps: int) -> None:
        """Take the best step until none is worth it."""
        if len(self.y) < 5 or np.ptp(self.y) == 0:
            self.stopped = "too few points, or y is constant"
            return
        for _ in range(max_steps):
            before = self.best
            self._one_step(components)
            if self.stopped:
                return
            if self.best.score < before.score + WORTH:
                self.stopped = "no step improves the score"
                return
        self.stopped = "max_steps was reached"

    def bounds(self, kernel: Kernel) -> dict[str, Any]:
        return bounds(kernel, self.features)

    def _one_step(self, components: tuple[str, ...]) -> None:
        start, found = self.best, []
        residual = self._residual()
        periods = {}
        for feature in self.features:
            if feature.n_values >= 12 and "periodic" in components:
                x = self.X[:, feature.index]
                given = likely_periods(x, residual, feature.gap)
                given += likely_periods(x, self.y, feature.gap)
                periods[feature.index] = _distinct(given)
        for step in steps(start.kernel, self.features, components, periods):
            candidate = self._maximised(step.kernel, start.noise, step.words, FIRST_STEPS)
            found.append(candidate)
            if self._is_over(candidate):
                return
        for candidate in sorted(found, key=lambda c: -c.score)[:FOLLOWED]:
            assert candidate.kernel is not None
            longer = self._maximised(candidate.kernel, candidate.noise, candidate.words, MORE_STEPS)
            if self._is_over(longer):
                return

    def _residual(self) -> np.ndarray:
        """What the best kernel so far leaves: y less its leave-one-out mean."""
        if self.best.kernel is None:
            return self.y
        problem = self._problem(self.best.kernel, self.best.noise)
        posterior = ExactEngine(problem).posterior(problem.covariance.theta)
        return self.y - posterior.leave_one_out()[0][:, 0]

    def _problem(self, kernel: Kernel, noise: float) -> EvidenceProblem:
        limits = self.bounds(kernel) | {NOISE: (1e-6, 10.0)}
        covariance = make_covariance(kernel, self.X, learns_noise=True, bounds=limits)
        theta = covariance.theta
        theta[-1] = np.log(np.clip(noise, *np.exp(covariance.bounds[-1])))
        theta = np.clip(theta, covariance.bounds[:, 0], covariance.bounds[:, 1])
        basis = mean_basis("constant", self.X)
        return EvidenceProblem(
            covariance.at(theta), self.X, self.y[:, None], np.zeros(len(self.y)), basis
        )

    def _maximised(self, kernel: Kernel, noise: float, words: str, n_steps: int) -> Found:
        start: Any = self._problem(kernel, noise).covariance
        places = slots(kernel, [entry.path for entry in start.entries])

        def at(theta: np.ndarray) -> Kernel:
            return start.at(np.append(theta, 0.0)).whole

        evidence = SumEvidence(self.pairs, self.y, at, places)
        left = None
        if self.deadline is not None:
            left = max(self.deadline - time.perf_counter(), 1e-3)
        result = maximise(
            evidence,
            [start.theta],
            start.bounds,
            max_iter=n_steps,
            max_time=left,
        )
        best: Any = start.at(result.value)
        value = float(max(result.history))
        score = value - 0.5 * np.log(len(self.y)) * (len(result.value) + 1)
        return Found(best.whole, float(best.noise), value, score, words)

    def _is_over(self, found: Found) -> bool:
        """Record a candidate; whether the search has to end."""
        seconds = time.perf_counter() - self.began
        entry = {
            "kernel": repr(found.kernel),
            "step": found.words,
            "evidence": found.evidence,
            "score": found.score,
            "seconds": seconds,
        }
        self.tried.append(entry)
        if np.isfinite(found.score) and found.score > self.best.score:
            self.best = found
        if self.listener is not None and self.listener(entry):
            self.stopped = "the callback ended the search"
        elif self.deadline is not None and time.perf_counter() > self.deadline:
            self.stopped = "max_time was reached"
        return bool(self.stopped)


def _distinct(periods: list[float]) -> list[float]:
    """Periods without those that are close to an earlier one."""
    found: list[float] = []
    for period in periods:
        if all(abs(period / other - 1) > 0.02 for other in found):
            found.append(period)
    return found
