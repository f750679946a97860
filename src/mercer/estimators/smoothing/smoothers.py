"""Kernel smoothers: Nadaraya-Watson regression and classification, local linear regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._sklearn import check_y
from mercer.arrays import DROP, refuse_masked, to_cpu, to_device_of
from mercer.arrays.remote import over_blocks
from mercer.estimators.fitting import atomic_fit
from mercer.estimators.labels import check_labels, most_likely, refuse_missing_labels
from mercer.estimators.scores import Classifier
from mercer.estimators.smoothing.engine import (
    BANDWIDTH_CONSTRAINTS,
    COLUMN_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    Smoother,
)
from mercer.estimators.smoothing.local_regression import (
    TARGET_BANDWIDTH_CONSTRAINTS,
    LocalRegressor,
)
from mercer.estimators.smoothing.neighbourhoods import linear_weights, local_linear
from mercer.kernels.smoothing.densities import JointDensity, smoothing_kernel


class NadarayaWatsonRegressor(LocalRegressor):
    r"""Kernel regression: :math:`y(x) = \sum_n w_n(x) t_n`, weights
    :math:`w_n(x) = g(x - x_n) / \sum_m g(x - x_m)`.

    This is the mean of t given x under the joint Parzen density
    p(x, t) = (1/N) Σ f(x - x_n, t - t_n), with g(x) = ∫ f(x, t) dt.

    Parameters
    ----------
    bandwidth : "loo", "loo_common", float, array-like of shape (d,) or (d, d), default="loo"
        As in `KernelDensity`, or chosen by the exact leave-one-out squared error. "loo" (also
        "loo_per_feature") chooses one bandwidth per feature, by gradient search on a logarithmic
        scale from several starts. "loo_common" chooses one common factor of the standard deviations
        of the features. Both scale with the data. "loo" is "loo_common" beyond 100 features, or
        beyond 20 if the kernel has no gradient (local lines: beyond 48 with the Gaussian, else 20).
    kernel : str or callable, default="gaussian"
        A smoothing kernel, as in `KernelDensity`. f(x, t) is its product with the same kernel in t
        (with the Gaussian if ``kernel`` is a function).
    joint : callable, default=None
        A custom component density f(u, s) instead of the kernel, with ``u: (..., d)`` the
        difference in x divided by the bandwidth and ``s: (...)`` the difference in t divided by the
        target bandwidth; set both bandwidths to 1.0 to use f unscaled. It must be non-negative with
        mean zero in s, and need not be normalised. g is integrated numerically, with about 400
        evaluations of f per pair of points.
    target_bandwidth : "silverman", float or array-like of shape (n_outputs,), default="silverman"
        Bandwidth in t, used by `conditional_density` and ``return_std``. Silverman's rule is
        applied to the leave-one-out residuals.
    categorical_features, ordered_features : columns, "from_dtype" or None, default=None
        Categorical columns, by number, name or mask. Different categories are at distance one, so
        a column with bandwidth h multiplies the weight of points in another category by
        λ = exp(-1/2h²): λ = 1 ignores the column, λ = 0 requires equal categories. Levels of an
        ordered column that are k steps apart have the factor λ^k; their order is the sorted one, or
        that of the pandas dtype. With these parameters X may be a table of numbers and text.
        "from_dtype" selects the columns of text or categories of a DataFrame; for
        ``ordered_features``, the ordered categories.

    Attributes
    ----------
    bandwidth_ : float or ndarray
        The bandwidth used.
    target_bandwidth_ : float or ndarray
        The bandwidth in t; 0 if the residuals are constant.
    loo_predictions_ : ndarray with the shape of ``y_fit_``
        Leave-one-out predictions of the training points; NaN for a single point.
    selection_ : dict or None
        The first stage of the search: each ``bandwidth`` tried, (k, d), which are common multiples,
        its ``score``, (k,), the leave-one-out error divided by the variance of y, and whether the
        search continued ``per_feature``. With more than 50 features, local lines are compared at
        some of the points only.
    coding_ : ColumnCoding or None
        The coding of categorical columns.
    kernel_ : SmoothingKernel
        The kernel used.
    X_fit_, y_fit_, sample_weight_ : ndarray
        Training points of positive weight.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    If a kernel with compact support reaches no training point, the nearest ones (in the metric of
    the bandwidth) share the weight, which is also the limit of the Gaussian far from the data.
    ``sample_weight`` counts repetitions: a row of weight 2 equals two rows, and leave-one-out
    reduces its weight by one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.smoothing.smoothers import NadarayaWatsonRegressor
    >>> X, t = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])
    >>> model = NadarayaWatsonRegressor(bandwidth=0.5).fit(X, t)
    >>> model.predict([[1.0]]).round(3)
    array([1.213])
    >>> model.weights([[1.0]]).round(3)
    array([[0.107, 0.787, 0.107]])

    References
    ----------
    E. A. Nadaraya, On estimating regression, Theory of Probability and its Applications 9 (1964);
    G. S. Watson, Smooth regression analysis, Sankhya A 26 (1964).
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bandwidth": BANDWIDTH_CONSTRAINTS,
        "kernel": KERNEL_CONSTRAINTS,
        "joint": [callable, None],
        "target_bandwidth": TARGET_BANDWIDTH_CONSTRAINTS,
        "categorical_features": COLUMN_CONSTRAINTS,
        "ordered_features": COLUMN_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        bandwidth="loo",
        kernel="gaussian",
        joint=None,
        target_bandwidth="silverman",
        categorical_features=None,
        ordered_features=None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.joint = joint
        self.target_bandwidth = target_bandwidth
        self.categorical_features = categorical_features
        self.ordered_features = ordered_features

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NadarayaWatsonRegressor:
        """Store the points and choose the bandwidths.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each point.

        Returns
        -------
        self : NadarayaWatsonRegressor
        """
        if self.joint is None:
            return self._fit(X, y, sample_weight, lambda d: smoothing_kernel(self.kernel, d))
        if self.kernel != "gaussian":
            raise ValueError(
                f"kernel={self.kernel!r} and joint were both given; joint takes the kernel's "
                "place, so leave kernel out"
            )
        if np.ndim(y) == 2 and np.shape(y)[1] > 1:
            raise ValueError(
                f"joint is a density of x and one t, but y has {np.shape(y)[1]} outputs; fit one "
                "model for each, for example with sklearn.multioutput.MultiOutputRegressor"
            )
        joint = JointDensity(self.joint)
        self._fit(X, y, sample_weight, lambda d: joint)
        V = self._neighbourhoods().V[:16]
        joint.check_centred(V - V[0])
        return self


