"""The optimality conditions of the free variables, for sets of them that change little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from mercer.arrays import memory_budget
from mercer.arrays.factorisation import factorised
from mercer.solvers.qp.quadratic_program import QuadraticProgram

# Proximal steps at most, and the multiple of the largest diagonal entry that is added for them.
_PROXIMAL_STEPS = 10
_PROXIMAL_SHARE = 1e-12
# A factor serves sets that differ from its own by at most this share of its variables.
_CHANGED_SHARE = 1 / 12


class FreeVariables:
    r"""``Q_ff a_f = -p_f - Q_fh a_h`` with given sums, for one Q and many sets f of free variables.

    With a Cholesky factor of ``Q_ff``, a set without the variables r and with others s is solved by
    the Schur complement of the bordered system

        [ Q_ff  Q_fs  E_r ] [ u ]   [ b_f ]
        [ Q_sf  Q_ss   0  ] [ v ] = [ b_s ],   where E_r holds the unit vectors of r,
        [ E_rᵀ   0     0  ] [ w ]   [  0  ]

    as long as r and s are few. Otherwise the set gets a factor of its own.

    Parameters
    ----------
    program : QuadraticProgram
        Whose K is `stored`.

    Attributes
    ----------
    bordered : bool
        Whether the last set was solved with the factor of another.

    Examples
    --------
    >>> import numpy as np
    >>> program = QuadraticProgram(2 * np.eye(2), -np.ones(2), -np.ones(2), np.ones(2))
    >>> FreeVariables(program).solve(np.array([0.0, 1.0]), np.array([True, False])).round(6)
    array([0.5, 1. ])
    """

    def __init__(self, program: QuadraticProgram):
        self.program = program
        self.bordered = False
        self.forget()

    def forget(self) -> None:
        """Give the next set a factor of its own."""
        self._base = np.empty(0, dtype=np.intp)
        self._factor: Any = None
        self._shift = 0.0
        # Columns of the border met so far, by variable, and the factor's solutions for them.
        self._place: dict[int, int] = {}
        self._border = self._solved = np.empty((0, 0))

    def solve(
        self,
        a: np.ndarray,
        free: np.ndarray,
        gradient: np.ndarray | None = None,
        rounds: int = _PROXIMAL_STEPS,
    ) -> np.ndarray:
        """``a`` with the free variables at the solution, the others held where they are.

        Free points may be dependent, so the system is solved by proximal steps: a tiny multiple of
        the identity makes it definite, and repeating the step takes its effect away. ``gradient``
        is that at a, if it is known.
        """
        program, index = self.program, np.flatnonzero(free)
        if not index.size:
            return a
        inverse = self._inverse(index)
        inside = [program.groups == g for g in range(program.n_groups)]
        present = [g for g, members in enumerate(inside) if np.any(members[index])]
        E = np.array([inside[g][index] for g in present], dtype=float).reshape(-1, len(index))
        M_E = inverse(E.T) if present else E.T
        a = a.copy()
        residual = np.inf
        for _ in range(rounds):
            F = program.gradient(a) if gradient is None else gradient
            gradient = None
            step = -inverse(F[index][:, None])[:, 0]
            if present:
                missing = np.array([program.totals[g] - a[inside[g]].sum() for g in present])
                step += M_E @ np.linalg.lstsq(E @ M_E, missing - E @ step)[0]
            a[index] += step
            before, residual = residual, float(np.linalg.norm(step))
            if residual > 0.5 * before:
                break
        return a

    def _inverse(self, index: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """B (len(index), c) to the inverse of Q on these variables times B."""
        removed = np.setdiff1d(self._base, index, assume_unique=True)
        added = np.setdiff1d(index, self._base, assume_unique=True)
        changed = len(removed) + len(added)
        if self._factor is None or changed > _CHANGED_SHARE * len(self._base):
            self._factorise(index)
            changed = 0
        self.bordered = changed > 0
        if self.bordered:
            return self._schur(index, added, removed)
        return lambda B: cho_solve(self._factor, B, check_finite=False)

    def _factorise(self, index: np.ndarray) -> None:
        self.forget()
        Q = self._entries(index, index)
        self._shift = _PROXIMAL_SHARE * max(float(np.max(Q.diagonal())), 1e-300)
        Q.flat[:: len(index) + 1] += self._shift
        self._factor, self._base = factorised(Q), index
        self._border = self._solved = np.empty((len(index), 0))

    def _schur(
        self, index: np.ndarray, added: np.ndarray, removed: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray]:
        self._extend(added, removed)
        columns = [self._place[int(v)] for v in (*added, *removed)]
        C, Z, p = self._border[:, columns], self._solved[:, columns], len(added)
        S = -(C.T @ Z)
        S[:p, :p] += self._entries(added, added) + self._shift * np.eye(p)
        inner = np.linalg.inv(S)
        kept, stays = np.isin(self._base, index), np.isin(index, self._base)

        def inverse(B: np.ndarray) -> np.ndarray:
            b = np.zeros((len(self._base), B.shape[1]))
            b[kept] = B[stays]
            u = cho_solve(self._factor, b, check_finite=False)
            rest = -(C.T @ u)
            rest[:p] += B[~stays]
            v = inner @ rest
            X = np.empty_like(B)
            X[stays] = (u - Z @ v)[kept]
            X[~stays] = v[:p]
            return X

        return inverse

    def _extend(self, added: np.ndarray, removed: np.ndarray) -> None:
        """Solve for the columns of the border that are new."""
        s = np.array([v for v in added if int(v) not in self._place], dtype=np.intp)
        r = np.array([v for v in removed if int(v) not in self._place], dtype=np.intp)
        if not len(s) + len(r):
            return
        C = np.zeros((len(self._base), len(s) + len(r)))
        C[:, : len(s)] = self._entries(self._base, s)
        C[np.searchsorted(self._base, r), np.arange(len(s), len(s) + len(r))] = 1.0
        for v in (*s, *r):
            self._place[int(v)] = len(self._place)
        self._border = np.hstack([self._border, C])
        self._solved = np.hstack([self._solved, cho_solve(self._factor, C, check_finite=False)])

    def _entries(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A copy of Q on these variables."""
        program = self.program
        i, j = rows % program.n_points, columns % program.n_points
        if isinstance(program.K, np.ndarray):
            Q = program.K[np.ix_(i, j)]
        elif 8 * len(i) * len(j) > memory_budget():
            raise LinAlgError("too many free points for the memory budget")
        else:
            Q = np.asarray(program.K.block(i, j), dtype=np.float64)
        if program.signs is not None:
            Q *= program.signs[rows][:, None]
            Q *= program.signs[columns]
        return Q
