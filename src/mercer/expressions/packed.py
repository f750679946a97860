"""Short ways for plain dense points: a small Gram matrix, and sums over points packed once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer import core
from mercer.arrays import row_major
from mercer.core import Kind, Leaf, Program
from mercer.expressions.bits import FEWEST_FEATURES
from mercer.expressions.interpreter import PairMatrix
from mercer.expressions.lowering import Lowering
from mercer.expressions.nodes import Constant, Expression, Statistic
from mercer.expressions.overflow import check_finite
from mercer.expressions.simplification import lower
from mercer.expressions.views import Check, Scale

BITS = (Kind.COMMON, Kind.DIFFERENT)
STAYS = object()  # in place of an origin, for points that are not moved and have no norms


class _Stationary(NamedTuple):
    """A formula of one statistic that the core computes, with one value at every (x, x)."""

    program: Program
    leaf: Statistic
    kind: Kind
    own: float
    unscaled: bool  # whether the statistic is of the points as they are


# An expression remembers it with its hash, and for as long as it is kept itself.
_FORM = "_stationary"


def _stationary(e: Expression) -> _Stationary | None:
    """What `small_gram` needs of a formula; None for a formula of another form."""
    lowering = Lowering(lower(e))
    own, terms = lowering.diagonal, lowering.row_terms or lowering.column_terms
    if terms or len(lowering.leaves) != 1 or not isinstance(own, Constant):
        return None
    leaf = lowering.leaves[0]
    if not isinstance(leaf, Statistic) or not np.isfinite(own.value):
        return None
    if (kind := leaf.kind.native) is None:
        return None
    steps = leaf.view.steps
    if not all(isinstance(step, Check | Scale) for step in steps):
        return None
    unscaled = all(isinstance(step, Check) for step in steps)
    return _Stationary(lowering.program, leaf, kind, own.value, unscaled)


def small_gram(e: Expression, X: np.ndarray, checked: bool = False) -> np.ndarray | None:
    """The Gram matrix of a stationary formula over few dense points, as `PairMatrix.gram` has it.

    The general way comes to the same for such points, after a look at what else they could be.
    None for other formulas and points.

    Parameters
    ----------
    X : (n, d) array of finite numbers
    checked : bool
        Whether these are known to be points of the kernel's domain.
    """
    known = vars(e)
    if _FORM not in known:
        known[_FORM] = _stationary(e)
    form: _Stationary | None = known[_FORM]
    if form is None or X.dtype != np.float64 or X.shape[1] >= FEWEST_FEATURES:
        return None
    statistic = form.leaf.kind
    F = X if checked and form.unscaled else form.leaf.view.apply(X, "X")
    origin = getattr(statistic.prepare(F, F)[0], "origin", STAYS)
    moved, given, norms = _as_the_core_takes(F, origin)
    leaf = Leaf(form.kind, moved, moved, given, given, norms, norms)
    n, d = X.shape
    K = np.empty((n, n))
    pairs = core.pairs(form.program, [leaf], [], [], n, n, K.dtype)
    pairs.gram(K, True, core.threads(n * n, d))
    np.fill_diagonal(K, form.own)
    return K


def _as_the_core_takes(F: np.ndarray, origin: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Dense rows in float64: moved by the origin of a squared distance, as given, squared norms.

    Other statistics, whose origin is `STAYS`, have no norms.
    """
    given = F if F.dtype == np.float64 and F.flags.carray else row_major(F, np.float64)
    if origin is STAYS:
        return given, given, None
    moved = given if origin is None else given - origin
    with np.errstate(over="ignore"):
        return moved, given, np.vecdot(moved, moved)


class PackedPoints:
    """(X, V) -> Σ_j k(x_i, y_j) V_jc for dense points in float64, as `PairMatrix.products`.

    Points y_j are centred, measured and packed once; a call does so to the rows of X alone.

    Parameters
    ----------
    pairs : PairMatrix of any one row with the points Y, all computed by the core
    """

    def __init__(self, pairs: PairMatrix):
        leaves = [node for node in pairs.lowering.leaves if isinstance(node, Statistic)]
        self._views = list(dict.fromkeys(node.view for node in leaves))
        sides = [pairs.prepared(node)[1] for node in leaves]
        self._seen = [self._views.index(node.view) for node in leaves]
        self._origins = [getattr(side, "origin", STAYS) for side in sides]
        self._unscaled = all(isinstance(s, Check) for view in self._views for s in view.steps)
        self._core, _ = pairs.whole()
        self._size = pairs.shape[1]
        self._features = sum(side.shape[1] for side in sides)
        self._may_overflow = pairs.may_overflow

    def __call__(self, X: np.ndarray, V: np.ndarray, checked: bool = False) -> np.ndarray:
        """The sums at rows X, (n, d) as the points are, for columns V, (m, c): (n, c).

        ``checked`` where the rows are known to be points of the kernel's domain.
        """
        as_given = checked and self._unscaled
        seen = [X if as_given else view.apply(X, "X") for view in self._views]
        found = zip(self._seen, self._origins, strict=True)
        rows = [_as_the_core_takes(seen[view], origin) for view, origin in found]
        V = V if V.dtype == np.float64 and V.flags.carray else row_major(V, np.float64)
        threads = core.threads(len(X) * self._size, self._features)
        sums = self._core.product_at(rows, [], len(X), V, threads)
        if self._may_overflow and np.isfinite(V).all():
            check_finite(sums, "a sum of k(x, z)")
        return sums


def packed_points(e: Expression, Y: np.ndarray) -> PackedPoints | None:
    """An expression over dense points Y in float64; None where the core does not do all of it."""
    pairs = PairMatrix(e, Y[:1], Y)
    plain = pairs.dtype == np.float64 and pairs.native and not pairs.lowering.row_terms
    if not plain or not all(_is_of_numbers(pairs, node) for node in pairs.lowering.leaves):
        return None
    return PackedPoints(pairs)


def _is_of_numbers(pairs: PairMatrix, node: Any) -> bool:
    """Whether the core takes the points as they are, and not as bits."""
    leaf = pairs._leaf(node) if isinstance(node, Statistic) else None
    return leaf is not None and leaf.kind not in BITS
