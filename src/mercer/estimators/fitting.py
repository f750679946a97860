"""Around every fit: parameters are validated, errors change nothing, early stops are warned of."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.exceptions import ConvergenceWarning

from mercer._sklearn import check_parameters, is_fitted
from mercer.arrays import backend
from mercer.arrays.libraries import is_numbers, is_tensor, tensor_where, to_input_type, to_native
from mercer.arrays.remote import implementation, is_collection
from mercer.arrays.torch_state import learning
from mercer.estimators.array_support import array_support
from mercer.estimators.intervals import PredictionIntervals, remember_training
from mercer.estimators.prediction_cache import drop_cache
from mercer.estimators.progress import fit_callbacks
from mercer.estimators.user_warnings import warn_the_caller
from mercer.kernels.kernel import plain_key
from mercer.memory_errors import explained_call, is_bare

# Arguments that are computed with as they are.
PLAIN = {np.ndarray, type(None)}
# Parameters that were found valid; as many as are remembered.
_VALID: set[tuple] = set()
MOST_VALID = 1024


def atomic_fit(fit: Callable) -> Callable:
    """Around every ``fit``: parameters are validated, and it happens wholly or not at all.

    An error or Ctrl-C leaves the estimator as it was before. Callbacks are called at begin and end,
    and a ``result_`` whose status is not ok is warned of. Dask collections are fitted where they
    are. torch records nothing of a fit, and what is kept shares no memory with tensors given.
    """

    continues = fit.__name__ == "partial_fit"

    @functools.wraps(fit)
    def fit_atomically(self: Any, *arguments: Any, **named: Any) -> Any:
        before = dict(vars(self))
        if any(name.endswith("_") for name in before):  # fitted before
            drop_cache(self)
        skip = get_config()["skip_parameter_validation"]
        if not (skip or (continues and is_fitted(self))):
            validate_parameters(self)
        try:
            with config_context(skip_parameter_validation=True), fit_callbacks(self):
                if PLAIN.issuperset(map(type, (*arguments, *named.values()))):
                    vars(self).pop("_labels_in_tensors", None)
                    fitted = fit(self, *arguments, **named)
                else:
                    fitted, arguments, named = _fit_converted(self, fit, arguments, named)
            if isinstance(self, PredictionIntervals):
                _remember(self, fit.__name__, arguments, named)
            result = getattr(self, "result_", None)
            if result is not None and not result.status.ok:
                warn_of_convergence(f"{type(self).__name__} stopped early. {result.message}")
            return fitted
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    with_torch = learning(fit_atomically)

    @functools.wraps(fit)
    def fit_explained(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            work = with_torch if "torch" in sys.modules else fit_atomically
            return work(self, *arguments, **named)
        except MemoryError as error:
            if is_bare(error):
                raise explained_call(error, fit.__name__, (self, *arguments), named) from error
            raise

    return fit_explained


def _fit_converted(
    estimator: Any, fit: Callable, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Fit to arrays of any library or Dask collections: the answer, and the converted arguments."""
    X = arguments[0] if arguments else named.get("X")
    work = implementation().fitter(estimator, fit.__name__) if is_collection(X) else fit
    arguments = tuple(to_native(A) for A in arguments)
    named = {name: to_native(A) for name, A in named.items()}
    fitted = to_input_type(work(estimator, *arguments, **named), X)
    _answer_tensors(estimator, arguments, named)
    return fitted, arguments, named


def _remember(
    estimator: Any, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> None:
    """Keep what a regression was fitted to, if its intervals may need that."""
    names = ("X", "y", "sample_weight")
    given = {**dict(zip(names, arguments, strict=False)), **named}
    whole = method == "fit" and given.get("y") is not None and not is_collection(given.get("X"))
    remember_training(
        estimator, given.get("X") if whole else None, given.get("y"), given.get("sample_weight")
    )


@functools.cache
def _parameter_names(owner: type) -> list[str]:
    return list(inspect.signature(owner).parameters)


def validate_parameters(estimator: Any) -> None:
    """scikit-learn's check of the parameters, once for each set of plain values.

    One function is as good as another: nothing but ``callable`` is asked of it.
    """
    owner = type(estimator)
    values = {name: getattr(estimator, name) for name in _parameter_names(owner)}
    functions = tuple(name for name, value in values.items() if type(value) is FunctionType)
    key = plain_key({n: None if n in functions else v for n, v in values.items()}, owner)
    if key is None:
        check_parameters(estimator)
    elif (functions, key) not in _VALID:
        check_parameters(estimator)
        if len(_VALID) >= MOST_VALID:
            _VALID.clear()
        _VALID.add((functions, key))


def _answer_tensors(estimator: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Fitted arrays as tensors where X is one, and copies of numbers that tensors given hold.

    Their owner may change those. That labels were a tensor is remembered.
    """
    vars(estimator).pop("_labels_in_tensors", None)
    given = (*arguments, *named.values())
    listed = (A for each in given for A in (each if isinstance(each, list | tuple) else (each,)))
    tensors = [A for A in listed if is_tensor(A)]
    if not tensors:
        return
    X, y = (arguments[i] if len(arguments) > i else named.get(name) for i, name in enumerate("Xy"))
    for name in array_support(estimator).answers if any(A is X for A in tensors) else ():
        value: Any = getattr(estimator, name, None)
        if is_numbers(value):
            setattr(estimator, name, tensor_where(value, X))
    if any(A is y for A in tensors) and hasattr(estimator, "classes_"):
        estimator._labels_in_tensors = True
    for part in (estimator, *getattr(estimator, "views_", ())):
        for name, value in vars(part).items():
            shared = any(backend(value).shares_memory(value, A) for A in tensors)
            if shared and name not in part.get_params(deep=False):
                setattr(part, name, backend(value).copy(value))


def warn_of_convergence(message: str) -> None:
    """Warn that a solver stopped early, or that the solution is not unique."""
    warn_the_caller(message, ConvergenceWarning)