class LocalLinearRegressor(LocalRegressor):
    r"""Local linear regression: :math:`y(x) = a` of
    :math:`\min_{a,b} \sum_n w_n(x) (t_n - a - b^T(x_n - x))^2`.

    Straight lines are fitted exactly, without the bias of Nadaraya-Watson at the boundary of the
    data.

    Parameters
    ----------
    bandwidth : "loo", "loo_common", float, array-like of shape (d,) or (d, d), default="loo"
        As in `NadarayaWatsonRegressor`.
    kernel : str or callable, default="gaussian"
        A smoothing kernel, as in `KernelDensity`.
    target_bandwidth : "silverman", float or array-like of shape (n_outputs,), default="silverman"
        Bandwidth in t, as in `NadarayaWatsonRegressor`.
    categorical_features, ordered_features : columns, "from_dtype" or None, default=None
        Categorical columns, as in `NadarayaWatsonRegressor`. They affect the weights; lines have
        slopes in numeric columns only.

    Attributes
    ----------
    bandwidth_, target_bandwidth_, loo_predictions_, kernel_, X_fit_, y_fit_, sample_weight_
        As in `NadarayaWatsonRegressor`.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The least squares problem at each query is solved by QR, without a ridge penalty. If the local
    design is singular in a direction, the slope in it is zero, as in Nadaraya-Watson. The
    conditional density moves each target along the local slope to the query, so its mean is the
    prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators.smoothing.smoothers import LocalLinearRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> model = LocalLinearRegressor(bandwidth=1.0).fit(X, 3 * X[:, 0] + 1)
    >>> model.predict([[7.0]]).round(6)
    array([22.])

    References
    ----------
    J. Fan and I. Gijbels, Local Polynomial Modelling and Its Applications (1996);
    R. J. Hyndman, D. M. Bashtannyk and G. K. Grunwald, Estimating and visualizing conditional
    densities, Journal of Computational and Graphical Statistics 5 (1996);
    Q. Li and J. S. Racine, Cross-validated local linear nonparametric regression, Statistica
    Sinica 14 (2004).
    """

    _local_fit = staticmethod(local_linear)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bandwidth": BANDWIDTH_CONSTRAINTS,
        "kernel": KERNEL_CONSTRAINTS,
        "target_bandwidth": TARGET_BANDWIDTH_CONSTRAINTS,
        "categorical_features": COLUMN_CONSTRAINTS,
        "ordered_features": COLUMN_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        bandwidth="loo",
        kernel="gaussian",
        target_bandwidth="silverman",
        categorical_features=None,
        ordered_features=None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.target_bandwidth = target_bandwidth
        self.categorical_features = categorical_features
        self.ordered_features = ordered_features

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LocalLinearRegressor:
        """Store the points and choose the bandwidths.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each point.

        Returns
        -------
        self : LocalLinearRegressor
        """
        return self._fit(X, y, sample_weight, lambda d: smoothing_kernel(self.kernel, d))

    @over_blocks
    def weights(self, X: Any) -> np.ndarray:
        """l_n(x) with y(x) = Σ l_n(x) t_n, (m, n); rows sum to one, entries may be negative."""
        X, near = self._queries(X), self._neighbourhoods()
        V = near.sites
        blocks = near.blocks(X, floats_per_pair=4 * X.shape[1])
        return np.concatenate([linear_weights(W, U, V) for _, U, W in blocks])


