"""Every private name of scikit-learn that is used here, for each version that is supported.

Nothing else imports from its private modules, from ``sklearn.callback``, which is experimental, or
a name with a leading underscore. What differs between versions is settled here, so that the rest
need not ask for the version.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _missing, _param_validation, multiclass, validation

# What parameters may be.
Interval = _param_validation.Interval
Options = _param_validation.Options
StrOptions = _param_validation.StrOptions

# Checks of input, and what is kept of it for the next.
check_feature_names = validation._check_feature_names
check_n_features = validation._check_n_features
check_y = validation._check_y
is_fitted = validation._is_fitted
is_pandas_na = _missing.is_pandas_na
is_scalar_nan = _missing.is_scalar_nan

# Classes: those of a first partial_fit, and their scores from those of pairs.
check_first_classes = multiclass._check_partial_fit_first_call
one_vs_rest_scores = multiclass._ovr_decision_function

# Attributes in which an estimator keeps its callbacks, and the context of the fit they observe.
LISTENERS = ("_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")
# Callbacks came with scikit-learn 1.9.
HAS_CALLBACKS = find_spec("sklearn.callback") is not None

if HAS_CALLBACKS:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback._callback_support import callback_management_context
else:

    class CallbackSupportMixin:
        """No callbacks: before scikit-learn 1.9 there are none."""


@contextmanager
def callbacks_around(estimator: Any) -> Iterator[Any]:
    """The context of a fit, whose callbacks are set up before and torn down after.

    None where an estimator, or this version of scikit-learn, has no callbacks.
    """
    begin = getattr(estimator, "_init_callback_context", None)
    if begin is None:
        yield None
        return
    with callback_management_context(estimator):
        yield begin(max_subtasks=None)


def without_listeners(estimator: Any) -> Any:
    """The estimator itself, whose callbacks are removed."""
    vars(estimator).pop("_skl_callbacks", None)
    return estimator


def fit_context(estimator: Any) -> Any:
    """The context that `callbacks_around` made for the fit under way."""
    return estimator._callback_fit_ctx


class ParameterMixin:
    """scikit-learn's parameters, and nothing else of its estimators.

    Their printed form would show a kernel inside an estimator by its classes, ``Sum(left=...)``,
    and not as it is written.
    """

    get_params = BaseEstimator.get_params
    set_params = BaseEstimator.set_params
    _get_param_names = classmethod(
        functools.cache(vars(BaseEstimator)["_get_param_names"].__func__)
    )


def parameter_names(cls: type) -> list[str]:
    """The names of the parameters of a class of estimators or kernels."""
    return cls._get_param_names()  # type: ignore[attr-defined]


def validate_parameter_constraints(
    constraints: dict[str, Any], given: dict[str, Any], owner: str
) -> None:
    """Raise an error that names the first parameter that is not what it may be."""
    for name, value in given.items():
        if type(value) is int and abs(value) > sys.float_info.max:
            raise ValueError(
                f"The {name!r} parameter of {owner} is beyond {sys.float_info.max:.2g}, the "
                "largest number of float64"
            )
    _param_validation.validate_parameter_constraints(constraints, given, owner)


def check_parameters(estimator: Any) -> None:
    """Raise an error that names a parameter that is not what ``_parameter_constraints`` allows.

    ``BaseEstimator`` reads that attribute too, so that its name is scikit-learn's.
    """
    given = estimator.get_params(deep=False)
    validate_parameter_constraints(
        estimator._parameter_constraints, given, type(estimator).__name__
    )


def check_sample_weight(
    sample_weight: Any, X: Any, *, allow_all_zero_weights: bool = False, **check: Any
) -> np.ndarray:
    """Sample weights as an array of shape (n,), not all of them zero unless that is allowed.

    scikit-learn asks for it since 1.9.
    """
    if "allow_all_zero_weights" in signature(validation._check_sample_weight).parameters:
        check["allow_all_zero_weights"] = True
    weight = validation._check_sample_weight(sample_weight, X, **check)
    if not (allow_all_zero_weights or np.any(weight)):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
