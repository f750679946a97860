"""The search for a kernel: scaling, family, width and one scale per feature, by leave-one-out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mercer import kernels as K
from mercer.auto.leave_one_out import best_on_path, error_and_slopes
from mercer.auto.tables import NUMBER, SCALINGS, TableCoding
from mercer.kernels import Kernel

# Rows for the first look at every candidate, and for scales of features one by one.
_FIRST_ROWS, _MORE_ROWS = 400, 500
# Widths about the median distance; the search goes on past the last while that is better.
_WIDTHS = (0.25, 1.0, 4.0)
_NARROWEST, _WIDEST = 4.0**-4, 4.0**4
# Scales one by one are for no more coordinates than this, take so many steps, and stay this near.
_MOST_SCALES = 200
_STEPS = 15
_FARTHEST = np.log(100.0)
# The standard deviation that logarithms of scales are taken to have.
_SPREAD = 1.5

FAMILIES: dict[str, Callable[..., Kernel]] = {
    "RBF": lambda scales: K.RBF(1.0, scales=scales),
    "Matern(2.5)": lambda scales: K.Matern(2.5, 1.0, scales=scales),
    "Matern(1.5)": lambda scales: K.Matern(1.5, 1.0, scales=scales),
    "Exponential": lambda scales: K.Exponential(1.0, scales=scales),
}


class Clock:
    """Seconds since the start, and whether they are spent."""

    def __init__(self, limit: float | None):
        self.begun, self.limit = time.perf_counter(), limit

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def left(self) -> float:
        return np.inf if self.limit is None else max(0.0, self.limit - self.seconds)


class Search:
    """Candidates tried one after another on a few hundred rows, best first by squared error.

    Parameters
    ----------
    X : table
    Y : (n, t) array
        Targets, centred.
    clock : Clock
        Once half its time is spent, the best so far is taken.
    random : RandomState

    Attributes
    ----------
    coding : TableCoding
        Of the best candidate.
    kernel : Kernel
        On the points of ``coding``.
    alpha : float
        The best regulariser for the few hundred rows.
    error : float
        The mean squared leave-one-out error on them.
    tried : list of dict
    """

    def __init__(self, X: Any, Y: np.ndarray, clock: Clock, random: np.random.RandomState):
        self.X, self.Y, self.clock = X, Y, clock
        self.order = random.permutation(len(Y))
        self.tried: list[dict[str, Any]] = []
        self.error, self.alpha = np.inf, 1.0
        self.codings = {name: TableCoding(name).fit(X) for name in ("standard",)}
        self.coding = self.codings["standard"]
        self.kernel: Kernel = K.Constant(1.0)

    def run(self) -> Search:
        D = len(self.coding.owners_)
        if D:
            self._scalings_and_widths()
            self._families()
            self._scales_one_by_one()
        if self.coding.texts_:
            self._texts(D)
        return self

    # Rows and points.

    def rows(self, count: int, skip: int = 0) -> np.ndarray:
        """Some rows in random order, after others."""
        return self.order[skip : skip + count]

    def points(self, coding: TableCoding, rows: np.ndarray) -> np.ndarray:
        """The coordinates of some rows, without texts."""
        points = coding.transform(_take(self.X, rows))
        return points[:, : len(coding.owners_)].astype(np.float64)

    def _late(self) -> bool:
        return self.clock.limit is not None and self.clock.seconds > 0.5 * self.clock.limit

    def _try(self, name: str, coding: TableCoding, kernel: Kernel, X: Any, Y: np.ndarray) -> float:
        """Look at a candidate, and keep it if it is the best so far."""
        error, alpha = best_on_path(kernel, X, Y)
        self._note(name, coding, error)
        if error < self.error:
            self.error, self.alpha, self.kernel, self.coding = error, alpha, kernel, coding
        return error

    def _note(self, name: str, coding: TableCoding, error: float) -> None:
        seconds = self.clock.seconds
        self.tried.append(
            {"kernel": name, "scaling": coding.scaling, "error": error, "seconds": seconds}
        )

    # What is tried.

    def _scalings_and_widths(self) -> None:
        rows = self.rows(_FIRST_ROWS)
        numbers = self.coding.kinds_.count(NUMBER)
        for scaling in SCALINGS if numbers else ("standard",):
            if scaling != "standard":
                self.codings[scaling] = TableCoding(scaling).fit(self.X)
            X = self.points(self.codings[scaling], rows)
            median = median_distance(X)
            self._widths("RBF", self.codings[scaling], X, self.Y[rows], median, _WIDTHS)
            if self._late():
                break

    def _families(self) -> None:
        rows, coding = self.rows(_FIRST_ROWS), self.coding
        X = self.points(coding, rows)
        for family in FAMILIES:
            if family != "RBF" and not self._late():
                self._widths(family, coding, X, self.Y[rows], median_distance(X), _WIDTHS[1:])
        if not self._late():
            self._try("Linear", coding, K.Linear(), X, self.Y[rows])

    def _widths(
        self,
        family: str,
        coding: TableCoding,
        X: np.ndarray,
        Y: np.ndarray,
        median: float,
        widths: tuple[float, ...],
    ) -> None:
        """Widths about the median distance, and on in the direction that is better."""
        errors: dict[float, float] = {}

        def look(width: float) -> float:
            kernel = FAMILIES[family](np.full(X.shape[1], width * median))
            return self._try(f"{family}, width {width:g}", coding, kernel, X, Y)

        for width in widths:
            errors[width] = look(width)
        while not self._late():
            best = min(errors, key=lambda width: errors[width])
            step = 4.0 if best == max(errors) else 0.25 if best == min(errors) else 1.0
            if step == 1.0 or not _NARROWEST <= step * best <= _WIDEST:
                return
            errors[step * best] = look(step * best)

    def _scales_one_by_one(self) -> None:
        """Every feature's own scale, if rows that had no part in it agree that it is better."""
        groups = np.unique(self.coding.owners_, return_inverse=True)[1]
        if (
            "scales" not in self.kernel.get_params()
            or not 2 <= groups.max() + 1 <= _MOST_SCALES
            or self._late()
        ):
            return
        half = min(_MORE_ROWS, len(self.order) // 2)
        judges = self.rows(_MORE_ROWS, skip=half)
        kernel = self._with_scales(self.kernel, self.alpha, self.rows(half), groups)
        X, Y = self.points(self.coding, judges), self.Y[judges]
        before, _ = best_on_path(self.kernel, X, Y)
        after, alpha = best_on_path(kernel, X, Y)
        self._note("the best so far, a scale per feature, on other rows", self.coding, after)
        self._note("the same without, on those rows", self.coding, before)
        if after >= before:
            return
        if half < _MORE_ROWS:
            rows = self.rows(_MORE_ROWS)
            kernel = self._with_scales(kernel, alpha, rows, groups)
            after, alpha = best_on_path(kernel, self.points(self.coding, rows), self.Y[rows])
        self.kernel, self.error, self.alpha = kernel, after, alpha

    def _with_scales(
        self, kernel: Kernel, alpha: float, rows: np.ndarray, groups: np.ndarray
    ) -> Kernel:
        """The kernel with scales that fit some rows."""
        scales = np.asarray(kernel.get_params()["scales"], dtype=float)
        X, Y, build = self.points(self.coding, rows), self.Y[rows], _same_class(kernel)
        return build(self._descend(build, X, Y, np.log(scales), np.log(alpha), groups))

    def _descend(
        self,
        build: Callable[[np.ndarray], Kernel],
        X: np.ndarray,
        Y: np.ndarray,
        log_scales: np.ndarray,
        log_alpha: float,
        groups: np.ndarray,
    ) -> np.ndarray:
        """The scales, and alpha with them, by L-BFGS on the logarithm of the error.

        A scale that the data do not tell stays near the others: its logarithm has a normal prior.
        """
        n_scales = int(groups.max()) + 1
        begin = np.array([log_scales[groups == g].mean() for g in range(n_scales)])

        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            if self._late():
                raise TimeoutError
            scales = np.exp(u[:-1])[groups]
            error, slopes, by_alpha = error_and_slopes(build(scales), X, Y, float(np.exp(u[-1])))
            slope = np.bincount(groups, slopes * scales, minlength=n_scales)
            whole = np.append(slope, by_alpha * np.exp(u[-1])) / max(error, 1e-300)
            away = u[:-1] - u[:-1].mean()
            value = float(np.log(max(error, 1e-300)) + away @ away / (_SPREAD**2 * len(Y)))
            whole[:-1] += 2 * away / (_SPREAD**2 * len(Y))
            seen.append((value, u.copy()))
            return value, whole

        seen: list[tuple[float, np.ndarray]] = []
        first = np.append(begin, log_alpha)
        bounds = [(b - _FARTHEST, b + _FARTHEST) for b in begin]
        bounds.append((log_alpha - 2 * _FARTHEST, log_alpha + 2 * _FARTHEST))
        try:
            options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS}
            minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        except (TimeoutError, np.linalg.LinAlgError):
            pass
        best = min(seen, key=lambda found: found[0])[1] if seen else first
        return np.exp(best[:-1])[groups]

    def _texts(self, D: int) -> None:
        """String kernels for the columns of texts, added to what there is."""
        rows, vector = self.rows(_FIRST_ROWS), self.kernel if D else None
        points, Y = self.coding.transform(_take(self.X, rows)), self.Y[rows]
        if vector is not None:
            vector = vector.on(list(range(D)))
            self.kernel, self.error = vector, np.inf
            self._try("numbers and categories alone", self.coding, vector, points, Y)
        for place in range(D, D + len(self.coding.texts_)):
            before: Kernel | None = self.kernel if np.isfinite(self.error) else None
            texts = self.coding.text(self.X, place - D)
            for name, string in _string_kernels(texts):
                kernel = string.normalize().on(place)
                for weight in (0.3, 1.0, 3.0) if before is not None else (1.0,):
                    whole = kernel if before is None else before + weight * kernel
                    column = f"{name} of column {self.coding.texts_[place - D]}, weight {weight:g}"
                    self._try(column, self.coding, whole, points, Y)
                    if self._late():
                        return


def _same_class(kernel: Kernel) -> Callable[[np.ndarray], Kernel]:
    """Kernels of the same family with other scales."""
    parameters = kernel.get_params(deep=False)
    return lambda scales: type(kernel)(**{**parameters, "scales": scales})


def _string_kernels(texts: Iterable[str]) -> Iterator[tuple[str, Kernel]]:
    texts = list(texts)
    for k in (3, 5):
        yield f"Spectrum({k})", K.Spectrum(k)
    if len({len(text) for text in texts}) == 1 and len(texts[0]) <= 1000:
        yield "WeightedDegree(8)", K.WeightedDegree(min(8, max(1, len(texts[0]))))


def median_distance(X: np.ndarray) -> float:
    """The median distance between points, 1 where most are the same."""
    few = X[:200]
    squares = np.einsum("ij,ij->i", few, few)
    D = squares[:, None] + squares - 2 * few @ few.T
    between = D[np.triu_indices(len(few), 1)]
    median = float(np.sqrt(max(np.median(between), 0.0))) if between.size else 0.0
    return median if median > 1e-6 * float(np.sqrt(squares.max(initial=0.0))) else 1.0


def _take(table: Any, rows: np.ndarray) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]
