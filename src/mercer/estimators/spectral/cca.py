"""Kernel canonical correlation analysis of two or more views."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer._sklearn import StrOptions
from mercer.arrays import as_numpy
from mercer.arrays.remote import over_blocks
from mercer.dependence.measures import PermutationTest
from mercer.estimators.constraints import KERNEL, NON_NEGATIVE, at_least
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.inputs import input_tags
from mercer.estimators.spectral.regularization import (
    REGULARIZATIONS,
    choose_regularization,
    penalties,
)
from mercer.estimators.spectral.views import (
    Decomposition,
    KernelView,
    in_each,
    second_view,
    view_name,
)
from mercer.solvers.spectral.canonical import (
    best_pvalue,
    canonical_variates,
    column_correlations,
    leading_correlations,
    permuted_correlations,
)

#: Parameters of which each view may have its own.
PER_VIEW = ("kernel", "gamma", "degree", "coef0", "kernel_params")

#: A regulariser this many times the tolerance of factors makes little of what they leave out.
ENOUGH = 1e4


class KernelCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Kernel canonical correlation analysis of two or more views of the same points.

    For two views, find f in the RKHS of the first kernel and g in that of the second that maximise
    the regularised correlation

    .. math:: \frac{\mathrm{cov}(f(x), g(y))}
              {\sqrt{(\mathrm{var}\, f(x) + \kappa_1 \|f\|^2)
                     (\mathrm{var}\, g(y) + \kappa_2 \|g\|^2)}},

    which for centred Gram matrices :math:`K_1, K_2` of n points is

    .. math:: \max_{\alpha, \beta} \alpha^\top K_1 K_2 \beta \quad\text{subject to}\quad
              \alpha^\top (K_1^2 + n \kappa_1 K_1) \alpha =
              \beta^\top (K_2^2 + n \kappa_2 K_2) \beta = 1,

    and further pairs under the same conditions, uncorrelated with the previous ones in this inner
    product. The penalty is :math:`\kappa_v = \rho \, \mathrm{tr}(K_v) / n` with :math:`\rho` the
    parameter ``regularization``, relative to the total variance of the view in its feature space:
    multiplying a kernel by a constant changes nothing. In a direction with the fraction
    :math:`\rho` of that variance, penalty and variance are equal. Without regularisation, kernels
    with invertible Gram matrices find correlation 1 between independent views.

    More than two views use Kettenring's MAXVAR, the leading eigenvector of the matrix of all
    regularised correlations between the views, which for two views is the same problem.

    Parameters
    ----------
    n_components : int, default=2
        Number of sets of variates; at most the smallest rank of the Gram matrices is returned.
    kernel : str, Kernel, callable, or list of these, default="rbf"
        One for all views, or a list with one per view: kernel objects (also of strings, trees,
        graphs, sets), scikit-learn's names, or functions of two rows.
    gamma : float, None or list, default=None
        For named kernels with this parameter; None is 1 / n_features of the view. Lists here and
        below have one entry per view.
    degree : float or list, default=3
        For "poly".
    coef0 : float or list, default=1
        For "poly" and "sigmoid".
    kernel_params : dict, None or list, default=None
        Further arguments of callable kernels.
    regularization : float or "loo", default=0.1
        The :math:`\rho` above. "loo" chooses the value from a grid between 1e-4 and 10 with the
        largest correlation of the leave-one-out predictions of the first variates.
    solver : {"auto", "dense", "low_rank"}, default="auto"
        "dense" decomposes each Gram matrix; "low_rank" decomposes a factor by randomly pivoted
        Cholesky with the rank that ``tol`` requires. "auto" is "low_rank" for more than 500 points
        and a valid kernel, unless up to 5000 points need a rank above a third of their number, or
        ``regularization`` is too small compared with ``tol``.
    tol : float, default=1e-10
        Fraction of the trace of a Gram matrix that its factor may omit.
    max_rank : int or None, default=None
        Maximum rank of factors; None is 2000. ``result_.bound`` bounds the effect of the omitted
        rest.
    indefinite : {"error", "clip", "flip", "shift"}, default="error"
        What to do with a kernel that is not positive semidefinite: refuse it, or correct its Gram
        matrix. "shift" changes only the diagonal of the training points; new points use the
        uncorrected kernel.

    Attributes
    ----------
    canonical_correlations_ : ndarray of shape (n_components,)
        Regularised correlations on the training points, decreasing. For m > 2 views
        :math:`(\mu - 1) / (m - 1)` with the MAXVAR eigenvalue :math:`\mu`, a weighted mean over
        pairs of views.
    n_components_ : int
        Number of sets of variates.
    regularization_ : float
        The :math:`\rho` used.
    regularizations_, loo_scores_ : ndarrays of shape (n_candidates,)
        The candidates and their leave-one-out correlations, with ``regularization="loo"``.
    views_ : list of KernelView
        For each view the kernel ``kernel_``, the training points ``X_fit_``, and ``dual_coef_`` and
        ``offset_`` with variates ``kernel_(x, X_fit_) @ dual_coef_ - offset_``; with a low-rank
        factor only the points ``X_fit_[pivots_]`` have coefficients. On the training points a
        variate has mean zero and var + kappa \|f\|^2 = 1.
    views_listed_ : bool
        Whether `fit` was given a list of views, so `transform` also reads a list as views.
    result_ : Result
        The solver's result. ``gap`` is the largest violation of the stationarity condition. With
        low-rank factors, ``bound`` bounds how much larger the correlations of the full Gram
        matrices can be (None otherwise), and ``method`` reports the ranks.

    References
    ----------
    Bach and Jordan, "Kernel independent component analysis", JMLR 3 (2002). Hardoon, Szedmak,
    Shawe-Taylor, "Canonical correlation analysis: an overview with application to learning
    methods", Neural Computation 16 (2004). Fukumizu, Bach, Gretton, "Statistical consistency of
    kernel canonical correlation analysis", JMLR 8 (2007). Kettenring, "Canonical analysis of
    several sets of variables", Biometrika 58 (1971).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.spectral.cca import KernelCCA
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(-3, 3, size=(200, 1))
    >>> X = np.hstack([np.cos(t), rng.normal(size=(200, 1))])
    >>> Y = t + 0.1 * rng.normal(size=(200, 1))
    >>> cca = KernelCCA(n_components=1, regularization=0.02).fit(X[:100], Y[:100])
    >>> bool(cca.score(X[100:], Y[100:]) > 0.9)
    True
    >>> cca.permutation_test(99, random_state=0).pvalue
    0.01
    """

    _parameter_constraints: dict = {
        **{name: [*KERNEL[name], list, tuple] for name in PER_VIEW},
        "n_components": [at_least(1)],
        "regularization": [NON_NEGATIVE, StrOptions({"loo"})],
        "solver": [StrOptions({"auto", "dense", "low_rank"})],
        "tol": [NON_NEGATIVE],
        "max_rank": [at_least(1), None],
        "indefinite": KERNEL["indefinite"],
    }

    def __init__(
        self,
        n_components=2,
        *,
        kernel="rbf",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        regularization=0.1,
        solver="auto",
        tol=1e-10,
        max_rank=None,
        indefinite="error",
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.regularization = regularization
        self.solver = solver
        self.tol = tol
        self.max_rank = max_rank
        self.indefinite = indefinite

    @atomic_fit
    def fit(self, X: Any, Y: Any = None, *, y: Any = None) -> KernelCCA:
        """Compute the canonical variates.

        Parameters
        ----------
        X : the first view, in the form its kernel takes; or, with Y None, the list of all views.
        Y : the second view, of the same points in the same order. A vector is one column.
        y : another name for Y, used by scikit-learn.

        Returns
        -------
        self
        """
        Y = second_view(Y, y)
        data = self._training_views(X, Y)
        views = [self._view(v, len(data)) for v in range(len(data))]
        in_each(views, data, KernelView.remember)
        check_consistent_length(*(view.X_fit_ for view in views))
        found = self._decompose(views)
        spectra = [one.whitening for one in found]
        self.regularization_ = choose_regularization(self, spectra)
        self.result_ = canonical_variates(
            spectra, penalties(spectra, self.regularization_), self.n_components
        ).advised(
            f"regularization={self.regularization_:g} lets in directions with almost no variance: "
            "raise it"
        )
        ranks = ", ".join(str(view.rank) for view in spectra)
        self.result_ = replace(self.result_, method=f"{self.result_.method}, ranks {ranks}")
        self.canonical_correlations_ = self.result_.value.correlations
        self.n_components_ = len(self.canonical_correlations_)
        root_n = np.sqrt(len(spectra[0].vectors))  # from sums of squares to variances
        for view, one, alpha in zip(views, found, self.result_.value.directions, strict=True):
            view.project_onto(root_n * alpha, one)
        self.views_ = views
        # How the views were given decides how a lone argument of transform is read.
        self.views_listed_ = Y is None
        return self

    def _training_views(self, X: Any, Y: Any) -> list[Any]:
        if Y is not None:
            return [X, Y]
        if not isinstance(X, list | tuple) or len(X) < 2:
            raise ValueError(
                "KernelCCA requires y to be passed, but the target y is None: give the second "
                "view as Y, or all views as one list fit([X1, X2, ...])"
            )
        return list(X)

    def _view(self, v: int, m: int) -> KernelView:
        """The parameters of view v of m."""
        chosen = {}
        for name in PER_VIEW:
            value = getattr(self, name)
            if isinstance(value, list | tuple):
                if len(value) != m:
                    raise ValueError(
                        f"{name} has {len(value)} entries for {m} views; give one per view, or a "
                        "single value for all"
                    )
                value = value[v]
            chosen[name] = value
        return KernelView(**chosen, indefinite=self.indefinite)

    def _decompose(self, views: list[KernelView]) -> list[Decomposition]:
        solver = self.solver
        if solver == "auto" and self.regularization != "loo":
            # A factor is near enough where what it leaves out is little compared with the penalty.
            solver = "auto" if self.regularization >= ENOUGH * self.tol else "dense"
        return [
            view.decompose(view_name(v), solver, self.tol, self.max_rank)
            for v, view in enumerate(views)
        ]

    @over_blocks
    def transform(self, X: Any, Y: Any = None, *, y: Any = None) -> Any:
        """The canonical variates of new points.

        Parameters
        ----------
        X : the first view of the points; or the list of all views, if `fit` was given a list.
        Y : the second view
        y : another name for Y

        Returns
        -------
        ndarray of shape (n_queries, n_components), or a tuple with one per view
            The variates of the first view if only X is given.
        """
        check_is_fitted(self)
        data = self._query_views(X, second_view(Y, y))
        if len(data) == 1:
            return self.views_[0].variates(data[0])
        return tuple(in_each(self.views_, data, KernelView.variates))

    def _query_views(self, X: Any, Y: Any) -> list[Any]:
        if Y is not None:
            data = [X, Y]
        elif self.views_listed_ and isinstance(X, list | tuple):
            data = list(X)
        else:
            return [X]
        if len(data) != len(self.views_):
            raise ValueError(
                f"KernelCCA was fitted on {len(self.views_)} views and found {len(data)}; pass the "
                "same views, in the same order"
            )
        return data

    def fit_transform(self, X: Any, Y: Any = None, *, y: Any = None) -> Any:
        """Fit, and return the variates of the training points.

        Parameters
        ----------
        X, Y, y : as for `fit`

        Returns
        -------
        tuple of ndarrays of shape (n_samples, n_components), one per view
            As `transform` of the same arguments. If Y is a vector, as a target in a
            `~sklearn.pipeline.Pipeline`, only the variates of the first view.
        """
        Y = second_view(Y, y)
        self.fit(X, Y)
        if Y is not None and self.views_[1].is_vector(Y):
            return self.transform(X)
        return self.transform(X, Y)

    def score(self, X: Any, Y: Any = None, *, y: Any = None) -> float:
        """Mean correlation of the variates, to be computed on held-out points.

        The unregularised Pearson correlation between views, averaged over components and pairs of
        views. It is zero for a variate that is constant on these points.

        Parameters
        ----------
        X, Y, y : as for `transform`

        Returns
        -------
        float
        """
        variates = self.transform(X, Y, y=y)
        if not isinstance(variates, tuple):
            raise ValueError("score needs every view: pass Y, or the list of views")
        check_consistent_length(*variates)
        if len(variates[0]) < 2:
            raise ValueError(f"score needs at least 2 points, found {len(variates[0])}")
        pairs = [column_correlations(a, b) for a, b in combinations(map(as_numpy, variates), 2)]
        return float(np.mean(pairs))

    def permutation_test(
        self, n_permutations: int = 999, random_state: Any = None
    ) -> PermutationTest:
        """Test whether the views are independent, on the training points.

        The statistic is the first canonical correlation. Its null distribution is that over random
        permutations of the rows of all views but the first. Under independence all permutations are
        equally likely, so the p-value (b + 1) / (m + 1) is exact: it is at most p with probability
        at most p. With "loo" the choice of the penalty favours the observed pairing. So every
        candidate is tested, and the smallest p-value is compared with the smallest one of each
        permutation, which is also exact. ``statistic`` and ``null_distribution`` are those of
        ``regularization_``.

        Parameters
        ----------
        n_permutations : int, default=999
        random_state : int, RandomState or None, default=None

        Returns
        -------
        PermutationTest
            With ``pvalue``, ``statistic`` and ``null_distribution``.
        """
        check_is_fitted(self)
        if not isinstance(n_permutations, Integral) or n_permutations < 1:
            raise ValueError(f"n_permutations={n_permutations!r}; expected a whole number >= 1")
        spectra = [one.whitening for one in self._decompose(self.views_)]
        tried = REGULARIZATIONS if self.regularization == "loo" else (self.regularization_,)
        tested = [penalties(spectra, rho) for rho in tried]
        observed = leading_correlations(spectra, tested)
        null = permuted_correlations(spectra, tested, int(n_permutations), random_state)
        at = tried.index(self.regularization_)
        return PermutationTest(float(observed[at]), best_pvalue(observed, null), null[:, at])

    @property
    def n_features_in_(self) -> int:
        """Number of features of the first view."""
        return self.views_[0].n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features of the first view."""
        return self.views_[0].feature_names_in_

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self):
        first = self.kernel[0] if isinstance(self.kernel, list | tuple) else self.kernel
        tags = input_tags(KernelView(first), super().__sklearn_tags__())
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