class NadarayaWatsonClassifier(Classifier, Smoother):
    r"""Parzen classifier: :math:`P(c \mid x) = \sum_{n: t_n = c} w_n(x)`.

    This is Bayes' rule with a Parzen density per class and class frequencies as priors.

    Parameters
    ----------
    bandwidth : "loo", "loo_common", float, array-like of shape (d,) or (d, d), default="loo"
        As in `NadarayaWatsonRegressor`. The leave-one-out error is the Brier score, the squared
        error of the probabilities; it is a proper score and finite for all kernels.
    kernel : str or callable, default="gaussian"
        A smoothing kernel, as in `KernelDensity`.
    categorical_features, ordered_features : columns, "from_dtype" or None, default=None
        Categorical columns, as in `NadarayaWatsonRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bandwidth_ : float or ndarray
        The bandwidth used.
    loo_probabilities_ : ndarray of shape (n, n_classes)
        Leave-one-out class probabilities of the training points; NaN for a single point.
    kernel_ : SmoothingKernel
        The kernel used.
    X_fit_, y_fit_, sample_weight_ : ndarray
        Training points of positive weight; ``y_fit_`` holds positions in ``classes_``.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Weights far from the data and ``sample_weight`` are as in `NadarayaWatsonRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer.estimators.smoothing.smoothers import NadarayaWatsonClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> NadarayaWatsonClassifier().fit(X, y).score(X, y) > 0.95
    True

    References
    ----------
    D. J. Hand, Kernel Discriminant Analysis (1982).
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bandwidth": BANDWIDTH_CONSTRAINTS,
        "kernel": KERNEL_CONSTRAINTS,
        "categorical_features": COLUMN_CONSTRAINTS,
        "ordered_features": COLUMN_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        bandwidth="loo",
        kernel="gaussian",
        categorical_features=None,
        ordered_features=None,
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.categorical_features = categorical_features
        self.ordered_features = ordered_features

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NadarayaWatsonClassifier:
        """Store the points and choose the bandwidth.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Number of repetitions of each point.

        Returns
        -------
        self : NadarayaWatsonClassifier
        """
        refuse_missing_labels(y)
        X = self._training_points(X, y)
        y = check_y(to_cpu(y))
        check_labels(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        kept = self._store_points(X, sample_weight)
        self.y_fit_ = codes[kept]
        self.kernel_ = smoothing_kernel(self.kernel, self.X_fit_.shape[1])
        left_out = self._settle(self._indicators(), np.ones(len(self.classes_)))
        self.loo_probabilities_ = to_device_of(left_out.clip(0.0, 1.0), self.X_fit_)
        return self

    @over_blocks
    def predict_proba(self, X: Any) -> np.ndarray:
        """P(c | x) for each row of ``X: (m, d)`` and each class, (m, n_classes)."""
        means = self._means(self._queries(X), self._indicators())
        return means.clip(0.0, 1.0)  # which rounding leaves

    @over_blocks
    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row of ``X: (m, d)``, shape (m,)."""
        probabilities = self.predict_proba(X)
        return most_likely(self.classes_, probabilities)

    @over_blocks
    def conditional_density(self, X: Any, t: Any) -> np.ndarray:
        """P(t | x) for each row of ``X: (m, d)`` and each label of ``t: (q,)``, (m, q)."""
        probabilities = self.predict_proba(X)
        refuse_masked(t, "t", DROP)
        labels = np.atleast_1d(t)
        unknown = labels[~np.isin(labels, self.classes_)]
        if len(unknown):
            raise ValueError(f"t has label {unknown[0]!r}; expected some of {self.classes_}")
        return probabilities[:, np.searchsorted(self.classes_, labels)]

    def _indicators(self) -> np.ndarray:
        return np.eye(len(self.classes_))[self.y_fit_]
