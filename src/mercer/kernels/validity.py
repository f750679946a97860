"""Validity: a proof that a kernel is positive semidefinite, a counterexample, or "unknown"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import n_rows, take_rows

# An eigenvalue counts as negative for certain only well beyond what rounding can do.
CLEARLY_NEGATIVE = 1e-7


@dataclass(frozen=True)
class Proof:
    """A node of a proof: what is claimed, the rule that gives it, and what the rule needs.

    Examples
    --------
    >>> print(Proof("k is valid", "sum", (Proof("a is valid", "given"),)))
    k is valid  [sum]
    └─ a is valid  [given]
    """

    claim: str
    rule: str
    premises: tuple[Proof, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.claim}  [{self.rule}]"]
        for i, premise in enumerate(self.premises):
            last = i == len(self.premises) - 1
            first, *rest = str(premise).splitlines()
            lines.append(("└─ " if last else "├─ ") + first)
            lines += [("   " if last else "│  ") + line for line in rest]
        return "\n".join(lines)

    def rules(self) -> list[str]:
        """Every rule used, outermost first."""
        return [self.rule] + [rule for premise in self.premises for rule in premise.rules()]


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A small data set whose Gram matrix has a clearly negative eigenvalue.

    Attributes
    ----------
    points : the data set, in the form the kernel takes
    gram : (n, n) its Gram matrix
    eigenvalue : float, the smallest eigenvalue of the Gram
    """

    points: Any
    gram: np.ndarray
    eigenvalue: float

    def __str__(self) -> str:
        points = np.array2string(np.asarray(self.points), precision=4, separator=", ")
        gram = np.array2string(self.gram, precision=6, separator=", ", suppress_small=True)
        return (
            f"points\n{points}\nhave the Gram matrix\n{gram}\n"
            f"with the eigenvalue {self.eigenvalue:.6g}"
        )


@dataclass(frozen=True, eq=False)
class Validity:
    """What is known about a kernel.

    Attributes
    ----------
    status : "valid", "indefinite" or "unknown"
    proof : Proof or None
        A readable tree of rules, when the kernel is valid.
    counterexample : Counterexample or None
        Points that show that it is not.
    reason : str
        In one sentence, why.
    """

    status: str
    proof: Proof | None = None
    counterexample: Counterexample | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.proof is not None:
            return str(self.proof)
        body = f"\n{self.counterexample}" if self.counterexample else ""
        return f"{self.status}: {self.reason}{body}"


def valid(claim: str, rule: str, *premises: Proof | None) -> Validity:
    """A proved kernel."""
    return Validity("valid", Proof(claim, rule, tuple(p for p in premises if p is not None)))


def indefinite(evaluate: Callable[[Any], np.ndarray], points: Any, reason: str) -> Validity:
    """An indefinite kernel, shown so by these points; the eigenvalue is checked here."""
    K = evaluate(points)
    eigenvalues = np.linalg.eigvalsh(K)
    if not is_clearly_negative(eigenvalues):
        return Validity(
            "unknown", reason=f"{reason}; rounding hides the negative eigenvalue at these values"
        )
    return Validity(
        "indefinite",
        counterexample=Counterexample(points, K, float(eigenvalues[0])),
        reason=reason,
    )


def is_clearly_negative(eigenvalues: np.ndarray) -> bool:
    """Whether the smallest (first) of these eigenvalues is negative beyond what rounding can do."""
    largest = np.max(np.abs(eigenvalues))
    return bool(np.isfinite(largest) and eigenvalues[0] < -CLEARLY_NEGATIVE * largest)


def search(
    evaluate: Callable[[Any], np.ndarray],
    sample: Callable[[np.random.Generator, int, int], Any] | None,
    tries: int = 24,
) -> Counterexample | None:
    """Look for a counterexample among random data sets; the same ones at every call."""
    if sample is None:
        return None
    rng = np.random.default_rng(0)
    for attempt in range(tries):
        points = sample(rng, 12, 1 + attempt % 4)
        try:
            with np.errstate(all="ignore"):
                K = evaluate(points)
        except ValueError:  # not defined at these points
            continue
        if not np.all(np.isfinite(K)):
            continue
        if is_clearly_negative(np.linalg.eigvalsh(K)):
            return shrink(points, K)
    return None


def shrink(points: Any, K: np.ndarray) -> Counterexample:
    """Leave out points, as long as a clearly negative eigenvalue remains."""
    keep = list(range(n_rows(points)))
    for i in list(keep):
        fewer = [j for j in keep if j != i]
        if fewer and is_clearly_negative(np.linalg.eigvalsh(K[np.ix_(fewer, fewer)])):
            keep = fewer
    small = K[np.ix_(keep, keep)]
    return Counterexample(take_rows(points, keep), small, float(np.linalg.eigvalsh(small)[0]))
