"""The search for a kernel: scaling, family, width and one scale per feature, by leave-one-out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from mercer import kernels as K
from mercer.auto.leave_one_out import GAIN, Slopes, best_alpha, weighed
from mercer.kernels import Kernel
from mercer.solvers.result import Budget
from mercer.tables.coding import NUMBER, SCALINGS, TableCoding
from mercer.tables.sparse import SPARSE_SCALINGS, SparseCoding

# Rows for the first look at every candidate, and for scales of features one by one: shares of all,
# since the search should take no longer than the last fit, within bounds.
_FIRST_ONE_ROW_IN, _FIRST_ROWS = 4, (160, 400)
_MORE_ONE_ROW_IN, _MORE_ROWS = 4, (200, 500)
# Widths go by this factor from the median distance, at most so far.
_FACTOR = 4.0
_NARROWEST, _WIDEST = _FACTOR**-4, _FACTOR**4
# Scalings within this factor of the best error are looked at with other widths; families, from the
# smoothest on, as long as they are within the second.
_NEAR, _NEARER = 1.3, 1.05
# Scales one by one are for no more coordinates than this, take so many steps, and stay this near.
_MOST_SCALES = 200
_STEPS = 8
_STEPS_AGAIN = 3
_FARTHEST = np.log(100.0)
# Texts up to this length are also seen as single symbols and pairs, and not as longer words than
# most of them hold.
_SHORT = 20
# The standard deviation that logarithms of scales are taken to have.
_SPREAD = 1.5

FAMILIES: dict[str, Callable[..., Kernel]] = {
    "RBF": lambda scales: K.RBF(1.0, scales=scales),
    "Matern(2.5)": lambda scales: K.Matern(2.5, 1.0, scales=scales),
    "Matern(1.5)": lambda scales: K.Matern(1.5, 1.0, scales=scales),
    "Exponential": lambda scales: K.Exponential(1.0, scales=scales),
}
# The same by one length, for sparse points, which have too many features to give each a scale.
BY_LENGTH: dict[str, Callable[[float], Kernel]] = {
    "RBF": lambda length: K.RBF(length**-2),
    "Matern(2.5)": lambda length: K.Matern(2.5, length),
    "Matern(1.5)": lambda length: K.Matern(1.5, length),
    "Exponential": lambda length: K.Exponential(1 / length),
}

# How names of candidates begin whose error is the mean log loss.
LOGISTIC = "logistic loss"


class Search:
    """Candidates tried one after another on a few hundred rows, best first by squared error.

    Parameters
    ----------
    X : table or CSR matrix
    Y : (n, t) array
        Targets, centred.
    budget : Budget
        Once half its time is spent, the best so far is taken.
    random : RandomState
    roots : (n,) array, optional
        Square roots of the rows' weights, whose mean is 1.

    Attributes
    ----------
    coding : TableCoding or SparseCoding
        Of the best candidate.
    kernel : Kernel
        On the points of ``coding``.
    alpha : float
        The best regulariser for the few hundred rows.
    error : float
        The mean squared leave-one-out error on them.
    tried : list of dict
    pace : float
        Seconds of a Cholesky factor and the leave-one-out error, per cubed number of rows.
    """

    def __init__(
        self,
        X: Any,
        Y: np.ndarray,
        budget: Budget,
        random: np.random.RandomState,
        roots: np.ndarray | None = None,
    ):
        self.X, self.budget, self.roots = X, budget, roots
        self.Y = Y if roots is None else roots[:, None] * Y
        self.order = random.permutation(len(Y))
        self.tried: list[dict[str, Any]] = []
        self.error, self.alpha, self.width = np.inf, 1.0, 1.0
        self.is_sparse = sp.issparse(X)
        self.coding: Any = self._fitted_coding()
        self.kernel: Kernel = K.Constant(1.0)
        self.pace, self.seed = 0.0, 0
        self.is_stopped = False
        self.callback: Callable[[dict[str, Any]], Any] | None = None
        self.few = int(np.clip(len(Y) // _FIRST_ONE_ROW_IN, *_FIRST_ROWS))
        self.more = int(np.clip(len(Y) // _MORE_ONE_ROW_IN, *_MORE_ROWS))
        self.half = min(self.more, len(Y) // 2)

    def _fitted_coding(self) -> Any:
        return (SparseCoding() if self.is_sparse else TableCoding()).fit(self.X)

    def all_points(self) -> Any:
        """The points of the training rows."""
        return self.coding.transform(self.X)

    def run(self) -> Search:
        D = len(self.coding.owners_)
        if D:
            self._scalings_and_widths()
            if self.is_sparse:
                self._linear()
            self._families()
            if not self.is_sparse:
                self._scales_one_by_one()
        if not self.is_sparse and self.coding.texts_:
            self._texts(D)
        return self

    # Rows and points.

    def rows(self, count: int, skip: int = 0) -> np.ndarray:
        """Some rows in random order, after others."""
        return self.order[skip : skip + count]

    def points(self, coding: Any, rows: np.ndarray) -> Any:
        """The coordinates of some rows, without texts."""
        points = self._rows_of(coding, rows)
        if self.is_sparse:
            return points
        return points[:, : len(coding.owners_)].astype(np.float64)

    def _rows_of(self, coding: Any, rows: np.ndarray) -> Any:
        return coding.transform(take(self.X, rows))

    def strongest_columns(self) -> np.ndarray:
        """The columns that move the kernel, the strongest first; none where that is not known."""
        return np.zeros(0, dtype=np.int64)

    def stop(self) -> None:
        """End the search here; the final fit of the best kernel so far remains."""
        self.is_stopped = True

    def is_late(self, factorisations: float) -> bool:
        """Whether there is no time for so many factorisations, times cubed rows, and the fit."""
        return self.budget.time_left < self.pace * (factorisations + 2.0 * len(self.Y) ** 3)

    def _late(self) -> bool:
        limit = self.budget.max_time
        return self.is_stopped or (limit is not None and self.budget.seconds > 0.5 * limit)

    def roots_of(self, rows: np.ndarray) -> np.ndarray | None:
        """What `weighed` takes for some rows."""
        return None if self.roots is None else self.roots[rows]

    def _best(
        self, kernel: Kernel, X: Any, rows: np.ndarray, factor: float = 10.0
    ) -> tuple[float, float]:
        """The least error of a kernel on the points X of some rows, and its regulariser."""
        start = time.perf_counter()
        Y = self.Y[rows]
        G = weighed(np.asarray(kernel(X), dtype=np.float64), self.roots_of(rows))
        looks: list[float] = []
        known = None if np.isinf(self.error) else self.alpha
        found = best_alpha(G, Y, known, factor, lambda alpha, error: looks.append(error))
        self.pace = (time.perf_counter() - start) / (len(looks) * len(Y) ** 3)
        return found[:2]

    def _try(self, name: str, coding: Any, kernel: Kernel, X: Any, rows: np.ndarray) -> float:
        """Look at a candidate, and keep it if it is the best so far."""
        error, alpha = self._best(kernel, X, rows)
        self.note(name, coding, error)
        if error < self.error:
            self.error, self.alpha, self.kernel, self.coding = error, alpha, kernel, coding
        return error

    def note(self, name: str, coding: Any, error: float) -> None:
        seconds = self.budget.seconds
        self.tried.append(
            {"kernel": name, "scaling": coding.scaling, "error": error, "seconds": seconds}
        )
        if self.callback is not None:
            # Losses of classes are compared with each other, not with squared errors.
            is_loss = name.startswith(LOGISTIC)
            same = [one for one in self.tried if one["kernel"].startswith(LOGISTIC) == is_loss]
            best = min(one["error"] for one in same)
            if self.callback({"stage": name, "error": error, "best": best, "seconds": seconds}):
                self.stop()

    # What is tried.

    def _scalings_and_widths(self) -> None:
        """The median distance for every scaling, and other widths for those that are near."""
        rows, looks = self.rows(self.few), []
        first = self.coding
        scalings = SPARSE_SCALINGS if self.is_sparse else SCALINGS
        if not self.is_sparse and NUMBER not in first.kinds_:
            scalings = (first.scaling,)
        for scaling in scalings:
            coding = first if scaling == first.scaling else type(first)(scaling).fit(self.X)
            looks.append(_Look(self, "RBF", coding, rows))
            looks[-1].at(1.0)
            if self._late():
                return
        near = [look for look in looks if look.least <= _NEAR * self.error]
        for look in near:
            look.climb((_FACTOR, 1 / _FACTOR))
        if len(near) > 1 and not self._late():
            self._contest(near)

    def _contest(self, looks: list[_Look]) -> None:
        """The scaling that is best on other rows: outliers among a few should not decide."""
        rows = self.rows(self.more, skip=self.half)
        errors = []
        for look in looks:
            X = self.points(look.coding, rows)
            errors.append(self._best(look.kernel(look.best), X, rows)[0])
            self.note(f"{look.name(look.best)}, on other rows", look.coding, errors[-1])
        winner = looks[int(np.argmin(errors))]
        if winner.coding is not self.coding:
            self.error, self.coding, self.width = winner.least, winner.coding, winner.best
            self.kernel = winner.kernel(winner.best)

    def _linear(self) -> None:
        """A linear function of the points: of many sparse features, often enough."""
        rows = self.rows(self.few)
        kernel = K.Linear() + 1.0
        self._try("Linear", self.coding, kernel, self.points(self.coding, rows), rows)

    def _families(self) -> None:
        """From smooth to rough, as long as it does not get worse; rougher ones are wider."""
        rows, coding, width = self.rows(self.few), self.coding, self.width
        for family in FAMILIES:
            if family == "RBF" or self._late():
                continue
            look = _Look(self, family, coding, rows)
            look.at(width)
            look.climb((_FACTOR,))
            width = look.best
            if look.least > _NEARER * self.error:
                break

    def _scales_one_by_one(self) -> None:
        """Every feature's own scale, if rows that had no part in it agree that it is better."""
        groups = np.unique(self.coding.owners_, return_inverse=True)[1]
        if (
            "scales" not in self.kernel.get_params()
            or not 2 <= groups.max() + 1 <= _MOST_SCALES
            or self._late()
        ):
            return
        judges = self.rows(self.more, skip=self.half)
        kernel = self._with_scales(self.kernel, self.alpha, self.rows(self.half), groups, _STEPS)
        X = self.points(self.coding, judges)
        before, _ = self._best(self.kernel, X, judges)
        after, alpha = self._best(kernel, X, judges)
        self.note("best kernel, per-feature scales (validation rows)", self.coding, after)
        self.note("without scales (same rows)", self.coding, before)
        if after >= before:
            return
        if self.half < self.more:
            rows = self.rows(self.more)
            kernel = self._with_scales(kernel, alpha, rows, groups, _STEPS_AGAIN)
            after, alpha = self._best(kernel, self.points(self.coding, rows), rows)
        self.kernel, self.error, self.alpha = kernel, after, alpha

    def _with_scales(
        self, kernel: Kernel, alpha: float, rows: np.ndarray, groups: np.ndarray, steps: int
    ) -> Kernel:
        """The kernel with scales that fit some rows."""
        scales = np.asarray(kernel.get_params()["scales"], dtype=float)
        X, build = self.points(self.coding, rows), _same_class(kernel)
        slopes = Slopes(build(np.ones(X.shape[1])), X, self.Y[rows], self.roots_of(rows))
        return build(self._descend(slopes, np.log(scales), np.log(alpha), groups, steps))

    def _descend(
        self,
        slopes: Slopes,
        log_scales: np.ndarray,
        log_alpha: float,
        groups: np.ndarray,
        steps: int,
    ) -> np.ndarray:
        """The scales, and alpha with them, by L-BFGS on the logarithm of the error.

        A scale that the data do not determine stays near others: its logarithm has a normal prior.
        """
        n, n_scales = len(slopes.Y), int(groups.max()) + 1
        begin = np.array([log_scales[groups == g].mean() for g in range(n_scales)])

        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            if self._late():
                raise TimeoutError
            scales = np.exp(u[:-1])[groups]
            error, slope, by_alpha = slopes.at(scales, float(np.exp(u[-1])))
            slope = np.bincount(groups, slope, minlength=n_scales)
            whole = np.append(slope, by_alpha * np.exp(u[-1])) / max(error, 1e-300)
            away = u[:-1] - u[:-1].mean()
            value = float(np.log(max(error, 1e-300)) + away @ away / (_SPREAD**2 * n))
            whole[:-1] += 2 * away / (_SPREAD**2 * n)
            seen.append((value, u.copy()))
            return value, whole

        seen: list[tuple[float, np.ndarray]] = []
        first = np.append(begin, log_alpha)
        bounds = [(b - _FARTHEST, b + _FARTHEST) for b in begin]
        bounds.append((log_alpha - 2 * _FARTHEST, log_alpha + 2 * _FARTHEST))
        try:
            options = {"maxiter": steps, "maxfun": steps + steps // 2}
            minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        except (TimeoutError, np.linalg.LinAlgError):
            pass
        best = min(seen, key=lambda found: found[0])[1] if seen else first
        return np.exp(best[:-1])[groups]

    def _texts(self, D: int) -> None:
        """String kernels for the columns of texts, added to what there is."""
        rows, vector = self.rows(self.few), self.kernel if D else None
        points = self._rows_of(self.coding, rows)
        if vector is not None:
            vector = vector.on(list(range(D)))
            self.kernel, self.error = vector, np.inf
            self._try("numbers and categories alone", self.coding, vector, points, rows)
        for place in range(D, D + len(self.coding.texts_)):
            before: Kernel | None = self.kernel if np.isfinite(self.error) else None
            texts = self.coding.text(self.X, place - D)
            for name, string in _string_kernels(texts):
                kernel = string.normalize().on(place)
                for weight in (0.3, 1.0, 3.0) if before is not None else (1.0,):
                    whole = kernel if before is None else before + weight * kernel
                    column = f"{name} of column {self.coding.texts_[place - D]}, weight {weight:g}"
                    self._try(column, self.coding, whole, points, rows)
                    if self._late():
                        return


class _Look:
    """One family of kernels on some rows in one scaling, with widths about the median distance."""

    def __init__(self, search: Search, family: str, coding: Any, rows: np.ndarray):
        self.search, self.family, self.coding = search, family, coding
        self.X, self.rows = search.points(coding, rows), rows
        self.median = median_distance(self.X)
        self.errors: dict[float, float] = {}

    @property
    def best(self) -> float:
        return min(self.errors, key=lambda width: self.errors[width])

    @property
    def least(self) -> float:
        return self.errors[self.best]

    def at(self, width: float) -> float:
        if width not in self.errors:
            search, before = self.search, self.search.error
            error = search._try(
                self.name(width), self.coding, self.kernel(width), self.X, self.rows
            )
            self.errors[width] = error
            if error < before:
                search.width = width
        return self.errors[width]

    def name(self, width: float) -> str:
        return f"{self.family}, width {width:g}"

    def kernel(self, width: float) -> Kernel:
        if sp.issparse(self.X):
            return BY_LENGTH[self.family](width * self.median)
        return FAMILIES[self.family](np.full(self.X.shape[1], width * self.median))

    def climb(self, steps: tuple[float, ...]) -> None:
        """On from the best width by a step as long as that is better; else by the next step."""
        first = self.best
        for step in steps:
            while not self.search._late() and _NARROWEST <= step * self.best <= _WIDEST:
                best = self.best
                if not self.at(step * best) < (1 - GAIN) * self.errors[best]:
                    break
            if self.best != first:
                return


def _same_class(kernel: Kernel) -> Callable[[np.ndarray], Kernel]:
    """Kernels of the same family with other scales."""
    parameters = kernel.get_params(deep=False)
    return lambda scales: type(kernel)(**{**parameters, "scales": scales})


def _string_kernels(texts: Iterable[str]) -> Iterator[tuple[str, Kernel]]:
    texts = list(texts)
    typical = float(np.median([len(text) for text in texts if text] or [0]))
    for k in (3, 5) if typical > _SHORT else [k for k in (1, 2, 3, 5) if k < typical or k == 1]:
        yield f"Spectrum({k})", K.Spectrum(k)
    if len({len(text) for text in texts}) == 1 and len(texts[0]) <= 1000:
        yield "WeightedDegree(8)", K.WeightedDegree(min(8, max(1, len(texts[0]))))


def median_distance(X: Any) -> float:
    """The median distance between points, dense or sparse; 1 where most are the same."""
    few = X[:200]
    products = (few @ few.T).toarray() if sp.issparse(few) else few @ few.T
    squares = products.diagonal()
    D = squares[:, None] + squares - 2 * products
    between = D[np.triu_indices(len(D), 1)]
    median = float(np.sqrt(max(np.median(between), 0.0))) if between.size else 0.0
    return median if median > 1e-6 * float(np.sqrt(squares.max(initial=0.0))) else 1.0


def take(table: Any, rows: np.ndarray) -> Any:
    """Some rows of a table."""
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]
