"""Sums over many points, Σ_j k(x, y_j) v_j, in ways that do not look at every pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.lowering import side_of
from mercer.expressions.nodes import Add, Constant, Expression, Multiply, Statistic
from mercer.expressions.simplification import lower


class Term(NamedTuple):
    """c f(x) s(x, z) g(z); without a statistic s is one."""

    constant: float
    left: list[Expression]
    statistic: Statistic | None
    right: list[Expression]


def is_summable(e: Expression) -> bool:
    """Whether sums over the points of one side need not look at every pair."""
    if not any(isinstance(node, Statistic) and node.kind.summed for node in e.walk()):
        return False
    terms = _terms(e)
    return terms is not None and any(term.statistic is not None for term in terms)


class Sum:
    """x -> Σ_j k(x, y_j) v_j, for each column v of V; the points y_j are looked at once.

    Parameters
    ----------
    e : Expression that `is_summable`
    Y : m points
    V : (m, c) array
    """

    def __init__(self, e: Expression, Y: Any, V: np.ndarray) -> None:
        terms = _terms(e)
        assert terms is not None, "each term has at most one statistic that can be summed"
        self.expression = e
        self._terms: list[tuple[Term, Callable[[Any], np.ndarray] | np.ndarray]] = []
        at = PairMatrix(e, Y)
        for term in terms:
            weighted = _scaled(term.constant * np.asarray(V, dtype=np.float64), at, term.right, 1)
            if term.statistic is None:
                self._terms.append((term, weighted.sum(axis=0)))
            else:
                kind, view = term.statistic.kind, term.statistic.view
                assert kind.summed is not None
                self._terms.append((term, kind.summed(at.points(view, 1), weighted)))

    def __call__(self, X: Any) -> np.ndarray:
        """The sums at each point of X, shape (n, c)."""
        at = PairMatrix(self.expression, X)
        total: Any = 0.0
        for term, found in self._terms:
            if callable(found):
                assert term.statistic is not None
                values = found(at.points(term.statistic.view, 0))
            else:
                values = np.broadcast_to(found, (at.shape[0], len(found)))
            total = total + _scaled(values, at, term.left, 0)
        return total


def _scaled(values: np.ndarray, at: PairMatrix, factors: list[Expression], side: int) -> np.ndarray:
    for factor in factors:
        values = values * at.side(factor, side)[:, None]
    return values


def _terms(e: Expression) -> list[Term] | None:
    """The terms of an expression; None where one is not of the form that can be summed."""
    e, found = lower(e), []
    for part in e.terms if isinstance(e, Add) else [e]:
        factors = part.factors if isinstance(part, Multiply) else [part]
        numbers = [f.value for f in factors if isinstance(f, Constant)]
        others = [f for f in factors if not isinstance(f, Constant)]
        left, right = ([f for f in others if side_of(f) == side] for side in (0, 1))
        both = [f for f in others if side_of(f) is None]
        s = both[0] if both else None
        if len(both) > 1 or not (s is None or (isinstance(s, Statistic) and s.kind.summed)):
            return None
        found.append(Term(float(np.prod(numbers)), left, s, right))
    return found
