"""A search for the structure of a function: which sum of simple parts explains the data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._sklearn import StrOptions
from mercer.arrays import DROP, refuse_masked
from mercer.arrays.remote import over_blocks
from mercer.arrays.threads import one_blas_thread
from mercer.estimators.constraints import POSITIVE, at_least
from mercer.estimators.fitting import atomic_fit, warn_of_convergence
from mercer.estimators.gaussian_process.regression import GaussianProcessRegressor
from mercer.estimators.gaussian_process.structure_moves import (
    COMPONENTS,
    Feature,
    separated,
)
from mercer.estimators.gaussian_process.structure_search import GreedySearch
from mercer.estimators.gaussian_process.structure_words import (
    DAYS,
    Axis,
    described,
    main_feature,
    share_text,
)
from mercer.estimators.scores import Regressor
from mercer.kernels import Constant, Kernel
from mercer.solvers.evidence.covariance import NOISE


class StructurePart(NamedTuple):
    """A part of a fitted function, and its posterior at some points.

    Attributes
    ----------
    kernel : Kernel
    mean, std : (m,) arrays
    words : str
    share : float
        Variance of the part's mean at the training points, relative to that of the targets.
    """

    kernel: Kernel
    mean: np.ndarray
    std: np.ndarray
    words: str
    share: float


class StructureSearch(Regressor, BaseEstimator):
    r"""A Gaussian process whose kernel, a sum of products, is found by a greedy search.

    .. math::
        f = \mu + \sum_i f_i, \qquad f_i \sim \mathrm{GP}(0, k_i), \qquad
        k_i = a_i \prod_j k_{ij}

    The factors :math:`k_{ij}` are linear, smooth (`Matern`), periodic, rational quadratic and
    `Transition` kernels of one feature each. Every step adds a term, multiplies one by a factor,
    changes one at a point, replaces a factor, or removes a term; the step with the largest
    evidence, less :math:`\tfrac12 \log n` for each hyperparameter, is taken until none is worth
    it. Each :math:`f_i` has a posterior of its own, a share of the variance and a description in
    words. For series and for up to about five features.

    Parameters
    ----------
    components : tuple of str, default=all
        Which of "linear", "smooth", "periodic", "rational_quadratic" and "change_point" to use.
    max_steps : int, default=8
        Most steps.
    max_points : int, default=250
        Points that the search looks at, drawn at random; the result is fitted to all.
    unit : {"year", "quarter", "month", "week", "day", "hour", "minute", "second"}, default=None
        Unit of the first feature for descriptions. None takes it from the name of the column, if
        that is such a word; columns of dates need none.
    max_time : float or None, default=60.0
        Seconds of the search. The best kernel so far is fitted.
    callback : callable or None, default=None
        Called after each candidate with its entry of ``report_["tried"]``. The search ends if it
        returns True.
    random_state : int, RandomState instance or None, default=0
        Draws the points.

    Attributes
    ----------
    kernel_ : Kernel
        Of features scaled to [0, 1] by their range, ``low_`` and ``span_``, and of standardised
        targets.
    model_ : GaussianProcessRegressor
        On these features.
    axes_ : list of Axis
        Name, range and unit of each feature.
    X_train_ : ndarray of shape (n_samples, n_features)
        The training points, dates as days since 1970.
    noise_ : float
        Standard deviation of the noise, in units of y.
    report_ : dict
        ``"tried"``: kernel, step, log evidence, score and seconds of each candidate;
        ``"parts"``: words, kernel, share and main feature of each part, the largest first;
        ``"noise"``: its standard deviation and share; ``"evidence"``, ``"stopped"`` and
        ``"seconds"``.

    References
    ----------
    Duvenaud, Lloyd, Grosse, Tenenbaum and Ghahramani (2013), "Structure discovery in nonparametric
    regression through compositional kernel search", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import StructureSearch
    >>> month = np.arange(96.0)[:, None]
    >>> y = 0.1 * month[:, 0] + 2 * np.sin(2 * np.pi * month[:, 0] / 12)
    >>> y += 0.2 * np.random.default_rng(0).normal(size=96)
    >>> search = StructureSearch(("linear", "periodic"), unit="month").fit(month, y)
    >>> print(search.describe())
    Sum of 2 parts and noise:
    1. a rising linear trend; 86 % of the variance
    2. a yearly pattern; 22 % of the variance
    Noise of standard deviation 0.19; 0.4 % of the variance.
    """

    _parameter_constraints: dict = {
        "components": ["array-like"],
        "max_steps": [at_least(1)],
        "max_points": [at_least(10)],
        "unit": [StrOptions(set(DAYS)), None],
        "max_time": [POSITIVE, None],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        components: Any = COMPONENTS,
        *,
        max_steps: int = 8,
        max_points: int = 250,
        unit: str | None = None,
        max_time: float | None = 60.0,
        callback: Callable[[dict[str, Any]], Any] | None = None,
        random_state: Any = 0,
    ):
        self.components = components
        self.max_steps = max_steps
        self.max_points = max_points
        self.unit = unit
        self.max_time = max_time
        self.callback = callback
        self.random_state = random_state

    @atomic_fit
    def fit(self, X: Any, y: Any) -> StructureSearch:
        """Search, and fit the best kernel to all points.

        Ctrl-C ends the search and fits the best kernel so far.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers or dates; of a series the times.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : StructureSearch
        """
        self._check_components()
        refuse_masked(X)
        refuse_masked(y, "y", DROP)
        X, days = _without_dates(X)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        self.low_, self.span_ = X.min(axis=0), np.ptp(X, axis=0)
        self.span_[self.span_ == 0] = 1.0
        self.axes_ = self._named_axes(days)
        self.X_train_, P = X, self._scaled(X)
        began = time.perf_counter()
        rows = self._some_rows(len(y))
        deadline = None if self.max_time is None else began + self.max_time
        search = GreedySearch(P[rows], _standardised(y)[rows], Feature.all_of(P), deadline)
        search.listener, search.n_all = self.callback, len(y)
        try:
            with one_blas_thread():  # many small factorisations
                search.run(tuple(self.components), self.max_steps)
        except KeyboardInterrupt:
            search.stopped = "interrupted"
            warn_of_convergence("the search was interrupted; the best kernel so far is fitted")
        self.model_ = self._fitted(P, y, search)
        self.kernel_, self.result_ = self.model_.kernel_, self.model_.result_
        self._report(search, P, y, began)
        return self

    @over_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean at new points, with the standard deviation of new targets if wanted.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (m,)
        std : ndarray of shape (m,), only with ``return_std``
        """
        P = self._query(X)
        return self.model_.predict(P, return_std=return_std)

    def predict_parts(self, X: Any) -> list[StructurePart]:
        """The posterior of each part at new points, the part with the largest share first.

        The means add up to the prediction less a constant. A pattern that repeats has no level of
        its own: over a period it is zero on average, up to the change of its size.

        Parameters
        ----------
        X : array-like of shape (m, n_features)

        Returns
        -------
        list of StructurePart
        """
        P, kernels = self._query(X), [part for part, _ in separated(self.kernel_)]
        found = []
        for entry in self.report_["parts"]:
            kernel = reduce(add, [kernels[place] for place in entry["places"]])
            mean, std = self._posterior_of(kernel, P)
            found.append(StructurePart(kernel, mean, std, entry["words"], entry["share"]))
        return found

    def describe(self) -> str:
        """The parts in plain English, one per line."""
        check_is_fitted(self)
        parts, noise = self.report_["parts"], self.report_["noise"]
        count = f"{len(parts)} part" + ("" if len(parts) == 1 else "s")
        lines = [f"Sum of {count} and noise:"] if parts else ["A constant and noise:"]
        for i, part in enumerate(parts, 1):
            lines.append(f"{i}. {part['words']}; {share_text(part['share'])}")
        lines.append(
            f"Noise of standard deviation {noise['std']:.2g}; {share_text(noise['share'])}."
        )
        return "\n".join(lines)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Samples of the targets at new points.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        ndarray of shape (m, n_samples)
        """
        P = self._query(X)
        return self.model_.sample_y(P, n_samples, random_state)

    @property
    def y_train_(self) -> np.ndarray:
        """The training targets."""
        return self.model_.y_train_ * self.model_._y_train_std + self.model_._y_train_mean

    # What these are made of.

    def _check_components(self) -> None:
        given = tuple(self.components)
        unknown = [name for name in given if name not in COMPONENTS]
        if unknown or not set(given) - {"change_point"}:
            raise ValueError(
                f"components={given!r}; expected some of {', '.join(map(repr, COMPONENTS))}, and "
                "more than 'change_point' alone"
            )

    def _named_axes(self, days: set[int]) -> list[Axis]:
        names = getattr(self, "feature_names_in_", None)
        found = []
        for j, (low, span) in enumerate(zip(self.low_, self.span_, strict=True)):
            name = f"x{j}" if names is None else str(names[j])
            unit = self.unit if j == 0 and self.unit else name.lower().rstrip("s")
            unit = "day" if j in days else unit if unit in DAYS else None
            found.append(Axis(name, float(low), float(span), unit, j in days))
        return found

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self.low_) / self.span_

    def _query(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        refuse_masked(X)
        X, _ = _without_dates(X)
        return self._scaled(validate_data(self, X, reset=False, dtype=np.float64))

    def _some_rows(self, n: int) -> np.ndarray:
        if n <= self.max_points:
            return np.arange(n)
        random = check_random_state(self.random_state)
        return np.sort(random.choice(n, self.max_points, replace=False))

    def _fitted(
        self, P: np.ndarray, y: np.ndarray, search: GreedySearch
    ) -> GaussianProcessRegressor:
        best = search.best
        kernel = Constant(0.0) if best.kernel is None else best.kernel
        left = None if search.deadline is None else search.deadline - time.perf_counter()
        settled: dict[str, Any] = {"optimizer": None, "noise": best.noise}
        if search.n_all > len(search.y) and best.kernel is not None and (left is None or left > 0):
            settled = {"noise": "learn", "max_time": left, "bounds": search.bounds(kernel)}
            settled["bounds"][NOISE] = (best.noise / 5, best.noise * 5)
        model = GaussianProcessRegressor(
            kernel, mean="constant", normalize_y=True, random_state=0, **settled
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # bounds are the search's own
            return model.fit(P, y)

    def _posterior_of(self, part: Kernel, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of a part at scaled points, in units of y."""
        scale = float(self.model_._y_train_std)
        posterior = self.model_.posterior_
        mean = posterior.mean(P, part=part)[:, 0] * scale
        return mean, np.sqrt(posterior.variance(P, part=part)) * scale

    def _report(self, search: GreedySearch, P: np.ndarray, y: np.ndarray, began: float) -> None:
        model, variance = self.model_, float(np.var(y)) or 1.0
        noise = model.noise_ * float(model._y_train_std) ** 2
        self.noise_ = float(np.sqrt(noise))
        parts: dict[str, dict[str, Any]] = {}
        for place, (kernel, term) in enumerate(separated(self.kernel_)):
            mean, _ = self._posterior_of(kernel, P)
            words = described(term, self.axes_, P, mean, float(np.sqrt(variance)))
            new = {"words": words, "kernel": repr(term), "places": [place], "mean": mean}
            known = parts.setdefault(words, {**new, "feature": main_feature(term)})
            if known["places"] != [place]:  # the same words: one part
                known["kernel"] += f" + {term!r}"
                known["places"].append(place)
                known["mean"] = known["mean"] + mean
        for part in parts.values():
            part["share"] = float(np.var(part.pop("mean"))) / variance
        self.report_ = {
            "tried": search.tried,
            "parts": sorted(parts.values(), key=lambda entry: -entry["share"]),
            "noise": {"std": self.noise_, "share": noise / variance},
            "kernel": repr(self.kernel_),
            "evidence": float(model.log_marginal_likelihood_value_),
            "stopped": search.stopped,
            "seconds": time.perf_counter() - began,
        }


def _standardised(y: np.ndarray) -> np.ndarray:
    return (y - y.mean()) / (float(np.std(y)) or 1.0)


def _without_dates(X: Any) -> tuple[Any, set[int]]:
    """Columns of dates as days since 1970, and which they are."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "M":
        X = np.asarray(X).reshape(len(X), -1)
        return X.astype("datetime64[s]").astype(float) / 86400, set(range(X.shape[1]))
    kinds = [getattr(kind, "kind", "O") for kind in getattr(X, "dtypes", ())]
    days = {j for j, kind in enumerate(kinds) if kind == "M"}
    if not days:
        return X, days
    X = X.copy()
    for j in days:
        values = X.iloc[:, j].to_numpy(dtype="datetime64[s]").astype(float) / 86400
        X.isetitem(j, values)
    return X, days
