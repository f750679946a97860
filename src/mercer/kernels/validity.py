"""Validity: a proof that a kernel is positive semidefinite, a counterexample, or "unknown"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import numpy as np

from mercer.arrays import take_rows

# An eigenvalue counts as negative for certain only well beyond what rounding can do.
CLEARLY_NEGATIVE = 1e-7
# Bounds on rounding hold to first order and for each operation once; so many times them is safe.
ROUNDINGS = 10
# Points of a counterexample up to which it is worth making smaller.
SHRUNK_UP_TO_POINTS = 64
# The rule of proofs that rest on somebody's word.
STATED = "stated by the user: valid=True"


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
    """A small data set whose Gram matrix has a clearly negative eigenvalue, or is not symmetric.

    Attributes
    ----------
    points : the data set, in the form the kernel takes
    gram : (n, n) its Gram matrix
    eigenvalue : float, the smallest eigenvalue of the Gram; None where it is not symmetric
    """

    points: Any
    gram: np.ndarray
    eigenvalue: float | None

    def __str__(self) -> str:
        points = np.array2string(np.asarray(self.points), precision=4, separator=", ")
        gram = np.array2string(self.gram, precision=6, separator=", ", suppress_small=True)
        symmetric = self.eigenvalue is not None
        what = f"with the eigenvalue {self.eigenvalue:.6g}" if symmetric else "not symmetric"
        return f"points\n{points}\nhave the Gram matrix\n{gram}\n{what}"


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

    def _repr_html_(self) -> str:
        """The status and the proof, in notebooks."""
        words = {"valid": "Proof that the kernel is valid", "indefinite": "Not a kernel"}
        title = words.get(self.status, "Undecided: no proof and no counterexample found")
        return f"<details open><summary>{title}</summary><pre>{escape(str(self))}</pre></details>"


def valid(claim: str, rule: str, *premises: Proof | None) -> Validity:
    """A proved kernel."""
    return Validity("valid", Proof(claim, rule, tuple(p for p in premises if p is not None)))


class Measurable(Protocol):
    """What is needed of a kernel to judge its Gram matrices."""

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray: ...

    def rounding(self, X: Any) -> np.ndarray: ...


def indefinite(kernel: Measurable, points: Any, reason: str) -> Validity:
    """An indefinite kernel, shown so by these points; the eigenvalue is checked here."""
    K = kernel(points)
    if not is_clearly_negative(K, kernel.rounding(points)):
        return Validity(
            "unknown", reason=f"{reason}; rounding hides the negative eigenvalue at these values"
        )
    found = Counterexample(points, K, smallest_eigenvalue(K))
    return Validity("indefinite", counterexample=found, reason=reason)


def smallest_eigenvalue(K: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(K.astype(float))[0])


def tolerance(E: np.ndarray) -> float:
    """How far below zero rounding alone, of the size of E, can push an eigenvalue."""
    return ROUNDINGS * float(np.linalg.norm(E.astype(float)))


def is_clearly_negative(K: np.ndarray, E: np.ndarray) -> bool:
    """Whether K, known up to errors E, has an eigenvalue negative beyond what rounding can do."""
    if not np.all(np.isfinite(K)):
        return False
    eigenvalues = np.linalg.eigvalsh(K.astype(float))
    largest = np.max(np.abs(eigenvalues))
    return bool(eigenvalues[0] < -max(CLEARLY_NEGATIVE * largest, 3 * tolerance(E)))


def search(
    kernel: Measurable,
    sample: Callable[[np.random.Generator, int, int], Any] | None,
    widths: Sequence[int] = (1, 2, 3, 4),
    tries: int = 24,
) -> Counterexample | None:
    """Look for a counterexample among random data sets; the same ones at every call."""
    if sample is None:
        return None
    rng = np.random.default_rng(0)
    for attempt in range(tries):
        points = sample(rng, 12, widths[attempt % len(widths)])
        try:
            with np.errstate(all="ignore"):
                K, E = kernel(points), kernel.rounding(points)
        except Exception:  # a function of the user's may raise anything where it is not defined
            continue
        if is_clearly_negative(K, E):
            return shrink(points, K, E)
    return None


def shrink(points: Any, K: np.ndarray, E: np.ndarray) -> Counterexample:
    """Leave out points, as long as a clearly negative eigenvalue remains."""

    def suffices(keep: Any) -> bool:
        return is_clearly_negative(K[np.ix_(keep, keep)], E[np.ix_(keep, keep)])

    # The points that weigh most in the eigenvector; then one by one, where they are few.
    weights = np.abs(np.linalg.eigh(K.astype(float))[1][:, 0])
    order = np.argsort(-weights, kind="stable")
    size = 1
    while size < len(K) and not suffices(order[:size]):
        size *= 2
    keep = sorted(order[:size].tolist())
    for i in list(keep) if size <= SHRUNK_UP_TO_POINTS else ():
        fewer = [j for j in keep if j != i]
        if fewer and suffices(fewer):
            keep = fewer
    small = K[np.ix_(keep, keep)]
    return Counterexample(take_rows(points, keep), small, smallest_eigenvalue(small))
