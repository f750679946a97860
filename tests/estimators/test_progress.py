"""Callbacks hear of every iteration and can stop a fit, which leaves a usable model."""

from __future__ import annotations

import warnings

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.solvers.result import Status

X, Y = load_breast_cancer(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[:200], Y[:200]


class Listener:
    """Remembers what it is told, and stops after some iterations."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.told = []
        self.closed = False

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.closed = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata):
        if metadata is None:
            return False
        self.told.append(metadata["gap"])
        return self.stop_after is not None and len(self.told) > self.stop_after


ITERATIVE = {
    "SVC": {"C": 100.0},
    "SVR": {},
    "NuSVC": {"nu": 0.1},
    "NuSVR": {},
    "OneClassSVM": {"tol": 1e-9, "nu": 0.3},
    "KernelMachineClassifier": {"alpha": 1e-3, "kernel": "rbf"},
    "KernelMachineRegressor": {"alpha": 1e-2, "kernel": "rbf", "loss": "poisson"},
    "KernelRidge": {"solver": "gd", "kernel": "rbf"},
    "KernelRidgeClassifier": {"solver": "gd"},
}


@pytest.mark.parametrize("name", ITERATIVE)
def test_a_listener_hears_of_iterations_and_can_stop(name):
    quiet = getattr(mercer, name)(**ITERATIVE[name]).fit(X, Y)
    listener = Listener()
    heard = getattr(mercer, name)(**ITERATIVE[name]).set_callbacks(listener).fit(X, Y)
    assert listener.closed
    assert len(listener.told) >= 2
    assert (heard.predict(X) == quiet.predict(X)).all()
    stopper = Listener(stop_after=1)
    with pytest.warns(ConvergenceWarning, match="stopped by a callback"):
        early = getattr(mercer, name)(**ITERATIVE[name]).set_callbacks(stopper).fit(X, Y)
    assert early.result_.status is Status.STOPPED
    assert early.predict(X).shape == (200,)


def test_an_error_still_closes_the_callbacks():
    listener = Listener()
    model = mercer.KernelMachineClassifier(kernel="gauss").set_callbacks(listener)
    with pytest.raises(ValueError, match="kernel"):
        model.fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(kernel="rbf").fit(X, Y)
    assert listener.closed
